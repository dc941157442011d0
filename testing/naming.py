"""Tags and published cuts in a history: what a name that was acknowledged stands for can be read,
whatever prune has deleted, as long as the name keeps it."""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import pairwise
from typing import TYPE_CHECKING

from ..catalog.catalog import Catalog
from ..catalog.format.ref import FOLDER, SUFFIX, decode_ref
from ..errors import LakelogError
from .truth import DATABASE, WRITER, hold

if TYPE_CHECKING:
    from ..catalog.format.ref import Ref
    from ..catalog.margins import Margins
    from ..store.base import Store
    from .simulation import World
    from .truth import Truth

_NAMES = ("books", "prod")  # a tag and a published cut
_DAY_US = 86_400_000_000


@dataclass(slots=True)
class Names:
    """The names of one history.

    Attributes:
        world, truth: The history, and what readers must see in it.
        margins: Of its processes.
        entries: By name the entries that were put, and when (µs).
        acknowledged: Ids of the entries whose calls returned.
    """

    world: World
    truth: Truth
    margins: Margins
    entries: dict[str, list[tuple[Ref, int]]] = field(default_factory=dict)
    acknowledged: set[bytes] = field(default_factory=set)

    def applied(self, verb: str, key: str, body: bytes) -> None:
        """Takes in a request that took effect."""
        if verb == "PUT" and key.startswith(FOLDER) and key.endswith(SUFFIX):
            ref = decode_ref(body, key)
            entries = self.entries.setdefault(ref.name, [])
            hold(
                ref.number == len(entries) + 1,
                f"N1 entry {ref.number} of {ref.name} is put behind {len(entries)}",
            )
            entries.append((ref, self.world.now_us))

    def namer(self, store: Store, *, rounds: int) -> None:
        """Makes, moves and removes names, of revisions however old."""
        random = self.world.random
        catalog = Catalog(store, ambient=self.world.ambient(), margins=self.margins)
        for _ in range(rounds):
            self.world.ambient().sleep_s(random.random() * self.margins.prune_floor_s)
            cut = {WRITER: random.randint(0, max(self.truth.slots, default=0))}
            try:
                if random.random() < 0.5:
                    keep_days = random.choice((0, 1, 4))
                    entries = self.entries.get("prod", ())
                    expect = random.choice((None, len(entries)))
                    made = catalog.publish(
                        "prod", cut, databases=DATABASE, keep_days=keep_days, expect=expect
                    )
                elif random.random() < 0.7:
                    made = catalog.tag("books", cut, databases=DATABASE)
                else:
                    catalog.untag(random.choice(_NAMES))
                    continue
            except LakelogError:
                continue
            self.acknowledged.add(made.id)

    def check(self) -> None:
        """Reads all that names keep."""
        catalog = Catalog(self.world.store, ambient=self.world.ambient(), margins=self.margins)
        for name, entries in self.entries.items():
            ref = entries[-1][0]
            if ref.id in self.acknowledged and ref.kind != "removed":
                self._read(catalog, ref, f"@{name}")
            for (old, _), (_, replaced_us) in pairwise(entries):
                is_kept = self.world.now_us <= replaced_us + old.keep_s * 1_000_000
                if old.id in self.acknowledged and is_kept and old.kind == "published":
                    self._read(catalog, old, old.cuts[DATABASE].token)

    def _read(self, catalog: Catalog, ref: Ref, point: str) -> None:
        revision = ref.cuts[DATABASE].revisions[WRITER]
        try:
            (state,) = catalog.snapshot(DATABASE, point)._states
        except LakelogError as error:
            hold(False, f"N2 {ref.name} keeps revision {revision}, and it can't be read: {error}")
            raise
        hold(state.revision == revision, f"N2 {ref.name} reads {state.revision}, not {revision}")
        self.truth.read(state)
