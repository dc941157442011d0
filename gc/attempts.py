"""Files of several attempts at tasks of one transaction go together. Pure.

Of a log that is lost, a rebuild takes of each task the attempt of which something tells that it was
committed. That is told of files by their names, and no name says of which task it is: so it has to
find the file, if it finds those of another attempt. A committed one whose files were taken out is
often a little older than one that didn't count, and would be taken by itself while that is young.

Source: docs/format.md, sections 8 and 10.5.
"""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, Final

from ..catalog.commit.shares import FILES_OF_AN_ATTEMPT
from ..catalog.format.names import parse_data_file
from .rules import Verdict

if TYPE_CHECKING:
    from collections.abc import Mapping

_WAITS: Final = "waits: what another attempt at its transaction has written is not deleted yet"


def keep_beside_others(verdicts: Mapping[str, Verdict]) -> dict[str, Verdict]:
    """The verdicts, with files spared beside which those of another attempt stay.

    Args:
        verdicts: By key, of what no retained revision names.
    """
    names = {key: name for key in verdicts if (name := parse_data_file(key)) is not None}
    blocks = {key: name.number // FILES_OF_AN_ATTEMPT for key, name in names.items()}
    staying: dict[tuple[int, bytes], set[int]] = defaultdict(set)
    for key, name in names.items():
        if not verdicts[key].goes:
            staying[name.epoch, name.transaction_id].add(blocks[key])
    judged = dict(verdicts)
    for key, name in names.items() if staying else ():
        others = staying.get((name.epoch, name.transaction_id), set()) - {blocks[key]}
        if verdicts[key].goes and others:
            judged[key] = Verdict(False, _WAITS)
    return judged
