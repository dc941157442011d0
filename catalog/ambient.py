"""The one place that reads the clock or makes an identity; everything else has them handed in.

A simulation or a test passes its own `Ambient`, and one seed replays one history exactly.
"""

from __future__ import annotations

import time
import uuid
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable


def _now_us() -> int:
    return time.time_ns() // 1_000


def _new_id() -> bytes:
    return uuid.uuid4().bytes  # noqa: TID251 - the one place


def _monotonic_s() -> float:
    # BOOTTIME goes on while a laptop or a virtual machine sleeps: a committer that slept has been
    # idle.
    return time.clock_gettime(getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC))


@dataclass(frozen=True, slots=True)
class Ambient:
    """Clock, identities and waiting.

    Attributes:
        now_us: Wall clock in µs since 1970 UTC; may jump.
        new_id: A fresh random identity of 16 bytes.
        monotonic_s: Seconds on a clock that never jumps; for measuring idle time only.
        sleep_s: Waits so many seconds.
        in_background: Whether work that nobody waits for may be done by a thread.
    """

    now_us: Callable[[], int] = _now_us
    new_id: Callable[[], bytes] = _new_id
    monotonic_s: Callable[[], float] = _monotonic_s
    sleep_s: Callable[[float], None] = time.sleep
    in_background: bool = False


SYSTEM = Ambient(in_background=True)
