"""`lakelog tag` and `lakelog publish`: names for points in time."""

from __future__ import annotations

import argparse
import datetime as dt
from typing import TYPE_CHECKING, Any, Final

from ...errors import UsageError
from .. import options, output
from ..command_list import Command
from ..opening import open_catalog
from ..output import Column, columns

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ...catalog.catalog import Catalog
    from ...catalog.format.ref import Ref

_TAGS: Final = (
    *columns("name", "kind"),
    Column("number", number=True),
    *columns("database"),
    Column("writers", style="count"),
    *columns("created_at", "expires_at", "message"),
    Column("token", shown=False),
)
_ACTIONS: Final = ("create", "list", "show", "delete")


def _tag(args: argparse.Namespace) -> int:
    catalog = open_catalog(args)
    if args.action == "list":
        _print(args, catalog.tags())
        return 0
    if args.name is None:
        raise UsageError(f"To {args.action} a tag give its name", hint="It stands after the URL")
    name = args.name.removeprefix("@")
    if args.action == "show":
        _print(args, catalog.published(name))
    elif args.action == "delete":
        catalog.untag(name)
        if args.output == "text":
            output.line(f"removed @{name}")
        else:
            output.object_or_rows(args.output, {"removed": name}, columns("removed"), [])
    else:
        made = catalog.tag(
            name, args.as_of,
            databases=args.database or None, expires=_expiry(args.expires), message=args.message,
        )  # fmt: skip
        _print(args, [made])
    return 0


def _expiry(text: str | None) -> dt.timedelta | dt.datetime | None:
    if text is None:
        return None
    if "-" not in text and not text.startswith("@"):
        try:
            return dt.timedelta(seconds=options.duration_s(text))
        except (argparse.ArgumentTypeError, OverflowError) as error:
            raise UsageError(f"--expires: {error}", key="expires") from None
    at = options.point(text)
    if not isinstance(at, dt.datetime):
        raise UsageError(
            f"{text!r} is no time to expire", hint="Write 90d, or 2027-01-01T00:00Z", key="expires"
        )
    return at


def _publish(args: argparse.Namespace) -> int:
    catalog: Catalog = open_catalog(args)
    name = args.name.removeprefix("@")
    moved = catalog.publish(
        name, args.as_of,
        databases=args.database or None, expect=args.expect, message=args.message,
        keep_days=args.keep_days,
    )  # fmt: skip
    _print(args, [moved])
    return 0


def _print(args: argparse.Namespace, refs: Sequence[Ref]) -> None:
    records = [record for ref in refs for record in _records(ref)]
    if args.output == "json":
        output.json_array(records)
        return
    if args.output == "text" and not records:
        output.line("no tags: `lakelog tag create URL NAME` makes one")
        return
    output.rows(args.output, _TAGS, records)
    if args.output == "text":
        output.line(f"\nread one with --as-of @{refs[0].name}")


def _records(ref: Ref) -> list[dict[str, Any]]:
    common = {
        "name": ref.name,
        "kind": ref.kind,
        "number": ref.number,
        "created_at": output.utc_from_us(ref.created_at_us),
        "expires_at": output.utc_from_us(ref.expires_at_us) if ref.expires_at_us else None,
        "message": ref.message or None,
    }
    if not ref.cuts:
        return [{**common, "database": None, "writers": 0, "token": None}]
    return [
        {**common, "database": name, "writers": len(cut.writers), "token": cut.token}
        for name, cut in ref.cuts.items()
    ]


_NAME: Final = "letters, digits, '-' and '_'"
_DATABASES: Final = options.repeated(
    "--database", "DATABASE", "a database of the point in time; may be repeated (default: all)"
)
_POINT: Final = options.argument(
    "--as-of",
    "POINT",
    "what is named: a time with its zone, a token (ll1-...), another tag (@name), or a revision "
    "for each writer (EWR=3,JFK=2) of one database. Default: the newest",
    type=options.point,
)
_MESSAGE: Final = options.argument("-m --message", "TEXT", "why", default="")

TAG: Final = Command(
    """\
Name a point in time of one or more databases. From then on `--as-of @NAME` reads it, in every
command, in Python, SQL and Spark. Prune keeps what it needs until the tag is deleted or expires.

create makes a tag, list shows all names, show the entries of one name, delete removes a tag or a
published cut. A name that was published is moved by `lakelog publish`.""",
    """
lakelog tag create ./catalog q3 --message "closed books"
lakelog tag create ./catalog before-fix --database weather --as-of 2013-06-30T00:00Z --expires 90d
lakelog tag list ./catalog
lakelog tag show ./catalog q3
lakelog tag delete ./catalog before-fix
""",
    (
        options.argument("action", "ACTION", "create, list, show or delete", choices=_ACTIONS),
        *options.CATALOG,
        options.argument("name", "NAME", f"of the tag: {_NAME}", nargs="?"),
        _DATABASES,
        _POINT,
        options.argument("--expires", "TIME", "when the tag ends: 90d, or 2027-01-01T00:00Z"),
        _MESSAGE,
    ),
    _tag,
)
PUBLISH: Final = Command(
    """\
Move a name to a point in time of one or more databases. All readers of `--as-of @NAME` see it at
once, over all tables and writers. With --expect nothing is moved if the name has moved since. So
write, check a point in time, and then publish that very point.

What the name stood for before stays readable for --keep-days; `lakelog tag show URL NAME` lists
it.""",
    """
lakelog publish ./catalog prod
lakelog publish ./catalog prod --as-of ll1-CgdleGFtcGxl --expect 41 --message "checks passed"
""",
    (
        *options.CATALOG,
        options.argument("name", "NAME", f"of the published cut: {_NAME}"),
        _DATABASES,
        _POINT,
        options.argument(
            "--expect",
            "N",
            "the number that the name has now (`lakelog tag show URL NAME`); 0 for a new name",
            type=int,
        ),
        options.argument(
            "--keep-days",
            "DAYS",
            "how long it stays readable once it is replaced (default 7)",
            type=float,
            default=7.0,
        ),
        _MESSAGE,
    ),
    _publish,
)
