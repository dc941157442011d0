"""What hive-style folders say: `year=2026/month=11/x.parquet` is of that partition. Pure."""

from __future__ import annotations

import re
from itertools import takewhile
from typing import Final

_FOLDER: Final = re.compile(r"[^=]+=.*", re.DOTALL)


def hive_partition(path: str) -> str:
    """The partition that the folders right above a file name.

    Args:
        path: A key, path or URL with `/` between its segments.
    Returns:
        Those folders as they stand, `name=value` each, joined by `/`; empty if there are none.
    """
    above = reversed(path.split("/")[:-1])
    named = [*takewhile(_FOLDER.fullmatch, above)]
    return "/".join(reversed(named))
