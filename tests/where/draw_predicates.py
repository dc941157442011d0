"""Predicates over a drawn table: a tree for the oracle, the SQL text of it, and whether DuckDB
means the same by that text."""

from __future__ import annotations

import pyarrow as pa
from draw import BYTES, KINDS, TEXTS, draw_literal, draw_values, to_arrow

FLIP = {"=": "=", "<>": "<>", "<": ">", "<=": ">=", ">": "<", ">=": "<="}


class Drawn:
    """A table of a few columns, and predicates over it.

    Attributes:
        kinds: Kind by column.
        values: Values of each, for the oracle.
        table: The same as Arrow.
    """

    def __init__(self, rng, count: int, columns: int) -> None:
        self._rng = rng
        names = ["a", "B b", 'c"', "select", "^é$", "f.g", "*", "h`"]
        chosen = rng.sample(sorted(KINDS), columns)
        self.kinds = dict(zip(names, chosen))
        self.values = {name: draw_values(rng, kind, count) for name, kind in self.kinds.items()}
        arrays = [to_arrow(kind, self.values[name]) for name, kind in self.kinds.items()]
        self.table = pa.table(arrays, names=list(self.kinds))

    def rows(self) -> list[dict]:
        """Each row as the oracle takes it."""
        return [
            {name: (self.kinds[name], self.values[name][at]) for name in self.kinds}
            for at in range(self.table.num_rows)
        ]

    def predicate(self, depth: int = 3) -> tuple[tuple, str, bool]:
        """A tree, its text, and whether DuckDB means the same by it."""
        rng = self._rng
        choice = rng.random()
        if depth and choice < 0.4:
            word = rng.choice(["and", "or"])
            parts = [self.predicate(depth - 1) for _ in range(rng.choice([2, 2, 3]))]
            text = f" {rng.choice([word, word.upper()])} ".join(f"({part[1]})" for part in parts)
            return (word, [part[0] for part in parts]), text, all(part[2] for part in parts)
        if depth and choice < 0.5:
            tree, text, same = self.predicate(depth - 1)
            return ("not", tree), f"NOT ({text})", same
        if choice < 0.53:
            value = rng.choice([True, False, None])
            return ("constant", value), {True: "TRUE", False: "FALSE", None: "NULL"}[value], True
        return self._leaf()

    def _leaf(self) -> tuple[tuple, str, bool]:
        rng = self._rng
        name = rng.choice(list(self.kinds))
        kind = self.kinds[name]
        quoted = '"' + name.replace('"', '""') + '"' if name != "a" else rng.choice(["a", "A"])
        choice = rng.random()
        if choice < 0.1:
            negated = rng.random() < 0.5
            tree = ("null", name)
            text = f"{quoted} IS {'NOT ' if negated else ''}NULL"
            return (("not", tree) if negated else tree), text, True
        if kind == "bool" and choice < 0.3:
            return ("alone", name), quoted, True
        if kind in TEXTS and choice < 0.3:
            return self._prefix(name, quoted)
        if choice < 0.5:
            return self._several(name, kind, quoted)
        literal = draw_literal(rng, kind, self.values[name])
        test = rng.choice(list(FLIP))
        spelled = rng.choice(["<>", "!="]) if test == "<>" else test
        tree = ("compare", name, test, literal.value)
        same = literal.same and kind not in BYTES | {"f16": 0, "d60": 0, "f32": 0}
        if rng.random() < 0.2:
            flipped = FLIP[test]
            return tree, f"{literal.text} {flipped} {quoted}", same
        return tree, f"{quoted} {spelled} {literal.text}", same

    def _several(self, name: str, kind: str, quoted: str) -> tuple[tuple, str, bool]:
        rng = self._rng
        negated = rng.random() < 0.3
        word = "NOT " if negated else ""
        count = rng.choice([1, 2, 5]) if rng.random() < 0.6 else 0
        literals = [draw_literal(rng, kind, self.values[name]) for _ in range(count or 2)]
        values = [literal.value for literal in literals]
        texts = [literal.text for literal in literals]
        if count:
            tree, text = ("in", name, values), f"{quoted} {word}IN ({', '.join(texts)})"
        else:
            tree = ("between", name, *values)
            text = f"{quoted} {word}BETWEEN {texts[0]} AND {texts[1]}"
        return (("not", tree) if negated else tree), text, False

    def _prefix(self, name: str, quoted: str) -> tuple[tuple, str, bool]:
        rng = self._rng
        value = rng.choice([v for v in self.values[name] if v] or ["a"])[: rng.choice([0, 1, 2])]
        escaped = "".join(f"${char}" if char in "%_$" else char for char in value)
        quotes = escaped.replace("'", "''")
        negated = rng.random() < 0.3
        whole = rng.random() < 0.3
        text = (
            f"{quoted} {'NOT ' if negated else ''}LIKE '{quotes}{'' if whole else '%'}' ESCAPE '$'"
        )
        tree = ("compare", name, "=", value) if whole else ("prefix", name, value)
        return (("not", tree) if negated else tree), text, "\0" not in value
