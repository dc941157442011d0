"""A predicate in SQL bound to the schema of a table: names to columns, literals to values. Pure.

Source: docs/reading.md, "Predicates".
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from math import isfinite
from typing import TYPE_CHECKING, Final

import pyarrow as pa
from sqlglot import exp
from sqlglot.dialects.duckdb import DuckDB
from sqlglot.errors import ParseError, SqlglotError
from sqlglot.tokenizer_core import Token, TokenType

from ...errors import InvalidPredicate, some_names
from ..format.schema import hint_of_uuid, widen
from . import literals as lit
from .literals import Clock, Literal, Moment, NotThis, Null, Number, Text
from .tree import (
    CALLED,
    FLIPPED,
    Column,
    Compare,
    Constant,
    Exact,
    IsNull,
    Operator,
    Predicate,
    all_of,
    any_of,
    compare,
    compare_bytes,
    family,
    nearest,
    negation,
    starts_with,
    steps,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from .tree import Family


# --- The grammar: what of SQL is allowed ----------------------------------------------------------

# Python's own stack is what ends: sqlglot takes 23 of its 1,000 frames for a parenthesis.
MAX_DEPTH: Final = 32
MAX_CHARS: Final = 4_000_000
_HINT = (
    "Write comparisons (=, <>, <, <=, >, >=) of a column with a literal, IN, BETWEEN, LIKE 'abc%', "
    "IS [NOT] NULL, and AND, OR, NOT between them; put names that are words of SQL in double quotes"
)
_OPENING: Final = {TokenType.L_PAREN, TokenType.L_BRACKET, TokenType.L_BRACE}
_DEEPER: Final = {*_OPENING, TokenType.NOT, TokenType.DASH, TokenType.CASE}
_CLOSING: Final = {TokenType.R_PAREN, TokenType.R_BRACKET, TokenType.R_BRACE}


class _Dialect(DuckDB):
    class Tokenizer(DuckDB.Tokenizer):
        HEX_STRINGS = [("x'", "'"), ("X'", "'")]  # noqa: RUF012


@dataclass(frozen=True, slots=True)
class Source:
    """Where a predicate stands, for messages.

    Attributes:
        text: The predicate as it was given.
        table: The table that it is for.
    """

    text: str
    table: str

    def error(self, what: str, node: exp.Expr | int | None = None, hint: str = _HINT) -> Exception:
        """An error about a part of the text: what was found, where, and what to write instead."""
        at = node if isinstance(node, int) or node is None else place(node)
        where = "" if at is None else f" at character {at + 1} ({self.excerpt(at)!r})"
        message = f"The predicate for table {self.table!r} can't be used: {what}{where}"
        return InvalidPredicate(message, key=self.table, hint=hint)

    def excerpt(self, at: int) -> str:
        """A few words of the text from a place on."""
        rest = self.text[at : at + 40]
        return rest if len(self.text) - at <= 40 else rest + "…"


def place(node: exp.Expr) -> int | None:
    """Where a node begins in the text, as far as sqlglot knows: its first part that has a place,
    or that of the node around it."""
    around: exp.Expr | None = node
    while around is not None:
        found: list[int] = []
        left: list[exp.Expr] = [around]
        while left:
            item = left.pop()
            if "start" in item.meta:
                found.append(item.meta["start"])
            left.extend(item.iter_expressions())
        if found:
            return min(found)
        around = around.parent
    return None


def parse_expression(source: Source) -> exp.Expr:
    """The syntax tree of a predicate.

    Raises:
        InvalidPredicate: It is no single expression, or too deep.
    """
    text = source.text
    if len(text) > MAX_CHARS:
        raise source.error(f"it has over {MAX_CHARS:,} characters")
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise source.error("it has half a character (a lone surrogate)", error.start) from error
    dialect = _Dialect()
    try:
        tokens = dialect.tokenize(text)
        _check(tokens, source)
        parsed = dialect.parser().parse_into(exp.Condition, tokens, text)
    except ParseError as error:
        raise _wrong(error, source) from error
    except SqlglotError as error:
        raise source.error("a quote or a comment doesn't end, or a literal is not one") from error
    except RecursionError as error:
        raise _too_deep(source) from error
    if len(parsed) != 1 or parsed[0] is None:
        raise source.error("it is empty" if not tokens else "it is more than one expression")
    return parsed[0]


def _check(tokens: list[Token], source: Source) -> None:
    """Raise unless what sqlglot would read in silence is what it says."""
    depth, parts = 0, [0]
    for token in tokens:
        kind = token.token_type
        if kind is TokenType.SEMICOLON:
            raise source.error("there is a ;", token.start)
        if kind is TokenType.HEX_STRING and source.text[token.start] == "0":
            raise source.error(
                "there is a hexadecimal number", token.start, "Write it as a decimal number"
            )
        if kind in _DEEPER:
            depth += 1
            if kind in _OPENING:
                parts.append(depth)
            if depth > MAX_DEPTH:
                raise _too_deep(source)
        elif kind in _CLOSING:
            depth = max(parts.pop() - 1, 0) if len(parts) > 1 else 0
        elif kind in (TokenType.AND, TokenType.OR, TokenType.COMMA):
            depth = parts[-1]


def _too_deep(source: Source) -> Exception:
    return source.error(
        f"it is nested too deeply (more than {MAX_DEPTH} parentheses and NOTs inside each other, "
        "or too deep for Python's stack)",
        hint="Leave out parentheses: a OR b OR c needs none; or write a list, x IN (1, 2, 3)",
    )


def _wrong(error: ParseError, source: Source) -> Exception:
    said = error.errors[0] if error.errors else {}
    what = str(said.get("description") or "it is no expression")
    if what.startswith("Required keyword"):
        what = "something is missing"
    line, column = said.get("line"), said.get("col")
    if not isinstance(line, int) or not isinstance(column, int):
        return source.error(what)
    start = sum(len(part) for part in source.text.splitlines(keepends=True)[: line - 1])
    at = start + column - len(str(said.get("highlight") or " "))
    return source.error(what, min(max(at, 0), len(source.text)))


# --- Binding names and values to columns ----------------------------------------------------------

_T = exp.DType
_TYPES: Final = {
    _T.BOOLEAN: pa.bool_(),
    _T.TINYINT: pa.int8(),
    _T.SMALLINT: pa.int16(),
    _T.INT: pa.int32(),
    _T.BIGINT: pa.int64(),
    _T.UTINYINT: pa.uint8(),
    _T.USMALLINT: pa.uint16(),
    _T.UINT: pa.uint32(),
    _T.UBIGINT: pa.uint64(),
    _T.FLOAT: pa.float32(),
    _T.DOUBLE: pa.float64(),
    _T.TEXT: pa.string(),
    _T.VARCHAR: pa.string(),
    _T.VARBINARY: pa.binary(),
    _T.DATE: pa.date32(),
    _T.TIME: pa.time64("us"),
    _T.TIMESTAMP: pa.timestamp("us"),
    _T.TIMESTAMPNTZ: pa.timestamp("us"),
    _T.TIMESTAMP_S: pa.timestamp("s"),
    _T.TIMESTAMP_MS: pa.timestamp("ms"),
    _T.TIMESTAMP_NS: pa.timestamp("ns"),
    _T.TIMESTAMPTZ: pa.timestamp("us", "UTC"),
}
# A literal of these takes any fraction of a second: it is exact until it meets a column.
_LOOSE: Final = {_T.TIMESTAMP, _T.TIMESTAMPNTZ, _T.TIMESTAMPTZ, _T.TIME}
_READERS: Final[dict[Family, Callable[[str], Literal]]] = {
    "integer": lit.integer,
    "decimal": lit.number,
    "float": lit.number,
    "bool": lit.boolean,
    "date": lit.date,
    "timestamp": lit.moment,
    "instant": lit.moment,
    "time": lit.clock,
}
_OPERATORS: Final[dict[type[exp.Expr], Operator]] = {
    exp.EQ: "=",
    exp.NEQ: "<>",
    exp.LT: "<",
    exp.LTE: "<=",
    exp.GT: ">",
    exp.GTE: ">=",
}
# The parts that a node of each type may have; whatever else sqlglot hangs on it is refused.
_ONE: Final = frozenset({"this"})
_TWO: Final = frozenset({"this", "expression"})
_PARTS: Final[dict[type[exp.Expr], frozenset[str]]] = {
    **dict.fromkeys((*_OPERATORS, exp.And, exp.Or, exp.Is, exp.Escape), _TWO),
    **dict.fromkeys((exp.Paren, exp.Not, exp.Neg, exp.Boolean, exp.Column, exp.HexString), _ONE),
    exp.In: frozenset({"this", "expressions"}),
    exp.Between: frozenset({"this", "low", "high"}),
    exp.Like: frozenset({"this", "expression", "negate"}),
    exp.Cast: frozenset({"this", "to"}),
    exp.Null: frozenset(),
    exp.Literal: frozenset({"this", "is_string"}),
}


@dataclass(frozen=True, slots=True)
class _Operand:
    """A column as a comparison sees it.

    Attributes:
        column: The column.
        kind: The type that literals for it are read as: its own, or that of a cast.
    """

    column: Column
    kind: pa.DataType


def bind(source: Source, schema: pa.Schema) -> Predicate:
    """The tree of a predicate, bound to a schema."""
    parsed = parse_expression(source)
    try:
        return _Binder(source, schema).condition(parsed)
    except RecursionError as error:
        raise source.error("it is nested too deeply for Python's stack") from error


def columns_named(source: Source, schema: pa.Schema) -> list[str]:
    """The columns that a predicate names, in the order of the schema; also those that say nothing,
    as in `a = 1 OR TRUE`."""
    binder = _Binder(source, schema)
    binder.condition(parse_expression(source))
    return [name for name in schema.names if name in binder.used]


class _Binder:
    def __init__(self, source: Source, schema: pa.Schema) -> None:
        self.used: set[str] = set()
        self._source = source
        self._schema = schema
        self._names = schema.names

    def condition(self, node: exp.Expr) -> Predicate:
        """A node that must be true, false or null."""
        node = self._bare(node)
        kind = type(node)
        if kind in (exp.And, exp.Or):
            items = map(self.condition, self._operands(node))
            return all_of(items) if kind is exp.And else any_of(items)
        if kind is exp.Not:
            return negation(self.condition(node.this))
        if kind in _OPERATORS:
            return self._comparison(node, _OPERATORS[kind])
        if kind in (exp.Boolean, exp.Null):
            return Constant(bool(node.this) if kind is exp.Boolean else None)
        others: dict[type[exp.Expr], Callable[[exp.Expr], Predicate]] = {
            exp.In: self._in,
            exp.Between: self._between,
            exp.Is: self._is,
            exp.Like: self._like,
            exp.Escape: self._like,
        }
        return others.get(kind, self._alone)(node)

    def _bare(self, node: exp.Expr) -> exp.Expr:
        """A node without the parentheses around it; none that has parts which nobody reads."""
        while True:
            known = _PARTS.get(type(node))
            if known is None or not known.issuperset(node.args):
                parts = {name for name, part in node.args.items() if part not in (None, False, [])}
                if known is None or not parts <= known:
                    raise self._refused(node, sorted(parts - known) if known is not None else [])
            if type(node) is not exp.Paren:
                return node
            node = node.this

    def _refused(self, node: exp.Expr, parts: list[str]) -> Exception:
        name = type(node).__name__
        if type(node) is exp.Column:
            hint = "Only whole columns can be compared; a name with a dot needs double quotes"
            return self._source.error("a nested field or a name with dots", node, hint)
        what = {"Anonymous": "a function", "Placeholder": "a parameter", "Tuple": "a row"}.get(name)
        if what is None:
            what = f"a{' function' if isinstance(node, exp.Func) else 'n operation'} ({name})"
        return self._source.error(f"{what} with {parts[0]!r}" if parts else what, node)

    def _operands(self, node: exp.Expr) -> list[exp.Expr]:
        """What a chain of AND or of OR joins, in order, however long it is."""
        kind, found, left = type(node), [], [node]
        while left:
            item = self._bare(left.pop())
            if type(item) is kind:
                left += [item.expression, item.this]
            else:
                found.append(item)
        return found

    def _alone(self, node: exp.Expr) -> Predicate:
        if not self._is_column(node):
            raise self._source.error("a literal where a condition must be", node)
        operand = self._operand(node, node)
        if family(operand.kind) == "null":
            return Constant(None)
        if family(operand.kind) != "bool":
            what = f"column {operand.column.name!r} alone is no condition: it is {operand.kind}"
            raise self._source.error(what, node, "Compare it with something")
        return Compare(operand.column, "=", True)

    def _is_column(self, node: exp.Expr) -> bool:
        node = self._bare(node)
        while type(node) in (exp.Cast, exp.Neg):
            node = self._bare(node.this)
        return type(node) is exp.Column

    def _comparison(self, node: exp.Expr, operator: Operator) -> Predicate:
        left, right = self._is_side(node.this), self._is_side(node.expression)
        if left and right:
            hint = (
                "Compare a column with a literal; a text stands in single quotes, like 'abc'. "
                "Compare columns in the query itself"
            )
            if any(self._bare(side).name.lower() == "nan" for side in (node.this, node.expression)):
                hint = "NaN can't be a literal: x > 'inf' is true of it, and of nothing else"
            raise self._source.error("a column is compared with a column", node, hint)
        if not left and not right:
            raise self._source.error("two literals are compared", node, "Write TRUE or FALSE")
        ours, other = (node.this, node.expression) if left else (node.expression, node.this)
        operand = self._operand(ours, node)
        literal = self._literal_of(other, operand)
        return self._compare(operand, operator if left else FLIPPED[operator], *literal)

    def _is_side(self, node: exp.Expr) -> bool:
        """Whether a side of a comparison is a column; one that is no literal either is refused."""
        if self._is_column(node):
            return True
        self._literal(node)
        return False

    def _operand(self, node: exp.Expr, around: exp.Expr) -> _Operand:
        """A column, or a cast of one."""
        node = self._bare(node)
        if type(node) is exp.Cast:
            inner = self._operand(node.this, around)
            to = self._type(node)
            if widen(inner.kind, to) != to:
                hint = "Casts of a column may only widen it; compare it as it is"
                what = f"a cast of {inner.column.name!r} from {inner.kind} to {to} can lose values"
                raise self._source.error(what, node, hint)
            return _Operand(inner.column, to)
        if type(node) is not exp.Column:
            raise self._source.error("something else stands where a column must be", around)
        name = self._bare_name(node)
        found = find_column(name.this, self._names, quoted=bool(name.args.get("quoted")))
        if isinstance(found, str):
            hint = "Use a column of the table, in double quotes if it is spelled unusually"
            raise self._source.error(found, node, hint)
        field = self._schema.field(found)
        self.used.add(field.name)
        return _Operand(Column(field.name, field.type), field.type)

    def _bare_name(self, node: exp.Expr) -> exp.Identifier:
        name = node.this
        if type(name) is not exp.Identifier:
            raise self._source.error("something else stands where a column must be", node)
        return name

    def _type(self, node: exp.Expr) -> pa.DataType:
        kind = arrow_type(node.args["to"])
        if kind is None:
            hint = "Use a type like BIGINT, DOUBLE, DECIMAL(10, 2), VARCHAR, DATE or TIMESTAMP"
            raise self._source.error("a cast to a type that is not known here", node, hint)
        return kind

    def _literal(self, node: exp.Expr) -> Literal:
        """A literal: what it says by itself."""
        node = self._bare(node)
        try:
            found = self._said(node)
        except NotThis as error:
            raise self._source.error(f"a literal can't be taken: {error}", node) from error
        except ValueError as error:
            raise self._source.error("bytes need two digits each, like X'00ff'", node) from error
        if found is None:
            raise self._source.error("something else stands where a literal must be", node)
        return found

    def _said(self, node: exp.Expr) -> Literal | None:
        kind = type(node)
        if kind is exp.Literal:
            return Text(node.this) if node.args["is_string"] else lit.number(node.this)
        if kind is exp.Neg:
            inner = self._literal(node.this)
            if isinstance(inner, Number):
                return Number(-inner.value, inner.whole)
            return inner if isinstance(inner, Null) else None
        if kind is exp.Cast:
            return cast_literal(self._literal(node.this), node.args["to"], self._type(node))
        if kind is exp.HexString:
            return bytes.fromhex(node.this)
        if kind is exp.Boolean:
            return bool(node.this)
        return Null() if kind is exp.Null else None

    def _literal_of(self, node: exp.Expr, operand: _Operand) -> tuple[Literal, exp.Expr]:
        """A literal that a column is compared with, read as the column's type needs it."""
        literal, wanted = self._literal(node), family(operand.kind)
        if isinstance(literal, Null) and wanted != "other":
            return literal, node
        try:
            return as_family(literal, wanted), node
        except NotThis as error:
            column, takes = CALLED[wanted]
            if uuid := hint_of_uuid(operand.kind):
                column, takes = "a uuid column", f"{takes}; `lakelog query` compares uuids{uuid}"
            why = f": {error}" if str(error) else ""
            what = f"{column}, {operand.column.name!r} ({operand.kind}), is compared with this{why}"
            raise self._source.error(what, node, f"It can be compared with {takes}") from error

    def _compare(
        self, operand: _Operand, operator: Operator, literal: Literal, node: exp.Expr
    ) -> Predicate:
        column = operand.column
        if isinstance(literal, Null) or family(operand.column.kind) == "null":
            return Constant(None)
        if isinstance(literal, Number):
            return self._compare_number(operand, operator, literal.value)
        if isinstance(literal, Moment | Clock):
            return compare(column, operator, literal.seconds)
        if isinstance(literal, bytes):
            return compare_bytes(column, operator, literal)
        return Compare(column, operator, literal.value if isinstance(literal, Text) else literal)

    def _compare_number(self, operand: _Operand, operator: Operator, number: Exact) -> Predicate:
        """Of a column that is cast to a floating-point type, the literal becomes one of that."""
        column, kind = operand.column, operand.kind
        if kind is column.kind or family(kind) != "float" or isinstance(number, float):
            return compare(column, operator, number)
        near = nearest(kind, number)
        return compare(column, operator, Fraction(near) if isfinite(near) else number, exact=True)

    def _between(self, node: exp.Expr) -> Predicate:
        operand = self._operand(node.this, node)
        low, high = (self._literal_of(node.args[name], operand) for name in ("low", "high"))
        return all_of([self._compare(operand, ">=", *low), self._compare(operand, "<=", *high)])

    def _is(self, node: exp.Expr) -> Predicate:
        if type(self._bare(node.expression)) is not exp.Null:
            hint = "Write b or NOT b of a boolean column, and IS [NOT] NULL of any"
            raise self._source.error("IS is for NULL only", node, hint)
        return IsNull(self._operand(node.this, node).column)

    def _in(self, node: exp.Expr) -> Predicate:
        operand = self._operand(node.this, node)
        if not node.expressions:
            raise self._source.error("IN needs a list of literals in parentheses", node)
        literals = [self._literal_of(item, operand) for item in node.expressions]
        return any_of([self._compare(operand, "=", *literal) for literal in literals])

    def _like(self, node: exp.Expr) -> Predicate:
        escape = None
        if type(node) is exp.Escape:
            said = self._literal(node.expression)
            if not isinstance(said, Text) or len(said.value) != 1:
                raise self._source.error("ESCAPE needs one character", node)
            escape, node = said.value, self._bare(node.this)
            if type(node) is not exp.Like:
                raise self._source.error("ESCAPE belongs to LIKE only", node)
        operand = self._operand(node.this, node)
        if family(operand.kind) not in ("text", "null"):
            what = f"LIKE is for text, and {operand.column.name!r} is {operand.kind}"
            raise self._source.error(what, node, "Use comparisons")
        pattern = self._literal(node.expression)
        if isinstance(pattern, Null) or family(operand.column.kind) == "null":
            return Constant(None)
        if not isinstance(pattern, Text):
            raise self._source.error("the pattern of LIKE is no text", node.expression)
        try:
            prefix, open_end = prefix_of(pattern.value, escape)
        except NotThis as error:
            hint = "Use a prefix, like 'abc%', or a whole text"
            raise self._source.error(f"a pattern can't be used: {error}", node, hint) from error
        found = Compare(operand.column, "=", prefix)
        result = starts_with(operand.column, prefix) if open_end else found
        return negation(result) if node.args.get("negate") else result


def find_column(name: str, names: list[str], *, quoted: bool) -> int | str:
    """The place of the column that a name means, or why there is none.

    The exact spelling wins; a name without quotes also finds the only one that differs in case.
    """
    exact = [place for place, other in enumerate(names) if other == name]
    if len(exact) == 1:
        return exact[0]
    if exact:
        return f"several columns are called {name!r}"
    like = [place for place, other in enumerate(names) if other.lower() == name.lower()]
    if quoted or not like:
        import difflib

        near = [names[place] for place in like] or difflib.get_close_matches(name, names[:1_000], 1)
        hint = f"; there is {near[0]!r}" if near else ""
        return f"there is no column {name!r}{hint} (columns: {some_names(names)})"
    if len(like) > 1:
        several = ", ".join(f'"{names[place]}"' for place in like)
        return f"{name!r} may be any of several columns that differ only in case: {several}"
    return like[0]


def prefix_of(pattern: str, escape: str | None) -> tuple[str, bool]:
    """What a pattern begins with, and whether more may follow.

    Raises:
        NotThis: It has a wildcard elsewhere, or a backslash, which escapes in some engines.
    """
    found: list[str] = []
    open_end, place = False, 0
    while place < len(pattern):
        char = pattern[place]
        if char == "\\" and escape is None:
            raise NotThis(
                "a backslash escapes in some engines and not in others; say ESCAPE '\\' if it does,"
                " or ESCAPE with another character if it doesn't"
            )
        if char == escape:
            place += 1
            if place == len(pattern) or pattern[place] not in ("%", "_", escape):
                raise NotThis("its escape character stands before nothing that it can escape")
            char = pattern[place]
        elif char == "_":
            raise NotThis("it has the wildcard _ (escape it: LIKE 'a$_b%' ESCAPE '$')")
        elif char == "%":
            open_end = True
            place += 1
            continue
        if open_end:
            raise NotThis("it has the wildcard % before its end")
        found.append(char)
        place += 1
    return "".join(found), open_end


# --- Casts ----------------------------------------------------------------------------------------


def arrow_type(to: exp.DataType) -> pa.DataType | None:
    """The Arrow type that an SQL type means here; None for types that there are not."""
    parameters = [item.this for item in to.expressions]
    if to.this is _T.DECIMAL:
        if not all(type(item) is exp.Literal and item.this.isdigit() for item in parameters):
            return None
        sizes = [int(item.this) for item in parameters]
        precision, scale = (*sizes, 0)[:2] if sizes else (0, 0)
        if len(sizes) > 2 or not (1 <= precision <= 76 and scale <= precision):
            return None
        return (pa.decimal128 if precision <= 38 else pa.decimal256)(precision, scale)
    found = _TYPES.get(to.this)
    return None if parameters or to.args.get("nested") else found


def cast_literal(literal: Literal, to: exp.DataType, kind: pa.DataType) -> Literal:
    """A literal as another type: the same value, or for floating-point types the nearest.

    Raises:
        NotThis: It is not a literal of that type, or would lose something.
    """
    wanted = family(kind)
    if isinstance(literal, Null):
        return literal
    if isinstance(literal, Text) and wanted in ("timestamp", "instant"):
        found: Literal = (moment := lit.moment(literal.value))  # TIMESTAMP '… Z' may have an offset
        if wanted == "instant" and not moment.offset:
            raise NotThis("it has no offset: write one, or Z for UTC")
    else:
        found = as_family(literal, wanted)
    if isinstance(found, Number):
        if wanted != "float":
            _check_steps(found.value, kind)
        elif isinstance(found.value, Fraction):
            near = nearest(kind, found.value)
            if not isfinite(near):
                raise NotThis("it is beyond the range of the type")
            return Number(Fraction(near))
    elif isinstance(found, Moment | Clock) and to.this not in _LOOSE:
        _check_steps(found.seconds, kind)
    return found


def _check_steps(value: Fraction | float, kind: pa.DataType) -> None:
    counted = steps(kind)
    if counted is None or isinstance(value, float):
        raise NotThis("it is no number of that type")
    count = value * counted.unit
    if count.denominator != 1 or not counted.least <= count <= counted.greatest:
        raise NotThis("the cast would lose something of it")


def as_family(literal: Literal, wanted: Family) -> Literal:
    """Returns a literal for comparison with a column of a family; a text is read as one. Raises
    `NotThis`."""
    if isinstance(literal, Text) and wanted in _READERS:
        literal = _READERS[wanted](literal.value)
    fits = {
        "integer": isinstance(literal, Number),
        "decimal": isinstance(literal, Number),
        "float": isinstance(literal, Number),
        "bool": isinstance(literal, bool),
        "text": isinstance(literal, Text),
        "binary": isinstance(literal, bytes),
        "date": isinstance(literal, Moment),
        "timestamp": isinstance(literal, Moment),
        "instant": isinstance(literal, Moment),
        "time": isinstance(literal, Clock),
        "null": True,
        "other": False,
    }[wanted]
    if not fits:
        raise NotThis("")
    infinite = isinstance(literal, Number) and isinstance(literal.value, float)
    if infinite and wanted in ("integer", "decimal"):
        raise NotThis("only floating-point columns hold infinities")
    if isinstance(literal, Moment) and literal.offset != (wanted == "instant"):
        if literal.offset:
            raise NotThis("it has an offset, and the column has no time zone")
        raise NotThis("it has no offset, and the column has a time zone: write one, or Z for UTC")
    return literal


# --- Entry points ---------------------------------------------------------------------------------


def parse_where(text: str, schema: pa.Schema, table: str) -> Predicate:
    """The tree of a predicate.

    Args:
        text: A boolean expression in SQL.
        schema: Of the table, in the cut that is read.
        table: Its name, for messages.
    Raises:
        InvalidPredicate: It is not in the language of predicates, or doesn't fit the table. Says
            what was found, where, and what can be written instead.
    """

    return bind(Source(text, table), schema)


def columns_in(text: str, schema: pa.Schema, table: str) -> list[str]:
    """The columns that a sound predicate names, whether or not what it says depends on them."""

    return columns_named(Source(text, table), schema)
