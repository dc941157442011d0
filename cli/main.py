"""The program `lakelog`: finds the command, parses the arguments, and turns every error into an
exit code.
"""

from __future__ import annotations

import contextlib
import difflib
import importlib.abc
import os
import sys
import warnings
from typing import TYPE_CHECKING, Final

from .. import __version__
from . import errors, options
from .command_list import COMMANDS, find
from .engines import SPARK
from .parser import command_parser, name_only

if TYPE_CHECKING:
    from collections.abc import Sequence

_INTRO: Final = """\
lakelog keeps a catalog of Parquet files on object storage, without a server or a database.

usage: lakelog COMMAND URL [DATABASE [TABLE]] [options]
       lakelog COMMAND --help
       lakelog --version
"""
_OUTRO: Final = """\
Results go to stdout (--output text, json, jsonl, csv, parquet or arrow), progress and warnings to
stderr (--quiet: errors only). LAKELOG_URL is the URL if none is given. `lakelog completion` prints
the script for completion in your shell.
Exit codes: 0 done, 1 a check found problems, 2 usage, 3 not found, 4 conflict, 5 corrupt,
6 storage, 7 outcome unknown, 70 a fault of lakelog itself, 130 interrupted, 141 output closed.
"""

_ASKED_TO_COMPLETE: Final = "_ARGCOMPLETE"  # the shell's script sets it


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command.

    Args:
        argv: Arguments without the program's name; those of the process if not given.
    Returns:
        The exit code; see `lakelog.cli.errors`. No exception is raised.
    """
    redact = errors.begin()
    if argv is None:
        if _ASKED_TO_COMPLETE in os.environ:
            from .commands.completion import complete

            complete()
        errors.open_missing()
    try:
        with warnings.catch_warnings():
            errors.show_warnings(redact)
            _tolerate_any_encoding()
            given = list(sys.argv[1:] if argv is None else argv)
            code = _run(given, redact, own_process=argv is None)
            sys.stdout.flush()
            return code
    except BrokenPipeError:
        errors.silence(sys.stdout)
        return errors.PIPE_CLOSED
    except KeyboardInterrupt:
        errors.to_stderr("lakelog: interrupted\n")
        return errors.INTERRUPTED
    except Exception as error:  # the one place where everything ends
        try:
            sys.stdout.flush()
        except OSError:
            errors.silence(sys.stdout)
        return errors.report(error, redact)


def _run(argv: list[str], redact: errors.Redactor, *, own_process: bool) -> int:
    if not argv or argv[0] in ("-h", "--help", "help"):
        entry = find(argv[1]) if len(argv) > 1 else None
        sys.stdout.write(overview() if entry is None else command_parser(entry).format_help())
        return 0 if argv else 2
    if argv[0] in ("-V", "--version"):
        sys.stdout.write(f"lakelog {__version__}\n")
        return 0
    entry = find(argv[0])
    if entry is None:
        raise _unknown_command(argv[0])
    parser, rest = command_parser(entry), argv[1:]
    before_dashes = rest[: rest.index("--")] if "--" in rest else rest
    if {"-h", "--help"} & set(before_dashes):
        sys.stdout.write(parser.format_help())
        return 0
    args = parser.read(rest)
    if own_process and not (entry.starts_spark or getattr(args, "engine", None) == SPARK):
        _do_without_pandas()
    errors.running().quiet = getattr(args, "quiet", False)
    args.storage_options = options.storage_options(getattr(args, "option", None) or [])
    redact.learn(args.storage_options)
    return entry.load().run(args)


def _do_without_pandas() -> None:
    """Make `import pandas` fail, in a process that is the command's own.

    pyarrow imports pandas, if it is installed, as soon as it turns a list into an array: that would
    be half of a command's time, and nothing uses it but Spark.
    """
    sys.meta_path.insert(0, _NoPandas())


class _NoPandas(importlib.abc.MetaPathFinder):
    def find_spec(self, fullname: str, path: object, target: object = None) -> None:
        """Fail for pandas; let the other finders look for anything else."""
        del path, target
        if fullname == "pandas":
            raise ModuleNotFoundError("lakelog's commands do without pandas", name=fullname)


def overview() -> str:
    """The text that `lakelog --help` prints."""
    wide = max(len(entry.name) for entry in COMMANDS)
    parts = [_INTRO]
    for group in dict.fromkeys(entry.group for entry in COMMANDS):
        entries = [entry for entry in COMMANDS if entry.group == group]
        parts.append(group + "\n" + "".join(f"  {e.name:<{wide}}  {e.summary}\n" for e in entries))
    return "\n".join([*parts, _OUTRO])


# What other programs call it, and how it is called here.
_ELSEWHERE: Final = {
    "optimize": "compact",
    "rewrite-data-files": "compact",
    "expire-snapshots": "prune",
    "cleanup": "maintain",
    "remove-orphan-files": "gc",
    "history": "log",
    "commits": "log",
    "ls": "tables",
    "list": "tables",
    "cat": "scan",
    "head": "scan",
    "sql": "query",
    "select": "query",
    "insert": "write",
    "import": "write",
    "append": "write",
    "load": "write",
    "vacuum": "gc",
    "expire": "prune",
    "rm": "remove",
    "alter": "schema",
    "describe": "schema",
    "rollback": "restore",
    "revert": "restore",
    "fsck": "check",
    "verify": "check",
    "status": "doctor",
    "sync": "replicate",
    "clone": "replicate",
}


def _unknown_command(name: str) -> Exception:
    if name.startswith("-"):
        return errors.usage(
            f"unexpected: {name_only(name)}", "", hint="The command comes first: `lakelog --help`"
        )
    near = difflib.get_close_matches(name, [entry.name for entry in COMMANDS], 1, 0.6)
    known = _ELSEWHERE.get(name.lower().replace("_", "-"), "")
    entry = find(known)
    if entry is not None:
        after = ", after `lakelog prune`" if known == "gc" else ""
        meant = f"Here it is `lakelog {known}`{after}: {entry.summary}. "
    else:
        meant = f"Did you mean {near[0]}? " if near else ""
    return errors.usage(
        f"there is no command {name[:40]!r}", "", hint=f"{meant}`lakelog --help` lists them"
    )


def _tolerate_any_encoding() -> None:
    """Escape what a terminal can't show: that must not stop the command."""
    for stream in (sys.stdout, sys.stderr):
        if "utf" not in (getattr(stream, "encoding", None) or "utf").lower():
            with contextlib.suppress(AttributeError):
                stream.reconfigure(errors="backslashreplace")  # type: ignore[union-attr]
