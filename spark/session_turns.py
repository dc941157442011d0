"""Who may run at once in one session of Spark, where work sets it so or so meanwhile: settings are
the session's, whichever thread has set them."""

from __future__ import annotations

from contextlib import AbstractContextManager, contextmanager
from threading import Condition, Lock
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from pyspark.sql import SparkSession


class Turns:
    """Work of one kind runs at once; that of another waits until it is done, and lets none that
    comes later go first."""

    def __init__(self) -> None:
        self._door = Lock()  # whoever waits holds it
        self._changed = Condition()
        self._inside = 0
        self._kind: object = None
        self._made: AbstractContextManager[None] | None = None

    @contextmanager
    def of(self, kind: object, made: Callable[[], AbstractContextManager[None]]) -> Iterator[None]:
        """Be inside, with others of this kind alone.

        Args:
            made: What is to hold meanwhile: entered by the first of them, left by the last.
        """
        with self._door, self._changed:
            self._changed.wait_for(lambda: not self._inside or self._kind == kind)
            if not self._inside:
                self._kind, self._made = kind, made()
                self._made.__enter__()
            self._inside += 1
        try:
            yield
        finally:
            with self._changed:
                self._inside -= 1
                try:
                    if not self._inside and self._made is not None:
                        self._made.__exit__(None, None, None)
                finally:
                    self._changed.notify_all()


_guard: Final = Lock()
_by_session: Final[dict[str, Turns]] = {}


def turns(spark: SparkSession) -> Turns:
    """Those of a session, whichever object of Python stands for it."""
    java: Any = getattr(spark, "_jsparkSession", None)
    name = str(spark.session_id if java is None else java.sessionUUID())
    with _guard:
        return _by_session.setdefault(name, Turns())
