"""From what is to become of a table's columns to the definition that says it. Pure.

Source: docs/format.md, section 5.5; docs/changing.md, "Schemas".
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from ...errors import InvalidSchema, SchemaConflict, UsageError, it_has
from ..format.definitions import encode_definition
from ..format.schema import check_key, check_writable, column_id, column_of, plain, widen
from .dataframes import as_stored, check_zones
from .unify import fits

if TYPE_CHECKING:
    from ..format.definitions import Definition
    from ..wire import lakelog_transaction_pb2 as wire


@dataclass(frozen=True, slots=True)
class Change:
    """What is to become of the columns of a table. `drop` and `rename` name them as they are, all
    else as they will be; they are done in the order of these attributes.

    Attributes:
        drop: Columns that go.
        rename: New names by old ones, all at once.
        add: Types of columns that come.
        default: Values of columns that come, in the files that lack them.
        widen: Types that hold all that the present ones hold.
        order: Columns that come first; the others follow as they stand.
        key: Key columns: readers return one row for each key; empty for none, None: unchanged.
    """

    drop: tuple[str, ...] = ()
    rename: Mapping[str, str] = field(default_factory=dict)
    add: Mapping[str, pa.DataType] = field(default_factory=dict)
    default: Mapping[str, Any] = field(default_factory=dict)
    widen: Mapping[str, pa.DataType] = field(default_factory=dict)
    order: tuple[str, ...] = ()
    key: tuple[str, ...] | None = None

    def still_to_do(
        self, visible: pa.Schema, defaults: Mapping[str, pa.Scalar], table: str
    ) -> Change:
        """The change as a log makes it that has these columns: without what is done there already,
        or names what isn't there.

        Raises:
            SchemaConflict: It has a column that is to be added, with another default.
        """
        kinds = {each.name: plain_type(each.type) for each in visible}
        drop = tuple(name for name in self.drop if name in kinds)
        rename = {old: new for old, new in self.rename.items() if old in kinds and old not in drop}
        kinds = {rename.get(n, n): kind for n, kind in kinds.items() if n not in drop}
        add = {}
        for name, kind in self.add.items():
            value = self.default.get(name)
            if name not in kinds or not kind.equals(kinds[name]):
                add[name] = kind
            elif value is not None:
                wanted = _value(name, value, kind)
                _refuse_other_default(name, defaults.get(name), wanted, table)
        kinds = add | kinds
        has_key = self.key is not None and kinds.keys() >= set(self.key)
        return replace(
            self,
            drop=drop,
            rename=rename,
            add=add,
            default={n: self.default[n] for n in self.default if n in add or n not in self.add},
            widen={name: kind for name, kind in self.widen.items() if name in kinds},
            order=tuple(name for name in self.order if name in kinds),
            key=self.key if has_key else None,
        )


@dataclass(frozen=True, slots=True)
class _Column:
    kind: pa.DataType
    number: int
    default: pa.Scalar | None = None


def make_change(
    *,
    add: Any = None,
    drop: Any = None,
    rename: Any = None,
    widen: Any = None,
    default: Any = None,
    order: Any = None,
    key: Any = None,
) -> Change:
    """What a user asks for, its form checked.

    Raises:
        UsageError: Not names, mappings and types; or nothing at all.
        InvalidSchema: Types that no file can have.
    """
    change = Change(
        drop=_names(drop, "drop"),
        rename={_text(a, "rename"): _text(b, "rename") for a, b in _items(rename, "rename")},
        add={_text(name, "add"): _kind(name, kind) for name, kind in _items(add, "add")},
        default={_text(name, "default"): value for name, value in _items(default, "default")},
        widen={_text(name, "widen"): _kind(name, kind) for name, kind in _items(widen, "widen")},
        order=_names(order, "order"),
        key=None if key is None else _names(key, "key"),
    )
    if change == Change():
        raise UsageError(
            "Nothing of the columns is to be changed",
            hint="Give add=, drop=, rename=, widen=, order= or key=",
        )
    return change


def evolved(
    visible: pa.Schema, before: Definition | None, last_id: int, change: Change, table: str
) -> wire.Definition:
    """The definition of a table after a change.

    Args:
        visible: Its columns as its files in this log show them, with their ids.
        before: Its definition so far.
        last_id: The highest id that one of its columns ever had.
    Raises:
        UsageError: There is no such column, or it is named twice.
        SchemaConflict: A name is taken, or a type doesn't hold what the column holds.
        InvalidSchema: A default that is no value of its column; or no column would be left; or a
            key of such types.
    """
    columns = {each.name: _column(each, before, change) for each in visible}
    for name in _present(change.drop, columns, table):
        del columns[name]
    columns = _renamed(columns, change, table)
    last_id = _add(columns, last_id, change, table)
    _widen(columns, change, table)
    columns = _ordered(columns, change, table)
    if not columns:
        raise InvalidSchema(
            f"Table {table!r} would have no columns", key=table, hint="Keep one, or drop the table"
        )
    schema = pa.schema([column_of(name, c.kind, c.number) for name, c in columns.items()])
    check_writable(schema)
    check_zones(schema)
    defaults = {name: c.default for name, c in columns.items() if c.default is not None}
    key = _key(columns, before, change, table)
    return encode_definition(table, schema, defaults, last_id, key=key)


def _column(shown: pa.Field, before: Definition | None, change: Change) -> _Column:
    name, kind, number = shown.name, plain_type(shown.type), column_id(shown)
    # Of one that goes the type may be anybody's, as files may disagree about it.
    value = None if before is None or name in change.drop else before.defaults.get(name)
    if value is not None and not fits(value.type, kind):
        assert before is not None
        raise SchemaConflict(
            f"Column {name!r} of table {before.table!r} has a default of type {value.type}, and "
            f"its files have {kind}",
            key=name,
            hint="Drop the column, or remove these files first",
        )
    return _Column(kind, number, None if value is None else value.cast(kind))


def _renamed(columns: Mapping[str, _Column], change: Change, table: str) -> dict[str, _Column]:
    old = list(_present(change.rename, columns, table))
    new = {name: change.rename[name] for name in old}
    found: dict[str, _Column] = {}
    for name, column in columns.items():
        called = new.get(name, name)
        if called in found or (called in columns and called not in new and name in new):
            raise _is_taken(called, table)
        found[called] = column
    return found


def _add(columns: dict[str, _Column], last_id: int, change: Change, table: str) -> int:
    """Add columns; the highest id then."""
    for name in change.default:
        if name not in change.add:
            raise UsageError(
                f"Column {name!r} of table {table!r} is not added here, so it can't get a default",
                key=name,
                hint="Rows that are there would change: write them anew with the value",
            )
    for name, kind in change.add.items():
        value = change.default.get(name)
        default = None if value is None else _value(name, value, kind)
        if name in columns:
            raise _is_taken(name, table)
        last_id += 1
        columns[name] = _Column(kind, last_id, default)
    return last_id


def _refuse_other_default(
    name: str, stands: pa.Scalar | None, asked: pa.Scalar, table: str
) -> None:
    """Refuse a default for a column that a log has already with another one, or with none."""
    if stands is not None and asked.equals(stands):
        return
    has = "no default" if stands is None else f"the default {stands.as_py()!r:.60}"
    raise SchemaConflict(
        f"Column {name!r} of table {table!r} is in a log already, with {has}, not "
        f"{asked.as_py()!r:.60}",
        key=name,
        hint="Rows that are there would change. Add it only in the logs that lack it: writers=[...]"
        ", or without default=",
    )


def _widen(columns: dict[str, _Column], change: Change, table: str) -> None:
    for name in _present(change.widen, columns, table):
        column, kind = columns[name], change.widen[name]
        wider = widen(column.kind, kind)
        if wider is None or not _normal(wider).equals(kind):
            raise SchemaConflict(
                f"Column {name!r} of table {table!r} is {column.kind}, and {kind} doesn't hold all "
                "of its values",
                key=name,
                hint="Give a wider type, such as "
                + (str(wider) if wider is not None else "one of the same family")
                + ", or add a column and write the values into it",
            )
        default = None if column.default is None else column.default.cast(kind)
        columns[name] = replace(column, kind=kind, default=default)


def _ordered(columns: dict[str, _Column], change: Change, table: str) -> dict[str, _Column]:
    first = list(_present(change.order, columns, table))
    return {name: columns[name] for name in dict.fromkeys([*first, *columns])}


def _key(
    columns: Mapping[str, _Column], before: Definition | None, change: Change, table: str
) -> tuple[str, ...]:
    """The columns of the key after a change.

    Raises:
        UsageError: There is no such column, or one of the key was dropped.
        InvalidSchema: One is of a type whose values aren't simply the same or not.
    """
    now = () if before is None else before.key
    found = tuple(change.rename.get(name, name) for name in now)
    lost = set(now).intersection(change.drop)  # whether or not another has its name now
    if change.key is not None:
        found, lost = tuple(_present(change.key, columns, table)), set()
    for name in sorted(lost):
        raise UsageError(
            f"Column {name!r} is of the key of table {table!r}, and can't be dropped",
            key=name,
            hint="Give another key in the same call, or none: key=[]",
        )
    check_key([pa.field(name, columns[name].kind) for name in found], table)
    return found


def _present(names: Iterable[str], columns: Mapping[str, _Column], table: str) -> list[str]:
    """Returns names of columns. Raises `UsageError` if there is no such column."""
    wanted = list(names)
    for name in wanted:
        if name not in columns:
            raise UsageError(
                f"Table {table!r} has no column {name!r}",
                key=name,
                hint=it_has(name, list(columns)),
            )
    return wanted


def _is_taken(name: str, table: str) -> SchemaConflict:
    return SchemaConflict(
        f"Table {table!r} has a column {name!r} already",
        key=name,
        hint="Take another name, or drop or rename that column in the same call",
    )


def _value(name: str, value: Any, kind: pa.DataType) -> pa.Scalar:
    """A default as a value of its column, with nothing lost."""
    given = value.as_py() if isinstance(value, pa.Scalar) else value
    try:
        found = value.cast(kind) if isinstance(value, pa.Scalar) else pa.scalar(value, kind)
        rounded = pa.types.is_floating(kind) and isinstance(given, float)
        same = found.is_valid and (rounded or bool(found.as_py() == given))
    except (pa.ArrowException, ValueError, TypeError, OverflowError) as error:
        raise _no_value(name, given, kind) from error
    if not same:
        raise _no_value(name, given, kind)
    return found


def _no_value(name: str, value: Any, kind: pa.DataType) -> InvalidSchema:
    return InvalidSchema(
        f"{value!r:.60} can't be the default of column {name!r}, which is {kind}",
        key=name,
        hint="Give a value that the type holds exactly",
    )


def _names(given: Any, what: str) -> tuple[str, ...]:
    if given is None:
        return ()
    if isinstance(given, str) or not isinstance(given, Iterable):
        raise UsageError(f"{what}= is a list of names, not {given!r:.60}", hint="Give ['a', 'b']")
    names = [_text(name, what) for name in given]
    for name in names:
        if names.count(name) > 1:
            raise UsageError(f"{what}= names column {name!r} twice", key=name, hint="Name it once")
    return tuple(names)


def _items(given: Any, what: str) -> list[tuple[Any, Any]]:
    if given is None:
        return []
    if not isinstance(given, Mapping):
        raise UsageError(
            f"{what}= is a dict by the names of columns, not {given!r:.60}",
            hint="Give {'column': ...}",
        )
    return list(given.items())


def _text(name: Any, what: str) -> str:
    if not isinstance(name, str) or not name:
        raise UsageError(
            f"{what}= has {name!r:.60} for the name of a column",
            hint="Give a text that isn't empty",
        )
    try:
        name.encode()
    except UnicodeEncodeError:
        raise UsageError(
            f"{what}= has a name that is no valid Unicode", hint="Spell it anew"
        ) from None
    return name


def _kind(name: Any, given: Any) -> pa.DataType:
    """The type of a column as its files will have it.

    Raises:
        UsageError: No type.
        InvalidSchema: One that no file can have, or that forbids null.
    """
    if isinstance(given, pa.Field):
        if not given.nullable:
            raise InvalidSchema(
                f"Column {name!r} can't forbid null: files that lack it have no other value",
                key=str(name),
                hint="Give pa.field(..., nullable=True), or a type",
            )
        given = given.type
    if not isinstance(given, pa.DataType):
        raise UsageError(
            f"{given!r:.60} is no type for column {name!r:.60}",
            hint="Give a type of pyarrow, such as pa.int64()",
        )
    return _normal(as_stored(given))


def plain_type(kind: pa.DataType) -> pa.DataType:
    """The type that a definition declares for a column as it is read."""
    return _normal(plain(kind))


def _normal(kind: pa.DataType) -> pa.DataType:
    """The type without what is no part of it: names of elements, and what may be null."""
    if pa.types.is_list(kind):
        return pa.list_(_normal(kind.value_type))
    if pa.types.is_struct(kind):
        return pa.struct([pa.field(each.name, _normal(each.type)) for each in kind])
    return kind
