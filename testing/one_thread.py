"""Work for threads done at once by the thread that asks: a simulated process is a greenlet, and the
scheduler must see each of its requests."""

from __future__ import annotations

import concurrent.futures
from concurrent.futures import Future
from contextlib import contextmanager
from importlib import import_module
from typing import TYPE_CHECKING, Any, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    Race: TypeAlias = Callable[[Sequence[Callable[[], Any]]], Sequence[Future[Any]]]


class _AtOnce:
    """What a pool of threads is asked for here."""

    def __init__(self, *_: Any, **__: Any) -> None:
        pass

    def __enter__(self) -> _AtOnce:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def submit(self, function: Callable[..., Any], *args: Any) -> Future[Any]:
        done: Future[Any] = Future()
        try:
            done.set_result(function(*args))
        except Exception as error:
            done.set_exception(error)
        return done

    def map(self, function: Callable[..., Any], items: Iterable[Any]) -> Iterator[Any]:
        return iter([function(item) for item in items])

    def shutdown(self, *_: Any, **__: Any) -> None:
        pass


@contextmanager
def in_one_thread(race: Race) -> Iterator[None]:
    """Until it ends, in this whole process, for whoever asks for threads within functions.

    Args:
        race: Makes the calls of threads that race: in which order they come is the point there.
    """
    pools, probe = (
        concurrent.futures.ThreadPoolExecutor,
        import_module("..store.probe", __package__),
    )
    real_race = probe.in_threads

    def race_for_probe(calls: Sequence[Callable[[], Any]]) -> list[Callable[[], Any]]:
        return [outcome.result for outcome in race(calls)]

    concurrent.futures.ThreadPoolExecutor = _AtOnce  # type: ignore[assignment,misc]
    vars(probe)["in_threads"] = race_for_probe
    try:
        yield
    finally:
        concurrent.futures.ThreadPoolExecutor = pools  # type: ignore[misc]
        vars(probe)["in_threads"] = real_race
