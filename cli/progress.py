"""Progress of a command, on stderr: on a terminal, or with LAKELOG_PROGRESS=1; else, and with
--quiet, silence.
"""

from __future__ import annotations

import sys

from .. import progress
from .errors import is_quiet
from .streams import tell


class Progress(progress.Progress):
    """A counter that shows itself now and then.

    Args:
        what: The work, e.g. `reading files`.
        total: How much there is; None if unknown.
        streaming: Results are printed meanwhile: silence if they go to the same terminal.
        asked: Whether lines are wanted where there is no terminal.
    """

    def __init__(
        self,
        what: str,
        total: int | None = None,
        *,
        streaming: bool = False,
        asked: bool = False,
    ) -> None:
        quiet = is_quiet() or (streaming and sys.stdout.isatty())
        super().__init__(what, total, asked=asked, quiet=quiet, tell=tell)
