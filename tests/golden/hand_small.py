"""Small logs by hand, for rules one by one. See `logs_by_hand`."""

from __future__ import annotations

import random
from typing import Any

import pyarrow as pa
from hand_log import HandLog, Hooks
from hand_segments import HandFile
from hand_values import with_ids
from independent_log import Log
from independent_transaction import fingerprint
from independent_verdict import verdict
from independent_wire import Refusal

COLUMNS = pa.schema([("temp", pa.float64()), ("name", pa.string())])
ARROW = with_ids(COLUMNS, (1, 2)).serialize().to_pybytes()
MARK = fingerprint(ARROW)


class Change(Hooks):
    """Changes the tables of one kind, from the checkpoint number `after` on."""

    def __init__(self, kind: int = 0, change: Any = None, consistent: bool = True) -> None:
        self.kind, self.change, self.consistent, self.on = kind, change, consistent, True

    def table(self, kind: int, table: pa.Table, form: Any) -> tuple[pa.Table, bool]:
        hit = self.on and kind == self.kind
        return (self.change(table) if hit else table), self.consistent


class Small:
    """A small log: each step is one line of a test."""

    def __init__(self, hooks: Hooks | None = None, *, at: int = 0) -> None:
        self.log = HandLog(random.Random(1), hooks or Hooks(), b"L" * 16, ("w", "d"))
        self.log.at = at
        self.commit({"identity": {"writer": "w", "database": "d"}})

    def commit(self, *actions: Any, **member: Any) -> Small:
        own = {"transaction_id": b"t" * 16, "operation": "append", **member}
        adds = sum("add" in a for a in actions)
        removes = sum("remove" in a for a in actions)
        self.log.commit(actions, [own], counts=(adds, removes, adds, adds))
        return self

    def schema(self, table: str = "t") -> Small:
        self.log.schemas[table, MARK] = {
            "table": table, "fingerprint": MARK, "arrow_schema": ARROW, "key": None,
            "sort_order": None, "revision": self.log.revision + 1,
        }  # fmt: skip
        return self.commit(schema(table))

    def file(self, path: str = "data/a", table: str = "t", **member: Any) -> Small:
        revisions = {"revision": self.log.revision + 1, "original_revision": None}
        facts = add(path, table)["add"] | revisions
        self.log.files[table, path] = HandFile(facts, ARROW)
        return self.commit(add(path, table), **member)

    def checkpoint(self) -> Small:
        self.log.checkpoint()
        return self

    def told(self) -> dict[str, Any]:
        return verdict(self.log.transactions, self.log.segments, self.log.data)

    def files(self, table: str = "t") -> str | list[str]:
        """The paths of a table, or how it is refused."""
        try:
            state = Log(self.log.transactions, self.log.segments).read()
            return sorted(state.files(table))
        except Refusal as error:
            return error.kind

    def drop(self, *revisions: int, kind: str = "transaction") -> Small:
        for name in list(self.log.transactions):
            if name.endswith(kind) and int(name.split("-")[2].split(".")[0]) in revisions:
                del self.log.transactions[name]
        return self


def schema(table: str = "t") -> dict[str, Any]:
    return {"schema": {"table": table, "fingerprint": MARK, "arrow_schema": ARROW}}


def add(path: str = "data/a", table: str = "t", **changes: Any) -> dict[str, Any]:
    facts = {
        "table": table, "path": path, "partition": "", "size_bytes": 1, "row_count": 1,
        "schema_fingerprint": MARK, "first_clock": 0, "last_clock": 0, "footer_bytes": 0,
        "footer_digest": bytes(8),
    }  # fmt: skip
    return {"add": facts | changes}


def remove(path: str = "data/a", table: str = "t") -> dict[str, Any]:
    return {"remove": {"path": path, "table": table}}


def forget(**what: Any) -> dict[str, Any]:
    return {"forget": what}
