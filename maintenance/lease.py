"""The lease of maintenance: of several jobs on one catalog one works, so that none does the other's
work again.

It is a numbered series of objects. Whoever takes, renews or releases it puts the next one, which
only one can. It ends when it is released, or by the store's clock when it was not renewed for its
time: a job that died is taken over then. Nothing depends on it but work: two jobs at once break
nothing, since every step checks again what it does.

Source: docs/format.md, section 12; docs/maintenance.md.
"""

from __future__ import annotations

import datetime as dt
import json
import os
import socket
import threading
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from ..catalog.refs.series import Entry, Series
from ..errors import LakelogError, MaintenanceRunning, RefMoved
from ..store import store_time

if TYPE_CHECKING:
    from types import TracebackType

    from ..plans import Place

FOLDER: Final = "_maintenance/lease/"
_RENEWALS: Final = 3  # within the time of a lease
_EPOCH: Final = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)


@dataclass(slots=True)
class Lease:
    """A lease that this process tries to hold while it is entered.

    Attributes:
        catalog: Whose maintenance.
        is_lost: Whether another job has taken it over, for this one stood still.
    """

    catalog: Place
    is_lost: bool = False
    _entry: Entry | None = None
    _id: str = ""
    _done: threading.Event = field(default_factory=threading.Event)
    _thread: threading.Thread | None = None

    def __enter__(self) -> Lease:
        """Takes the lease.

        Raises:
            MaintenanceRunning: Another job has it.
            CapabilityMissing: The store has no put-if-absent, so that there are no leases.
            StorageError: Nobody knows.
        Requests: 1 LIST, 1 GET, 1 PUT, and those of `probe` once; 1 PUT, 1 HEAD and 1 DELETE for
            the clock if somebody else's was not released; 1 DELETE for each that is a day old.
        """
        entry, body = self._series.read_newest()
        if entry.number:
            self._refuse_held(entry, _decoded(body))
        self._id = self.catalog.ambient.new_id().hex()
        try:
            self._entry = self._series.append(self._body(released=False), entry)
        except RefMoved as error:
            raise MaintenanceRunning(
                "Another job of maintenance has begun at the same time",
                key=error.key,
                hint=_HINT,
            ) from None
        self._delete_old()
        if self.catalog.ambient.in_background:
            self._thread = threading.Thread(target=self._renew, name="lakelog-lease", daemon=True)
            self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._done.set()
        if self._thread is not None:
            self._thread.join()
        if not self.is_lost:
            with suppress(LakelogError):  # it ends by itself
                self.renew(released=True)

    def renew(self, *, released: bool = False) -> None:
        """Puts the next entry.

        Raises:
            RefMoved: Another job has taken over.
            StorageError: Nobody knows.
        Requests: 1 PUT.
        """
        assert self._entry is not None
        self._entry = self._series.append(self._body(released=released), self._entry)

    @property
    def _series(self) -> Series:
        catalog = self.catalog
        return Series(catalog.store, FOLDER, ".json", catalog.ambient, catalog.margins)

    def _body(self, *, released: bool) -> bytes:
        fields = {
            "id": self._id,
            "host": socket.gethostname(),
            "pid": os.getpid(),
            "lease_s": self.catalog.margins.lease_s,
            "renewed_at_us": self.catalog.ambient.now_us(),
            "released": released,
        }
        return (json.dumps(fields) + "\n").encode()

    def _renew(self) -> None:
        while not self._done.wait(self.catalog.margins.lease_s / _RENEWALS):
            with suppress(LakelogError):  # the next time, or never: then it ends by itself
                try:
                    self.renew()
                except RefMoved:
                    entry, body = self._series.read_newest()
                    if _decoded(body).get("id") != self._id:
                        self.is_lost = True
                        return
                    self._entry = entry  # an entry of ours whose answer was lost

    def _refuse_held(self, entry: Entry, held: dict[str, Any]) -> None:
        if held.get("released") is True:
            return
        now = self._now()
        since = entry.modified_at or _at(held.get("renewed_at_us"))
        lease_s = _number(held.get("lease_s"), self.catalog.margins.lease_s)
        left_s = lease_s - (now - since).total_seconds()
        if left_s > 0:
            raise MaintenanceRunning(
                f"A job of maintenance is running: process {held.get('pid', '?')} on "
                f"{held.get('host', '?')}, whose lease ends in {left_s:.0f} s unless it is renewed",
                key=entry.key,
                hint=_HINT,
            )

    def _now(self) -> dt.datetime:
        """By the store's clock; by this machine's if the store gives no times."""
        catalog = self.catalog
        at = store_time(catalog.store, "_maintenance/", lambda: catalog.ambient.new_id().hex())
        return at or _EPOCH + dt.timedelta(microseconds=catalog.ambient.now_us())

    def _delete_old(self) -> None:
        """Deletes entries that nobody can be about to follow up."""
        entries = self._series.entries()
        now = next((entry.modified_at for entry in entries if entry.modified_at), None)
        if now is None:
            return
        limit = now - dt.timedelta(seconds=self.catalog.margins.prune_floor_s)
        old = [each for each in entries[1:] if each.modified_at and each.modified_at < limit]
        if old:
            self._series.delete(old)


_HINT: Final = (
    "Nothing was done. Two at once would break nothing, but do the same work. The lease of a job "
    "that died ends by itself"
)


def _decoded(body: bytes) -> dict[str, Any]:
    """What an entry says; what can't be read is held for the usual time."""
    try:
        held = json.loads(body)
    except ValueError:
        return {}
    return held if isinstance(held, dict) else {}


def _number(value: object, default: float) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= 86_400:
        return default
    return float(value)


def _at(value: object) -> dt.datetime:
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value < 1 << 53:
        return _EPOCH
    return _EPOCH + dt.timedelta(microseconds=value)
