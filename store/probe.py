"""Find out what a store really does, by doing it.

Put-if-absent can't be taken on trust: several stores accept the request header and ignore it, and
others look whether a name is there and write then, so that of two that come at once both win.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import threading
from functools import partial
from itertools import chain
from typing import TYPE_CHECKING, NoReturn, TypeVar

from ..errors import (
    AccessDenied,
    CapabilityMissing,
    InvalidPath,
    LakelogError,
    ObjectExists,
    ObjectNotFound,
    StorageError,
)
from .base import Capabilities

if TYPE_CHECKING:
    import datetime as dt
    from collections.abc import Callable, Sequence

    from .base import Names, Store

_FIRST = b"lakelog probe: first"
_TRIES = 3
_THOROUGH = 5  # so many times the names are raced for where somebody asks what the store is like
_KEPT_BYTES = 4096  # more than a finding has
_START_S = 5.0  # racers that are later than this don't wait for one another
T = TypeVar("T")


def _new_name() -> str:
    return os.urandom(8).hex()


# --- Put-if-absent --------------------------------------------------------------------------------


def probe(
    store: Store,
    prefix: str,
    *,
    new_name: Callable[[], str] = _new_name,
    before: Callable[[], object] = lambda: None,
) -> Capabilities:
    """What the store does with put-if-absent: what an opening before this one has found out and
    kept, or else `race`, whose finding is kept below the prefix.

    A finding names the store that it was made on and is believed there alone: objects can be
    copied to another one. It is also kept on the store object.

    Args:
        store: Where to look.
        prefix: Empty, or ends in `/`: where the caller may write.
        new_name: As for `race`.
        before: Called before anything is written; may raise.
    Raises:
        AccessDenied, StorageError: As `race`.
    Requests: 1 GET; where no finding is kept also 1 PUT and those of `race`; none if this store
        object was asked before.
    """
    if store.probed is None:
        found = kept_finding(store, prefix)
        if found is None:
            before()
            found = _keep(store, prefix, race(store, prefix, new_name=new_name))
        store.probed = found
    return store.probed


def kept_key(store: Store, prefix: str) -> str:
    """Where a finding about this very store is kept."""
    return f"{prefix}_probe/store-{hashlib.sha256(store.identity().encode()).hexdigest()[:16]}"


def kept_finding(store: Store, prefix: str) -> Capabilities | None:
    """What was found out about this very store and kept; None if nothing was, or it can't be read.

    Requests: 1 GET.
    """
    try:
        found = json.loads(store.get(kept_key(store, prefix), end=_KEPT_BYTES))
    except (ObjectNotFound, AccessDenied, ValueError, RecursionError):
        return None
    if not isinstance(found, dict) or found.get("store") != store.identity():
        return None
    works, detail = found.get("put_if_absent"), found.get("detail")
    if not isinstance(works, bool) or not isinstance(detail, str):
        return None
    return Capabilities(store.backend, works, detail)


def keep_finding(
    store: Store, prefix: str, found: Capabilities, *, if_absent: bool = False
) -> None:
    """Keep a finding for the openings to come. Raises `ObjectExists`, `StorageError`.

    Requests: 1 PUT.
    """
    said = {
        "store": store.identity(),
        "put_if_absent": found.put_if_absent,
        "detail": found.detail,
    }
    store.put(kept_key(store, prefix), json.dumps(said).encode() + b"\n", if_absent=if_absent)


def _keep(store: Store, prefix: str, found: Capabilities) -> Capabilities:
    """Keep a finding, and return what counts: of two findings that differ the one against the
    store, as a race can miss what another one shows."""
    try:
        keep_finding(store, prefix, found, if_absent=found.put_if_absent)
    except ObjectExists:
        other = kept_finding(store, prefix)
        if other is not None:
            return other
        with contextlib.suppress(LakelogError):  # what is there can't be read
            keep_finding(store, prefix, found)
    except StorageError:
        pass  # the next opening races again
    return found


def race(
    store: Store,
    prefix: str,
    *,
    thorough: bool = False,
    new_name: Callable[[], str] = _new_name,
) -> Capabilities:
    """Let `store.racers` threads put one new name if absent, all at once, for each of
    `store.raced_names` names: one of them must win, the others be refused, and what the winner put
    be what is read.

    Only what leaves no other reading counts against the store: a lost answer or a damaged one must
    not turn a good store into one that writers then write to without put-if-absent. Two winners of
    one name are a proof because nobody deletes it: else a process and its double, which draw the
    same names, could win it one after the other.

    Args:
        prefix: Empty, or ends in `/`: where the caller may write.
        thorough: Race for five times as many names, and remove them: not for a process that can
            have a double.
        new_name: Makes the random part of the names.
    Returns:
        The finding. Where `thorough` can't delete, the detail says what was left behind.
    Raises:
        AccessDenied: Writing or reading is not allowed here.
        StorageError: The store failed, or answered three times what can't be; nothing is known.
    Requests: for each name 1 PUT a racer and 1 GET, so 32 PUT and 4 GET; on a local disk and in
        memory 2 PUT and 1 GET; 8 PUT and no GET where all win the first name. `thorough` five
        times those, and as many DELETE as GET.
    """
    names = store.raced_names * (_THOROUGH if thorough else 1)
    for _ in range(_TRIES):
        base = f"{prefix}_probe/{new_name()}"
        keys = [f"{base}-{number}" for number in range(names)]
        left = ""
        try:
            found = _race(store, keys)
        finally:
            if thorough:
                left = _remove(store, keys)
        if found is not None:
            return Capabilities(store.backend, found.put_if_absent, found.detail + left)
    raise StorageError(
        "The store gives back something else than was written",
        key=f"{prefix}_probe/",
        hint="Something between here and the store alters or loses objects: look into that "
        "before you write anything",
    )


def _remove(store: Store, keys: Sequence[str]) -> str:
    """Delete what was raced for; what stays, in words."""
    try:
        store.delete(keys, ordered=False)
    except AccessDenied:
        return f"; deleting is not allowed, so {keys[0]} and more stay"
    except LakelogError:
        pass
    return ""


def _race(store: Store, keys: Sequence[str]) -> Capabilities | None:
    """The finding of one try; None if what was seen proves nothing."""
    # Random as far as damage goes: no flipped bit makes one racer's body another's.
    bodies = [
        hashlib.sha256(f"{keys[0]} {number}".encode()).hexdigest().encode()
        for number in range(store.racers)
    ]
    raced = []
    try:
        for key in keys:
            answers = _at_once([partial(_put, store, key, body) for body in bodies])
            if answers.count(True) > 1:  # what is there now can't be more telling
                return Capabilities(store.backend, False, _crowd(answers))
            raced.append(answers)
    except CapabilityMissing as error:
        return Capabilities(store.backend, False, f"put-if-absent is refused: {error.message}")
    shown = [
        _shows(bodies, answers, body)
        for answers, body in zip(raced, store.get_many(keys), strict=True)
    ]
    if None in shown:
        what = "a put-if-absent that did not win replaced what the winner wrote"
        return Capabilities(store.backend, False, what)
    if 2 * shown.count(True) >= len(keys):
        many = "a name" if len(keys) == 1 else f"each of {len(keys)} names"
        won = f"of {len(bodies)} that raced for {many} one won, and what it wrote stayed"
        return Capabilities(store.backend, True, won)
    for answer in chain.from_iterable(raced):
        if isinstance(answer, StorageError):
            raise answer
    return None


def _shows(
    bodies: Sequence[bytes], answers: Sequence[bool | StorageError], body: bytes | None
) -> bool | None:
    """Whether a race that not several won shows that put-if-absent works; None: that it doesn't."""
    if body not in bodies:
        return False
    if True in answers and body != bodies[answers.index(True)]:
        return None
    answered = sum(isinstance(answer, bool) for answer in answers)
    return False in answers and 2 * answered >= len(bodies)


def _crowd(answers: Sequence[bool | StorageError]) -> str:
    """What is wrong with a store that lets several win, in words."""
    winners, racers = answers.count(True), len(answers)
    both = "that raced for one name got a success"
    if winners == racers:
        return f"put-if-absent is ignored: all {racers} {both}"
    return f"put-if-absent is not atomic: {winners} of {racers} {both}"


def _put(store: Store, key: str, body: bytes) -> bool | StorageError:
    """Whether this racer won; the error if no answer says so."""
    try:
        store.put(key, body, if_absent=True)
    except ObjectExists:
        return False
    except (AccessDenied, CapabilityMissing):
        raise
    except StorageError as error:
        return error
    return True


def _at_once(calls: Sequence[Callable[[], T]]) -> list[T]:
    """The results of calls that are made at the same moment, or the first error."""
    return [outcome() for outcome in in_threads(calls)]


def in_threads(calls: Sequence[Callable[[], T]]) -> list[Callable[[], T]]:
    """Make each call in a thread, all at the same moment; what gives the result of each."""
    outcomes: dict[int, Callable[[], T]] = {}
    start = threading.Barrier(len(calls))

    def run(number: int) -> None:
        with contextlib.suppress(threading.BrokenBarrierError):
            start.wait(_START_S)
        try:
            result = calls[number]()
        except BaseException as error:
            outcomes[number] = partial(_fail, error)
        else:
            outcomes[number] = lambda: result

    threads = [threading.Thread(target=run, args=(number,)) for number in range(len(calls))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return [outcomes[number] for number in range(len(calls))]


def _fail(error: BaseException) -> NoReturn:
    raise error


# --- Names and time -------------------------------------------------------------------------------


def probe_names(store: Store, prefix: str, *, new_name: Callable[[], str] = _new_name) -> Names:
    """What the names of two objects may differ in and be one to the store, in words; empty for
    nothing. Macs and Windows, and what they share with others, fold case; and so on.

    The answer is kept on the store object, so that a second call costs nothing.

    Args:
        prefix: Empty, or ends in `/`: where the caller may write.
        new_name: Makes the random part of the key.
    Raises:
        AccessDenied: Writing or reading is not allowed here.
        StorageError: The store failed.
    Requests: 1 PUT, 5 GET, 1 DELETE; none if this store object was asked before.
    """
    if store.folds is None:
        base = f"{prefix}_probe/{new_name()}-"
        keys = [base + spelling for spelling in (_SPELLED, *_TWINS)]
        try:
            store.put(keys[0], _FIRST)
            found = [_answers(store, key) for key in keys]
        finally:
            with contextlib.suppress(LakelogError):
                store.delete([keys[0]])
        if not found[0]:
            raise StorageError("what was just written is not there", key=keys[0])
        store.folds = [
            what for what, there in zip(_TWINS.values(), found[1:], strict=True) if there
        ]
    return store.folds


_SPELLED = "A\u00e9"
_TWINS = {
    "a\u00e9": "case",
    "Ae\u0301": "Unicode normal form",
    "A\u00e9.": "dots at the end",
    "A\u00e9 ": "spaces at the end",
}


def _answers(store: Store, key: str) -> bool:
    """Whether a key that was put in one spelling is there in this one."""
    try:
        return store.get(key) == _FIRST
    except (ObjectNotFound, InvalidPath):
        return False


def store_time(store: Store, prefix: str, new_name: Callable[[], str]) -> dt.datetime | None:
    """The store's own time, by an object of our own that is written and removed again; None if the
    store gives no times.

    Args:
        prefix: Ends in `/`: where the caller may write.
        new_name: Makes the random part of the key.
    Requests: 1 PUT, 1 HEAD, 1 DELETE.
    """
    key = f"{prefix}_probe/{new_name()}"
    store.put(key, b"lakelog: what time is it?")
    try:
        return store.head(key).modified_at
    finally:
        with contextlib.suppress(AccessDenied):  # a writer need not be allowed to delete
            store.delete([key])
