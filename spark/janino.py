"""Java texts compiled inside Spark's own JVM, by the Janino that Spark bundles: no jar, and no
build step.

Janino knows no lambdas, no diamond operator and no generics inference to speak of: the texts keep
to plain Java 5.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

_JAVA: Final = 8


class Compiled(NamedTuple):
    """Classes of a JVM.

    Attributes:
        loader: Its class loader that knows them.
        code: By the name of each class its bytes.
    """

    loader: Any
    code: Mapping[str, bytes]


def compile_texts(
    jvm: Any, texts: Sequence[str], keep: Sequence[str] = (), beside: Any = None
) -> Compiled:
    """Compile texts of a class each, which may use those before them.

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
    return Compiled(loader, code)


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
