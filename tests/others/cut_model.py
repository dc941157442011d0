"""Deletes in the files of all writers, and what must be read of them: plain Python, row by row.

The model knows nothing of revisions: it counts what each writer commits, and a cut is such a count
for each of some writers. So it says what must be read also after a log was rebuilt, which numbers
its revisions anew.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import duckdb
import polars as pl
import pyarrow as pa
from ids_read import ids, ids_of_file
from lakelog import open_catalog
from lakelog.catalog.format.cut import Cut, parse_token
from lakelog.errors import InvalidPredicate, OperationConflict, TableNotFound
from lakelog.rebuild import execute_rebuild, plan_rebuild

if TYPE_CHECKING:
    import random
    from collections.abc import Callable
    from pathlib import Path


WRITERS = "uvw"
DEFAULT = 7  # of column x, where a log declares it
Row = dict[str, Any]


@dataclass(frozen=True)
class File:
    """A file: its writer, which of its commits added it, and its rows as it stores them."""

    writer: str
    added: int
    rows: tuple[Row, ...]
    born: int  # which column k it has
    gone: frozenset[int] = frozenset()  # ids of rows that went as it was added again


@dataclass(frozen=True)
class Columns:
    """What one log makes of its files' columns."""

    text: str = "s"  # what it calls that column
    born: int = 0  # which column k it has now
    has_default: bool = False


@dataclass(frozen=True)
class Delete:
    """Rows that go: of files of some writers, up to a commit of each."""

    writer: str
    at: int
    upto: dict[str, int]
    goes: frozenset[int]  # ids: what the predicate meant when it was said


@dataclass(frozen=True)
class Point:
    """What the logs held: by writer its count of commits and live files; and its columns."""

    counts: dict[str, int]
    files: dict[str, dict[str, File]]
    columns: dict[str, Columns]


class Model:
    """A database of three writers."""

    def __init__(self, rng: random.Random, folder: Path) -> None:
        self.rng = rng
        self.catalog = open_catalog(str(folder))
        self.counts: dict[str, int] = {}
        self.files: dict[str, dict[str, File]] = {}
        self.columns = dict.fromkeys(WRITERS, Columns())
        self.deletes: list[Delete] = []
        self.points: dict[str, Point] = {}
        self.positions: dict[tuple[str, int], Any] = {}
        self.next = 0
        self.had_x: set[str] = set()  # writers whose files had a column x, undefined
        self.told: list[str] = []
        self.more: list[Callable[[str], None]] = []  # other steps
        self.write("u")

    def do(self, name: str, change: Callable[[Any], Any]) -> Any:
        """One transaction; it counts if it says anything."""
        with self.catalog.writer(name, "db", checkpoint_every=0) as writer:
            with writer.transaction() as tx:
                found = change(tx)
            if tx.commit_info is not None:
                self.counts[name] = self.counts.get(name, -1) + 1
                self.files[name] = dict(self.files.get(name, {}))
        return found

    # --- What rows are ----------------------------------------------------------------------------

    def shown(self, file: File, columns: dict[str, Columns]) -> list[Row]:
        """A file's rows as a cut has them."""
        own, found = columns[file.writer], []
        for row in file.rows:
            shown = {"id": row["id"], "k": None, "s": None, "t": None, "x": None}
            if own.born == file.born:
                shown["k"] = row["k"]
            shown[own.text] = row["s"]
            shown["x"] = row.get("x", DEFAULT if own.has_default else None)
            found.append(shown)
        return found

    def left(self, point: Point, *, cut: dict[str, int] | None = None) -> dict[int, Row]:
        """What must be read at a cut, by id."""
        counts = point.counts if cut is None else cut
        files = [file for name in counts for file in point.files[name].values()]
        found = {}
        for file in files:
            gone = {
                one for each in self.deletes
                if counts.get(each.writer, -1) >= each.at
                and file.added <= each.upto.get(file.writer, -1)
                for one in each.goes
            } | file.gone  # fmt: skip
            for row in self.shown(file, point.columns):
                if row["id"] not in gone:
                    found[row["id"]] = row
        return found

    # --- Steps ------------------------------------------------------------------------------------

    def step(self) -> None:
        rng, name = self.rng, self.rng.choice(WRITERS)
        steps = [self.write] * 4 + [self.delete_own] * 2 + [self.delete_of_cut] * 4
        steps += [self.rewrite, self.rewrite, self.overwrite, self.remove, self.evolve]
        chosen = rng.choice([*steps, self.checkpoint, self.rebuild, *self.more])
        if self.files.get(name) or chosen in (self.write, self.delete_of_cut):
            self.told.append(f"{chosen.__name__} {name}")
            chosen(name)
        self.look()

    def write(self, name: str) -> None:
        rng, own, rows = self.rng, self.columns[name], []
        with_x = rng.random() < 0.4
        for _ in range(rng.choice([1, 3, 6])):
            row = {"id": self.next, "k": rng.choice([None, 0, 1, 2, 3]), "s": rng.choice("ab")}
            if with_x:
                row["x"] = rng.choice([None, DEFAULT, 8])
            rows.append(row)
            self.next += 1
        schema = [("id", pa.int64()), ("k", self.whole(name)), (own.text, pa.string())]
        schema += [("x", pa.int64())] if with_x else []
        table = pa.Table.from_pylist(
            [{own.text: row["s"], **row} for row in rows], pa.schema(schema)
        )
        (path,) = self.do(name, lambda tx: tx.write("t", table))
        self.files[name][path] = File(name, self.counts[name], tuple(rows), own.born)
        self.had_x |= {name} if with_x else set()

    def whole(self, name: str) -> pa.DataType:
        return pa.int32() if name == "u" and not self.columns[name].born else pa.int64()

    def predicate(self, writers: set[str]) -> tuple[str, Callable[[Row], Any]]:
        """SQL, and the same of a row."""
        rng, k, x = self.rng, self.rng.choice([0, 1, 2]), self.rng.choice([DEFAULT, 8])
        text = rng.choice(sorted({self.columns[name].text for name in writers}))
        end = rng.randrange(self.next + 1)
        return rng.choice([
            (f"k = {k}", lambda row: row["k"] == k),
            ("k IS NULL", lambda row: row["k"] is None),
            (f"k < {k} OR {text} IS NULL",
             lambda row: row[text] is None or (row["k"] is not None and row["k"] < k)),
            (f"{text} = 'a' AND id < {end}", lambda row: row[text] == "a" and row["id"] < end),
            (f"x = {x}", lambda row: row["x"] == x),
            (f"id >= {end}", lambda row: row["id"] >= end),
            ("id IS NOT NULL AND k IS NOT NULL", lambda row: row["k"] is not None),
        ])  # fmt: skip

    def _goes(self, files: list[File], columns: dict[str, Columns], met: Any) -> frozenset[int]:
        shown = (row for file in files for row in self.shown(file, columns))
        return frozenset(row["id"] for row in shown if met(row))

    def delete_own(self, name: str) -> None:
        text, met = self.predicate({name})
        mode = self.rng.choice(["auto", "predicate", "rows"])
        before = self.counts[name]
        try:
            self.do(name, lambda tx: tx.delete("t", text, mode=mode))
        except InvalidPredicate:
            return
        goes = self._goes(list(self.files[name].values()), self.columns, met)
        self.told[-1] += f" {text} {mode}"
        if self.counts[name] > before:
            self.deletes.append(Delete(name, self.counts[name], {name: before}, goes))
        for path in self.files[name].keys() - self.live(name):  # of which every row went
            del self.files[name][path]

    def delete_of_cut(self, name: str) -> None:
        """As of now, or of an earlier cut of all or some writers; by a snapshot or its token."""
        token = self.rng.choice([list(self.points)[-1], self.rng.choice(list(self.points))])
        point, counts = self.points[token], dict(self.points[token].counts)
        if self.rng.random() < 0.3:
            counts = dict(self.rng.sample(sorted(counts.items()), self.rng.randint(1, len(counts))))
        token = self.token(counts)
        cut = token if self.rng.random() < 0.5 else self.catalog.snapshot("db", token)
        text, met = self.predicate(set(counts))
        before = self.counts.get(name, -1)
        try:
            self.do(name, lambda tx: tx.delete("t", text, cut=cut))
        except (InvalidPredicate, TableNotFound):
            return
        except OperationConflict:
            gone = [self.files[one].get(path) != file for one in counts
                    for path, file in point.files[one].items()]  # fmt: skip
            assert any(gone), self.told
            return
        self.told[-1] += f" {text} of {counts}"
        if self.counts.get(name, -1) > before:
            upto = {one: counts[one] for one in counts if point.files[one]}
            goes = self._goes(self._until(point, upto), point.columns, met)
            self.deletes.append(Delete(name, self.counts[name], upto, goes))

    def _until(self, point: Point, upto: dict[str, int]) -> list[File]:
        """The files of a point, and those that were gone by then: where one of these is read beside
        a delete of the point, as its log went back or in a cut of several times, its rows go
        too."""
        found = {}
        for each in [point, *self.points.values()]:
            for one, at in upto.items():
                for path, file in each.files.get(one, {}).items():
                    if file.added <= at:
                        found.setdefault((path, file.added), file)
        return list(found.values())

    def rewrite(self, name: str) -> None:
        paths = [path for path in sorted(self.files[name]) if self.rng.random() < 0.6]
        if paths:
            self._anew(name, paths, lambda tx: tx.rewrite("t", paths))

    def overwrite(self, name: str) -> None:
        text, met = self.predicate({name})
        left = self._goes(list(self.files[name].values()), self.columns, met)
        data = pa.table(
            {
                "id": pa.array([self.next], pa.int64()),
                "k": pa.array([None], self.whole(name)),
                self.columns[name].text: pa.array([None], pa.string()),
            }
        )
        try:
            paths = self._anew(
                name, None, lambda tx: tx.overwrite("t", data, text, validate=False), left
            )
        except InvalidPredicate:
            return
        row = {"id": self.next, "k": None, "s": None}
        self.next += 1
        own = File(name, self.counts[name], (row,), self.columns[name].born)
        self.files[name][paths[0]] = own

    def _anew(
        self, name: str, paths: list[str] | None, change: Any, without: frozenset[int] = frozenset()
    ) -> list[str]:
        """Rows of files in other files: those that are to be read now."""
        newest = self.point()
        left = {n: row for n, row in self.left(newest).items() if n not in without}
        done = self.do(name, change)
        assert paths is None or done.removed == paths
        own = self.columns[name]
        known = {path: self.files[name].pop(path) for path in done.removed}
        wanted = {row["id"]: row for file in known.values() for row in file.rows}
        for path in done.rewritten:
            snapshot = self.catalog.snapshot("db")
            ids = ids_of_file(snapshot, name, path)
            assert set(ids) <= set(wanted)
            shown = {
                row["id"]: row for file in known.values()
                for row in self.shown(file, self.columns)
            }  # fmt: skip
            rows = tuple(
                {"id": one, "k": shown[one]["k"], "s": shown[one][own.text]}
                | ({"x": shown[one]["x"]} if own.has_default or "x" in wanted[one] else {})
                for one in ids
            )
            self.files[name][path] = File(name, self.counts[name], rows, own.born)
        found = {row["id"] for path in done.rewritten for row in self.files[name][path].rows}
        assert found == set(wanted) & set(left)
        return list(done.paths)

    def remove(self, name: str) -> None:
        path = self.rng.choice(sorted(self.files[name]))
        self.do(name, lambda tx: tx.remove(path))
        del self.files[name][path]

    def live(self, name: str) -> set[str]:
        return set(self.catalog.snapshot("db").files("t", writer=name)["path"].to_pylist())

    def evolve(self, name: str) -> None:
        own = self.columns[name]
        what = self.rng.choice(["rename", "default", "anew"])
        if what == "rename" and own.text == "s":
            own = replace(own, text="t")
            self.do(name, lambda tx: tx.evolve("t", rename={"s": "t"}))
        elif what == "default" and not own.has_default:
            if name in self.had_x:  # else it would be another column of that name
                return
            own = replace(own, has_default=True)
            change = {"add": {"x": pa.int64()}, "default": {"x": DEFAULT}}
            self.do(name, lambda tx: tx.evolve("t", **change))
        elif what == "anew" and not own.born:
            own = replace(own, born=1)
            self.do(name, lambda tx: tx.evolve("t", drop=["k"], add={"k": pa.int64()}))
        self.columns = self.columns | {name: own}

    def checkpoint(self, name: str) -> None:
        with self.catalog.writer(name, "db") as writer:
            writer.checkpoint()

    def rebuild(self, name: str) -> None:
        """From here on its revisions have other numbers: earlier ones are no cuts with others."""
        execute_rebuild(self.catalog, plan_rebuild(self.catalog, name, "db"))
        self.counts[name] += 1
        self.files[name] = dict(self.files[name])

    # --- What must be read ------------------------------------------------------------------------

    def point(self) -> Point:
        files = {name: dict(held) for name, held in self.files.items()}
        return Point(dict(self.counts), files, dict(self.columns))

    def look(self) -> None:
        snapshot = self.catalog.snapshot("db")
        point = self.points[snapshot.token] = self.point()
        for name, position in parse_token(snapshot.token).writers.items():
            self.positions[name, self.counts[name]] = position
        wanted = self.left(point)
        assert ids(snapshot.to_arrow("t")) == sorted(wanted), self.told
        name = self.rng.choice(sorted(name for name in self.files if self.files[name]) or ["u"])
        own = {row["id"] for file in point.files[name].values() for row in file.rows}
        found = snapshot.to_arrow("t", ["id"], writer=name)
        assert ids(found) == sorted(own & set(wanted)), self.told

    def token(self, counts: dict[str, int]) -> str:
        positions = {name: self.positions[name, at] for name, at in sorted(counts.items())}
        return Cut("db", positions).token

    def check(self) -> None:
        """Every engine: now, at some points in time, and in cuts of several."""
        tokens = list(self.points)
        for token in {tokens[-1], *self.rng.sample(tokens, min(2, len(tokens)))}:
            self.check_at(token, self.left(self.points[token]))
        for _ in range(3):
            one, two = (self.points[self.rng.choice(tokens)] for _ in range(2))
            counts = {
                name: (one if self.rng.random() < 0.5 else two).counts.get(name, -1)
                for name in WRITERS
            }
            counts = {name: at for name, at in counts.items() if at >= 0}
            if not counts:
                continue
            self.check_at(self.token(counts), self.left(self.point_of(counts)))

    def point_of(self, counts: dict[str, int]) -> Point:
        """What there was at a cut that has each writer as it was at another time."""
        files, columns = {}, {}
        for name, at in counts.items():
            known = next(p for p in self.points.values() if p.counts.get(name) == at)
            files[name], columns[name] = known.files[name], known.columns[name]
        return Point(counts, files, columns)

    def check_at(self, token: str, wanted: dict[int, Row]) -> None:
        snapshot, every = self.catalog.snapshot("db", token), sorted(wanted)
        some = sorted(n for n in wanted if n % 3 == 1)
        found = snapshot.to_arrow("t")
        assert ids(found) == every, self.told
        for row in found.to_pylist():
            assert all(wanted[row["id"]][name] == value for name, value in row.items()), self.told
        dataset = snapshot.dataset("t")
        assert ids(dataset.to_table(columns=["id"])) == every
        assert dataset.count_rows() == len(every)
        assert sorted(snapshot.to_pandas("t", ["id"])["id"]) == every
        lazy = snapshot.to_polars("t")
        assert sorted(lazy.filter(pl.col("id") % 3 == 1).collect()["id"].to_list()) == some
        assert lazy.select(pl.len()).collect().item() == len(every)
        with duckdb.connect() as connection:
            snapshot.to_duckdb(connection, ["t"])
            rows = connection.sql("select id from t where id % 3 = 1").fetchall()
            assert sorted(row[0] for row in rows) == some
            assert connection.sql("select count(*) from t").fetchall() == [(len(every),)]
