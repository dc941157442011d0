"""What an error of the JVM means: that Spark has another inside than our Java texts were written
for, that its driver lacks memory, or anything else, which is left as it is."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final

from ..errors import SparkOutOfMemory, SparkUnsupported
from .janino import first_line

if TYPE_CHECKING:
    from collections.abc import Iterator

_NO_MEMORY: Final = "java.lang.OutOfMemoryError"
_OTHER_INSIDE: Final = {
    "java.lang.LinkageError",
    "java.lang.ReflectiveOperationException",
    "java.lang.ClassCastException",
}
_COMPILER: Final = "org.codehaus."
_DEEPEST: Final = 20  # causes of causes, for a chain may be a circle


@contextmanager
def told_apart(what: str) -> Iterator[None]:
    """Run what is done in the JVM.

    Args:
        what: That failed, for messages.
    Raises:
        SparkOutOfMemory: The driver lacks memory. No other way of reading would need less.
        SparkUnsupported: Spark has no such classes or methods: another way may serve.
    """
    try:
        yield
    except Exception as error:
        kinds = _kinds(error)
        if _NO_MEMORY in kinds:
            raise SparkOutOfMemory(
                f"Spark's driver has too little memory: {what}: {first_line(error)}",
                hint="Give it more by spark.driver.memory, which counts when its JVM starts; or "
                "ask for less by where=, partition= or writer=",
            ) from error
        compiler = any(kind.startswith(_COMPILER) for kind in kinds)
        if _is_unknown(error) or compiler or not kinds.isdisjoint(_OTHER_INSIDE):
            raise SparkUnsupported(f"{what}: {first_line(error)}") from error
        raise


def _is_unknown(error: Exception) -> bool:
    """Whether Python doesn't find something in the JVM."""
    from py4j.protocol import Py4JError, Py4JJavaError, Py4JNetworkError

    if isinstance(error, Py4JError):
        return not isinstance(error, Py4JJavaError | Py4JNetworkError)
    return isinstance(error, AttributeError | TypeError)


def _kinds(error: Exception) -> set[str]:
    """The classes of a Java exception, and of what caused it."""
    found: set[str] = set()
    cause: Any = getattr(error, "java_exception", None)
    for _ in range(_DEEPEST):
        if cause is None:
            break
        kind = cause.getClass()
        while kind is not None:
            found.add(str(kind.getName()))
            kind = kind.getSuperclass()
        cause = cause.getCause()
    return found
