"""The rules of a rebuild: which files are live, by what the log still says and by what footers say.
Pure. The rules are the list in docs/recovery.md, "rebuild", and `decide` is that list.

No footer says that its own transaction was committed. That of a later one does: it names the
transaction that was the last at the head when it was begun. So what was lost is either proven, or
may have been committed and may not. Rows must not be lost, so an unproven transaction may add rows,
and can never take any away.
"""

from __future__ import annotations

import bisect
import itertools
from collections import defaultdict
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence

    from .scan import FileName, OwnFile

EXCLUDED: Final = "left out on request"
INCLUDED: Final = "included on request"
REMOVED: Final = "the log has it, and its files were removed since"
_UNKNOWN: Final = "nothing says whether it was committed"
_TOP: Final = 1 << 62  # above every revision and epoch


@dataclass(frozen=True, slots=True)
class Attempt:
    """A transaction as its files tell of it.

    Attributes:
        files: Its data files.
        vectors: Its objects of deletion vectors.
        first: One of them: what is the same in all.
        names, replaces: Tables and paths of its data files, and of what it takes out.
    """

    files: tuple[OwnFile, ...]
    vectors: tuple[OwnFile, ...]
    first: OwnFile
    names: frozenset[FileName]
    replaces: frozenset[FileName]

    @property
    def transaction_id(self) -> bytes:
        """16 bytes."""
        return self.first.transaction_id

    @property
    def is_rewrite(self) -> bool:
        """Whether it has the rows of the files that it replaces."""
        return self.first.operation == "rewrite" and bool(self.replaces)


Placed = tuple[int | None, Attempt]  # with the revision that it is known to have been


@dataclass(frozen=True, slots=True)
class Readable:
    """A transaction above the base that can be read.

    Attributes:
        ids: Of its members.
        epoch: Its own.
        adds, removes: Tables and paths.
        hides: Of these files it deletes rows.
        versions: Of applications.
    """

    ids: frozenset[bytes]
    epoch: int
    adds: frozenset[FileName] = frozenset()
    removes: frozenset[FileName] = frozenset()
    hides: frozenset[FileName] = frozenset()
    versions: frozenset[tuple[str, int]] = frozenset()


@dataclass(frozen=True, slots=True)
class Base:
    """What the newest readable state says.

    Attributes:
        revision, epoch, incarnation: Its own; -1, 0 and 0 if nothing can be read.
        history: Epoch and transaction ids by revision.
        live: Tables and paths.
        versions: Of applications.
    """

    revision: int = -1
    epoch: int = 0
    incarnation: int = 0
    history: Mapping[int, tuple[int, frozenset[bytes]]] = field(default_factory=dict)
    live: Collection[FileName] = frozenset()
    versions: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Salvaged:
    """A lost transaction that counts.

    Attributes:
        attempt: It.
        is_proven: By a footer.
        revision: Its place above the base; None: unproven, or of a lost end.
        files: Those of its files that it adds.
        removes: What it takes out that is live then.
        why: Why it counts, in words.
    """

    attempt: Attempt
    is_proven: bool
    revision: int | None
    files: tuple[OwnFile, ...]
    removes: frozenset[FileName]
    why: str


@dataclass(frozen=True, slots=True)
class Decision:
    """What becomes of each transaction.

    Attributes:
        salvaged: Those that count: proven ones by revision, then unproven ones as they were begun.
        refused: The others, by transaction id, each with the reason.
        live: Files that the rebuilt log has, those that are gone included.
        gone: Of these, files that are not in the store.
        lost: How many revisions are lost of which no footer tells.
    """

    salvaged: tuple[Salvaged, ...]
    refused: Mapping[bytes, str]
    live: Collection[FileName]
    gone: frozenset[FileName]
    lost: int


def attempts_of(files: Iterable[OwnFile]) -> list[Attempt]:
    """Groups files by transaction, of one opening: a process and its double may draw one id for
    two. Of several attempts at one task that one is taken whose files are replaced by another
    transaction, else the fullest."""
    groups: dict[object, list[OwnFile]] = defaultdict(list)
    named: set[str] = set()
    for file in files:
        opening = file.incarnation, file.epoch, file.slot_seed, file.app_id, file.app_version
        groups[file.transaction_id, opening].append(file)
        named.update(path for _, path in file.replaces)
    return [_attempt(sorted(group, key=lambda one: one.number), named) for group in groups.values()]


def _attempt(group: Sequence[OwnFile], named: Collection[str]) -> Attempt:
    tries: dict[int, dict[int, list[OwnFile]]] = defaultdict(lambda: defaultdict(list))
    for file in group:
        if file.task >= 0:
            tries[file.task][file.attempt].append(file)
    best = {
        task: max(of, key=lambda n: (sum(o.path in named for o in of[n]), _rows(of[n]), -n))
        for task, of in tries.items()
    }
    counted = [one for one in group if one.task < 0 or best[one.task] == one.attempt]
    files = tuple(one for one in counted if one.add)
    return Attempt(
        files,
        tuple(one for one in counted if not one.add),
        min(counted, key=lambda one: (one.base_revision, one.number)),
        frozenset((one.table, one.path) for one in files),
        frozenset(name for one in counted for name in one.replaces),
    )


def _rows(files: Iterable[OwnFile]) -> int:
    return sum(file.row_count for file in files)


def decide(  # noqa: PLR0917 - all that is known
    base: Base,
    readable: Mapping[int, Readable],
    files: Iterable[OwnFile],
    there: Collection[str],
    excluded: Collection[bytes] = frozenset(),
    rivals: Mapping[bytes, int] = MappingProxyType({}),
    included: frozenset[bytes] = frozenset(),
) -> Decision:
    """Applies the rules.

    Args:
        readable: Transactions above the base, by revision.
        files: All of lakelog's own below `data/` that the base has not live.
        there: Paths of all objects below `data/`.
        excluded: Transactions that the user leaves out, of the unproven ones and of a lost end.
        rivals: Other transactions that can be read of revisions that the log has.
        included: Transactions whose files the user adds where the rules leave them out.
    """
    attempts = attempts_of(files)
    named = _named_by_log(attempts, base, readable) | _named(attempts) | dict(rivals)
    logged = dict(base.history)
    logged |= {revision: (item.epoch, item.ids) for revision, item in readable.items()}
    revisions = {one: revision for revision, (_, ids) in logged.items() for one in ids}
    replaced = _replaced(attempts, base.incarnation, logged) | dict(rivals)
    held = frozenset().union(*(item.ids for item in readable.values()))
    refused: dict[bytes, str] = {}
    proven: list[tuple[int, Attempt]] = []
    open_ones: list[Attempt] = []
    by_id: dict[bytes, list[Attempt]] = defaultdict(list)
    for attempt in attempts:
        by_id[attempt.transaction_id].append(attempt)
    for one, same in by_id.items():
        for revision in sorted({known[one] for known in (revisions, named) if one in known}):
            # What was begun after that revision is another transaction: a double's.
            begun = [attempt for attempt in same if attempt.first.base_revision < revision]
            if not begun:
                continue
            attempt = max(begun, key=lambda attempt: attempt.first.base_revision)
            same.remove(attempt)
            is_old = one not in replaced and revision <= base.revision
            if revision == revisions.get(one) or is_old:
                refused |= {} if one in held else {one: REMOVED}  # the log says what it did
            else:
                proven.append((revision, attempt))
        open_ones += same
    proven.sort(key=lambda item: (item[0], item[1].transaction_id))
    main, end = ([], proven) if replaced else (proven, [])
    walk = _Walk(base, readable, main, there)
    salvaged = walk.along()
    known = {base.revision: base.epoch}
    known |= {revision: item.epoch for revision, item in readable.items()}
    gaps = _gaps(known, main)
    if replaced:
        gaps += _gaps({min(replaced.values()) - 1: 0}, end)
    shared = [item for item in proven if replaced or item[0] not in readable]
    fitting: list[Placed] = []
    for known_as, attempt in [*end, *((None, attempt) for attempt in open_ones)]:
        why = "" if known_as is not None else _refuses(attempt.first, base, gaps, shared)
        why = EXCLUDED if attempt.transaction_id in excluded else why
        if why:
            refused[attempt.transaction_id] = why
        else:
            fitting.append((known_as, attempt))
    # A version of the lost end may be below those of the commits that took its place.
    above, since = (Base(), {}) if replaced else (base, readable)
    counted = _one_of_each_version(fitting, above, since, proven, refused)
    salvaged += walk.placeless(counted, refused)
    salvaged += walk.included(one for one in attempts if one.transaction_id in included)
    refused = {one: why for one, why in refused.items() if one not in included}
    unknown = sum(high - low - 1 for low, _, high, _ in gaps if high < _TOP)
    gone = _gone(walk.live, there)
    return Decision(tuple(salvaged), refused, walk.live, gone, unknown)


# The lost revisions between two known ones: these, and their epochs. Epochs never fall along a log:
# that is what tells which transaction can have been there. The last gap is above all that is known.
_Gap = tuple[int, int, int, int]


def _gaps(known: Mapping[int, int], proven: Iterable[tuple[int, Attempt]]) -> list[_Gap]:
    """Returns the gaps between the revisions of a log, whose epochs are `known`, or proven."""
    epochs = {revision: attempt.first.epoch for revision, attempt in proven} | dict(known)
    pairs = itertools.pairwise([*sorted(epochs.items()), (_TOP, _TOP)])
    return [(*below, *above) for below, above in pairs if above[0] > below[0] + 1]


def _may_have_been(
    first: OwnFile, gaps: Iterable[_Gap], shared: Iterable[tuple[int, Attempt]]
) -> bool:
    """Checks whether a transaction can have been a lost revision, or can have shared one that is
    proven."""
    base, epoch = first.base_revision, first.epoch
    if any(before <= epoch <= after and high - 1 > base for _, before, high, after in gaps):
        return True
    own = first.slot_seed, epoch
    return any(base < r and own == (o.first.slot_seed, o.first.epoch) for r, o in shared)


def _refuses(
    first: OwnFile, base: Base, gaps: Iterable[_Gap], shared: Iterable[tuple[int, Attempt]]
) -> str:
    """Returns why a transaction can have been no lost revision; empty if it can."""
    if first.incarnation < base.incarnation:
        return "it was begun before the last rebuild, and can't have been committed after it"
    if _may_have_been(first, gaps, shared):
        return ""
    return "it was never committed: no lost revision is left that it can have been"


def _begun(attempt: Attempt) -> tuple[int, int, int, bytes]:
    first = attempt.first
    return first.epoch, first.base_revision, first.last_clock, first.transaction_id


def _gone(names: Iterable[FileName], there: Collection[str]) -> frozenset[FileName]:
    """Returns the files below the writer's own `data/` that are not in the store."""
    return frozenset(name for name in names if name[1].startswith("data/") and name[1] not in there)


def _named(attempts: Iterable[Attempt]) -> dict[bytes, int]:
    """Returns the transactions that footers name as their base, with their revisions: the last, for
    a process and its double may both draw an id."""
    found: dict[bytes, int] = {}
    for attempt in attempts:
        for one in (*attempt.files, *attempt.vectors):
            known = found.get(one.base_transaction_id, -1)
            found[one.base_transaction_id] = max(known, one.base_revision)
    return found


def _named_by_log(
    attempts: Iterable[Attempt], base: Base, readable: Mapping[int, Readable]
) -> dict[bytes, int]:
    """Returns the lost transactions whose files a readable transaction names, each with the highest
    lost revision below that one."""
    first: dict[FileName, int] = {}
    for revision in sorted(readable, reverse=True):
        item = readable[revision]
        first |= dict.fromkeys(item.adds | item.removes | item.hides, revision)
    found: dict[bytes, int] = {}
    for attempt in attempts:
        revision = min((first[name] for name in attempt.names & first.keys()), default=-1)
        while revision in readable:
            revision -= 1
        if revision > base.revision:
            found[attempt.transaction_id] = revision
    return found


def _replaced(
    attempts: Iterable[Attempt],
    incarnation: int,
    logged: Mapping[int, tuple[int, Collection[bytes]]],
) -> dict[bytes, int]:
    """Returns the transactions that footers name as their base and that can't be in the log, each
    with a revision that the log has given to another: it has another one there, or its epoch is
    higher there than that of the footer already. They were the log's end, until that was lost and
    writers went on."""
    revisions = sorted(logged)
    epochs = list(itertools.accumulate((logged[one][0] for one in revisions), max))
    found: dict[bytes, int] = {}
    for attempt in attempts:
        for one in (*attempt.files, *attempt.vectors):
            base, revision = one.base_transaction_id, one.base_revision
            if not base or revision < 0 or one.incarnation < incarnation:
                continue
            higher = bisect.bisect_right(epochs, one.epoch)
            if revision in logged and base not in logged[revision][1]:
                found[base] = min(revision, found.get(base, revision))
            elif higher < len(revisions) and revisions[higher] <= revision:
                found[base] = min(revisions[higher], found.get(base, revision))
    return found


class _Walk:
    """The live files along the revisions that are known.

    Attributes:
        live: By now.
        replaced: Taken out by known transactions, and not there again.
    """

    def __init__(
        self,
        base: Base,
        readable: Mapping[int, Readable],
        proven: Sequence[tuple[int, Attempt]],
        there: Collection[str],
    ) -> None:
        self.live = set(base.live)
        self._base, self._readable, self._there = base, readable, there
        self._proven: dict[int, list[Attempt]] = defaultdict(list)
        for revision, attempt in proven:
            self._proven[revision].append(attempt)
        self.replaced: set[FileName] = set()
        self._covered: set[FileName] = set()  # of rewrites whose inputs are live

    def along(self) -> list[Salvaged]:
        """Goes from the base upwards; returns the proven transactions."""
        found: list[Salvaged] = []
        for revision in sorted({*self._readable, *self._proven}):
            item = self._readable.get(revision)
            if item is not None:
                self._step(item.adds, item.removes)
            for attempt in self._proven.get(revision, ()):
                removes = attempt.replaces & self.live
                self._step(attempt.names - self.replaced, attempt.replaces)
                why = f"it is known to be revision {revision}"
                found.append(Salvaged(attempt, True, revision, attempt.files, removes, why))
        return found

    def _step(self, adds: frozenset[FileName], removes: frozenset[FileName]) -> None:
        self.live -= removes
        self.live |= adds
        self.replaced |= removes
        self.replaced -= adds

    def placeless(self, attempts: Iterable[Placed], refused: dict[bytes, str]) -> list[Salvaged]:
        """Adds the files of transactions without a place, rewrites last.

        Args:
            attempts: Each with the revision that it is known to have been.
        """
        ordered = sorted(attempts, key=lambda one: (one[1].is_rewrite, *_begun(one[1])))
        found: list[Salvaged] = []
        for revision, attempt in ordered:
            why = self._why_not(attempt)
            if why:
                refused[attempt.transaction_id] = why
                continue
            removes = attempt.replaces & self.live if attempt.is_rewrite else frozenset()
            files = self._new(attempt)
            if not files and not removes:
                if attempt.names.isdisjoint(self.live):
                    refused[attempt.transaction_id] = REMOVED
                continue
            self.live = (self.live - removes) | (attempt.names - self.replaced)
            why = "a rewrite of which not all inputs are there" if removes else _UNKNOWN
            if revision is not None:
                why = f"it was revision {revision} of a log that lost its end, or forked"
            found.append(Salvaged(attempt, revision is not None, None, files, removes, why))
        return found

    def included(self, attempts: Iterable[Attempt]) -> list[Salvaged]:
        """Adds the files of transactions that the user wants; of a rewrite the inputs go."""
        found: list[Salvaged] = []
        for attempt in attempts:
            files = tuple(one for one in attempt.files if (one.table, one.path) not in self.live)
            if files:
                removes = attempt.replaces & self.live if attempt.is_rewrite else frozenset()
                self.live = (self.live - removes) | attempt.names
                found.append(Salvaged(attempt, False, None, files, removes, INCLUDED))
        return found

    def _new(self, attempt: Attempt) -> tuple[OwnFile, ...]:
        """Returns the files of a transaction that are not live, and were not replaced since."""
        known = self.live | self.replaced
        return tuple(one for one in attempt.files if (one.table, one.path) not in known)

    def _why_not(self, attempt: Attempt) -> str:
        """Returns why an unproven transaction doesn't count though it may have been committed."""
        if not attempt.files:
            return "it only deletes, and has no place in the log"
        if not attempt.is_rewrite or not attempt.names.isdisjoint(self.replaced):
            return ""
        missing = attempt.replaces - self.live - self._covered
        missing |= _gone(attempt.replaces & self.live, self._there)
        if missing:
            return ""
        self._covered |= attempt.names
        return "a rewrite without a place in the log; its inputs are there"


def _one_of_each_version(
    attempts: Sequence[Placed],
    base: Base,
    readable: Mapping[int, Readable],
    proven: Iterable[tuple[int, Attempt]],
    refused: dict[bytes, str],
) -> list[Placed]:
    """Takes one of the unproven attempts at each version of an application."""
    done = {name for item in readable.values() for name in item.versions}
    done |= {(one.first.app_id, one.first.app_version) for _, one in proven}
    found: list[Placed] = []
    taken: set[tuple[str, int]] = set()
    for revision, attempt in sorted(attempts, key=lambda one: _fullness(one[1]), reverse=True):
        name = app, version = attempt.first.app_id, attempt.first.app_version
        if revision is not None or not app:
            found.append((revision, attempt))
        elif name in done or base.versions.get(app, -1) >= version:
            why = f"version {version} of {app} was committed by another"
            refused[attempt.transaction_id] = why
        elif name in taken:
            why = f"another attempt at version {version} of {app} has more rows, or as many"
            refused[attempt.transaction_id] = why
        else:
            taken.add(name)
            found.append((revision, attempt))
    return found


def _fullness(attempt: Attempt) -> tuple[int, int, bytes]:
    return _rows(attempt.files), len(attempt.files), attempt.transaction_id
