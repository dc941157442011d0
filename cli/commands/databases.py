"""`lakelog databases`: what a catalog holds."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from .. import options, output
from ..opening import open_catalog

if TYPE_CHECKING:
    import argparse

DESCRIPTION: Final = (
    "List the databases of a catalog: all names under which some writer has committed."
)
EXAMPLES: Final = """
lakelog databases s3://lake/catalog
lakelog databases ./catalog --output json
"""


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments."""
    options.add_url(parser)


def run(args: argparse.Namespace) -> int:
    """Print the names, sorted."""
    names = open_catalog(args).databases()
    output.rows(args.output, [output.Column("database")], [{"database": name} for name in names])
    return 0
