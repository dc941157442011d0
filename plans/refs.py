"""Named cuts pin revisions, and this version can't read them: no step goes on where there are any.

Source: docs/format.md, section 2.
"""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING, Final

from ..errors import ObjectNotFound, UnsupportedFeature

if TYPE_CHECKING:
    from ..store import Store

_REFS: Final = "_refs"
_NAMED: Final = 5


def refuse_refs(store: Store) -> None:
    """Refuse if there is anything below `_refs/`, or of that name.

    Raises:
        UnsupportedFeature: There is.
    Requests: 1 HEAD, 1 LIST.
    """
    try:
        keys = [store.head(_REFS).key]
    except ObjectNotFound:
        keys = [info.key for info in islice(store.list(f"{_REFS}/"), _NAMED)]
    if keys:
        raise UnsupportedFeature(
            f"The catalog has refs ({', '.join(keys)}), and this lakelog doesn't know which "
            "revisions they pin",
            key=keys[0],
            hint="Nothing was changed. Upgrade lakelog",
        )
