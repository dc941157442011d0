"""Going back, and changes between cuts, with deletes in the files of all writers: against the model
of `cut_model.py`."""

from __future__ import annotations

import datetime as dt
from collections import Counter
from dataclasses import replace
from typing import TYPE_CHECKING

from cut_model import WRITERS, Delete, Model, Point

if TYPE_CHECKING:
    import random
    from pathlib import Path

LONG_AGO = dt.datetime(2001, 1, 1, tzinfo=dt.UTC)


class Going(Model):
    """A database of three writers, some of whose logs are taken back now and then."""

    def __init__(self, rng: random.Random, folder: Path) -> None:
        super().__init__(rng, folder)
        self.lives: dict[str, int] = {}  # the count at which a log's present life begins
        self.more = [self.restore] * 3
        self.compared = 0

    def rebuild(self, name: str) -> None:
        super().rebuild(name)
        self.lives[name] = self.counts[name]

    def had_files(self, name: str) -> bool:
        return any(point.files.get(name) for point in self.points.values())

    def is_known(self, counts: dict[str, int]) -> bool:
        """Whether a cut is of the logs as they are numbered now."""
        return all(at >= self.lives.get(name, 0) for name, at in counts.items())

    # --- Going back -------------------------------------------------------------------------------

    def restore(self, name: str) -> None:
        """To an earlier point, of all writers or of some."""
        token, then = self.rng.choice(list(self.points.items()))
        if not self.is_known(then.counts) or then.columns != self.columns:
            return
        some = set(self.counts)
        if self.rng.random() < 0.4:
            some = set(self.rng.sample(sorted(some), self.rng.randint(1, len(some))))
        elif some != then.counts.keys():  # what of the others has to be said
            return
        self.told[-1] += f" {sorted(some)} to {then.counts}"
        now = self.point()
        counts = {one: then.counts.get(one, -1) if one in some else at
                  for one, at in now.counts.items()}  # fmt: skip
        files = {one: (then if one in some else now).files.get(one, {}) for one in now.counts}
        back, left = self.left(Point(counts, files, self.columns)), self.left(now)
        writers = None if some == self.counts.keys() == then.counts.keys() else sorted(some)
        if not any(self.had_files(one) for one in some):
            return  # none of them knows the table
        plan = self.catalog.restore("db", "t", to=token, writers=writers)
        done = self.catalog.restore("db", "t", to=token, writers=writers, execute=plan)
        for change in done.changes:
            if change.commit is not None:
                self._went_back(change, files[change.writer], set(left), set(back))
        here = {row["id"] for one in some for file in files[one].values() for row in file.rows}
        others = {
            row["id"] for one in now.counts.keys() - some
            for file in now.files[one].values() for row in file.rows
        }  # fmt: skip
        wanted = (set(back) & here) | (set(left) & others)
        assert set(self.left(self.point())) == wanted, self.told

    def _went_back(self, change, files, now: set[int], then: set[int]) -> None:
        """A log is as it was, by one commit.

        Args:
            now, then: Ids of the rows that were read before it, and that are to be read after.
        """
        name = change.writer
        self.counts[name] += 1
        again = set(change.of("added")["path"].to_pylist())
        deletes = change.deletes.filter(change.deletes["added_again"])
        again |= set(deletes["path"].to_pylist())
        found, more = {}, set()
        for path, file in files.items():
            rows = {row["id"] for row in file.rows}
            if path in again:
                gone = frozenset(rows - then)
                found[path] = replace(file, added=self.counts[name], gone=gone)
            else:
                assert path in self.files[name]
                assert rows & then <= now, "rows come back with files that are added again"
                found[path] = self.files[name][path]
                more |= (rows & now) - then
        self.files[name] = found
        if more:
            upto = {name: self.counts[name] - 1}
            self.deletes.append(Delete(name, self.counts[name], upto, frozenset(more)))

    # --- Changes ----------------------------------------------------------------------------------

    def check_changes(self) -> None:
        """The rows of a cut, without those that are told deleted and with those that are told
        inserted, are the rows of a later one; also where each writer is as it was at another
        time."""
        since, until = self._two_cuts()
        if not self.is_known(since) or not self.is_known(until):
            return
        cuts = [self.point_of(since), self.point_of(until)]
        if not any(cuts[1].files.values()):
            return
        before, after = (self.left(cut) for cut in cuts)
        for net in (True, False):
            told = self.catalog.changes(
                "db", "t", self.token(since) if since else LONG_AGO, self.token(until), ["id"],
                net=net,
            ).read_all()  # fmt: skip
            found = Counter(dict.fromkeys(before, 1))
            for row in told.to_pylist():
                found[row["id"]] += 1 if row["_change"] == "insert" else -1
                assert not net or set(found.values()) <= {-1, 0, 1}
                assert net or found[row["id"]] in (0, 1), "deleted before it was inserted"
                low, high = (self._revision(row["_writer"], cut) for cut in (since, until))
                assert low < row["_revision"] <= high
            known = Counter({one: n for one, n in found.items() if n})
            assert known == Counter(dict.fromkeys(after, 1)), (self.told, since, until, net)
        self.compared += 1

    def _two_cuts(self) -> tuple[dict[str, int], dict[str, int]]:
        points = list(self.points.values())
        four = [self.rng.choice(points).counts for _ in range(4)]
        since, until = {}, {}
        for name in WRITERS:
            at = sorted(each.get(name, -1) for each in four)
            early, late = self.rng.choice([(at[0], at[3]), (at[1], at[2]), (at[0], at[1])])
            until |= {name: late} if late >= 0 else {}
            since |= {name: early} if early >= 0 else {}
        return since, until

    def _revision(self, name: str, cut: dict[str, int]) -> int:
        return self.positions[name, cut[name]].revision if name in cut else -1
