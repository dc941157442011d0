"""Spans of OpenTelemetry, where its API is installed; else nothing."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping


@contextmanager
def span(name: str, attributes: Mapping[str, Any]) -> Iterator[Any]:
    """A span around a piece of work; yields it, or None where there is no OpenTelemetry."""
    try:
        from opentelemetry import trace
    except ImportError:
        yield None
        return
    known = {f"lakelog.{key}": value for key, value in attributes.items() if value is not None}
    with trace.get_tracer("lakelog").start_as_current_span(name, attributes=known) as current:
        yield current


def finish(current: Any, attributes: Mapping[str, Any]) -> None:
    """Adds what is known at the end of a span."""
    if current is not None:
        for key, value in attributes.items():
            if value is not None:
                current.set_attribute(f"lakelog.{key}", value)
