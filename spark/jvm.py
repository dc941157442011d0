"""Java texts compiled inside Spark's own JVM, by the Janino that Spark bundles, without a jar or a
build step; and what errors of the JVM mean.

Janino knows no lambdas, no diamond operator and hardly any inference of generics: the texts keep to
plain Java 5.
"""

from __future__ import annotations

from contextlib import contextmanager
from threading import Lock
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from ..errors import SparkOutOfMemory, SparkUnsupported

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

_JAVA: Final = 8


class Compiled(NamedTuple):
    """Classes that were compiled for a JVM.

    Attributes:
        gateway: To that JVM; kept, so that its identity can't be taken over by another one's.
        loader: The class loader that knows them.
        entry: The object by which Python calls them.
        code: By name the bytes of some of them.
    """

    gateway: Any
    loader: Any
    entry: Any
    code: Mapping[str, bytes]


_compiled: Final[dict[str, Compiled]] = {}  # by the class of the entry
_guard: Final = Lock()  # two threads may make the first frames of a session


def compiled(
    gateway: Any, entry: str, texts: Sequence[str], *, keep: Sequence[str] = (), beside: Any = None
) -> Compiled:
    """Compile texts once for a JVM: py4j finds methods by the name of a class. A process has one
    JVM at a time.

    Args:
        entry: The class of which Python gets an object.
        texts, keep, beside: As for `compile_texts`.
    """
    with _guard:
        known = _compiled.get(entry)
        if known is None or known.gateway is not gateway:
            loader, code = compile_texts(gateway.jvm, texts, keep, beside)
            known = Compiled(gateway, loader, new_instance(gateway, loader, entry), code)
            _compiled[entry] = known
        return known


def compile_texts(
    jvm: Any, texts: Sequence[str], keep: Sequence[str] = (), beside: Any = None
) -> tuple[Any, dict[str, bytes]]:
    """Compile texts, which may use those before them; the class loader that knows their classes,
    and by name the bytes of some.

    Args:
        keep: Names of classes whose bytes are wanted.
        beside: The class loader of others, compiled before, that they use; None: Spark's.
    Raises:
        py4j.protocol.Py4JError: One doesn't compile on this Spark.
    """
    # The context class loader, because under spark-submit Spark itself isn't on the system class
    # path.
    loader = beside or jvm.java.lang.Thread.currentThread().getContextClassLoader()
    code: dict[str, bytes] = {}
    for text in texts:
        compiler = jvm.org.codehaus.janino.SimpleCompiler()
        compiler.setSourceVersion(_JAVA)
        compiler.setTargetVersion(_JAVA)  # else static methods of interfaces can't be called
        compiler.setParentClassLoader(loader)
        compiler.cook(text)
        loader = compiler.getClassLoader()
        bytecodes = compiler.getBytecodes()
        code |= {name: bytes(bytecodes.get(name)) for name in keep if bytecodes.containsKey(name)}
    return loader, code


def new_instance(gateway: Any, loader: Any, name: str) -> Any:
    """An object of a class that has a constructor without arguments. py4j can't name such classes,
    but it can call what they have."""
    constructor = loader.loadClass(name).getDeclaredConstructor(
        gateway.new_array(gateway.jvm.java.lang.Class, 0)
    )
    return constructor.newInstance(gateway.new_array(gateway.jvm.java.lang.Object, 0))


def first_line(error: Exception) -> str:
    """What an error of the JVM says, without the trace."""
    cause = getattr(error, "java_exception", None)
    text = str(cause.toString()) if cause is not None else str(error)
    return text.strip().splitlines()[0] if text.strip() else type(error).__name__


class JavaFunction:
    """An object that the JVM calls, by py4j, as a function of one argument."""

    class Java:
        implements = ("java.util.function.Function",)


class JavaBiFunction:
    """An object that the JVM calls, by py4j, as a function of two arguments."""

    class Java:
        implements = ("java.util.function.BiFunction",)


# --- Errors ---------------------------------------------------------------------------------------

_NO_MEMORY: Final = "java.lang.OutOfMemoryError"
_OTHER_INSIDE: Final = {
    "java.lang.LinkageError",
    "java.lang.ReflectiveOperationException",
    "java.lang.ClassCastException",
}
_COMPILER: Final = "org.codehaus."
_DEEPEST: Final = 20  # causes of causes, for a chain may be a circle


@contextmanager
def typed_errors(what: str) -> Iterator[None]:
    """Give errors of the JVM our types.

    Args:
        what: What failed, for messages.
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
