"""What a user's schema may promise and no table of lakelog's keeps: that something is never null.

Spark believes a NOT NULL, and answers `IS NULL` by it without reading a row. Neither the source nor
a rule of the optimizer hears of that, for the query has no table any more by then. So on classic
sessions a check in the analyzer refuses such a schema, when a frame is made with it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from ..errors import UsageError

if TYPE_CHECKING:
    from pyspark.sql.types import DataType, StructType

_WHY: Final = (
    "in the schema that was given, and a table of lakelog's promises that of no column, and of "
    "nothing in one"
)
_HINT: Final = "Leave NOT NULL out of the schema"

# Extensions of Spark's can bring such checks, but must be on its class path when it starts. So one
# is put where the session's analyzer keeps those that it was made with.
PROMISES = """
package io.lakelog.spark;

import java.lang.reflect.Field;
import java.util.ArrayList;
import org.apache.spark.sql.catalyst.analysis.Analyzer;
import org.apache.spark.sql.catalyst.expressions.Attribute;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.streaming.StreamingRelationV2;
import org.apache.spark.sql.classic.SparkSession;
import org.apache.spark.sql.execution.datasources.v2.DataSourceV2Relation;
import scala.Function1;
import scala.collection.Iterator;
import scala.collection.immutable.ArraySeq;
import scala.collection.immutable.Seq;
import scala.jdk.javaapi.CollectionConverters;
import scala.runtime.BoxedUnit;

public final class LakePromises extends scala.runtime.AbstractFunction1 {
    /** Have a session's analyzer refuse them. */
    public static void addTo(SparkSession session) throws Exception {
        Analyzer analyzer = session.sessionState().analyzer();
        Field field = PrivateField.of(analyzer.getClass(), "extendedCheckRules", Seq.class);
        ArrayList checks = new ArrayList(CollectionConverters.asJava((Seq) field.get(analyzer)));
        LakePromises check = new LakePromises();
        checks.add(check);
        field.set(analyzer, ArraySeq.unsafeWrapArray(checks.toArray(new Function1[0])));
        if (!analyzer.extendedCheckRules().contains(check)) {
            throw new NoSuchFieldException("The analyzer doesn't look at extendedCheckRules");
        }
    }

    public Object apply(Object plan) {
        for (Iterator each = ((LogicalPlan) plan).collectLeaves().iterator(); each.hasNext();) {
            LogicalPlan leaf = (LogicalPlan) each.next();
            boolean isSource = leaf instanceof DataSourceV2Relation
                && SourceRows.isSource(((DataSourceV2Relation) leaf).table());
            isSource = isSource || leaf instanceof StreamingRelationV2
                && SourceRows.isSource(((StreamingRelationV2) leaf).table());
            if (isSource) { refuse(leaf.output()); }
        }
        return BoxedUnit.UNIT;
    }

    /** Refuse what the columns of such a table promise. */
    public static void refuse(Seq output) {
        for (int i = 0; i < output.length(); i++) {
            Attribute each = (Attribute) output.apply(i);
            boolean inside = !each.dataType().asNullable().equals(each.dataType());
            if (!each.nullable() || inside) {
                throw new IllegalArgumentException("UsageError: " + each.name()
                    + (each.nullable() ? " has" : " is") + " NOT NULL @WHY@. @HINT@");
            }
        }
    }
}
""".replace("@WHY@", _WHY).replace("@HINT@", _HINT)


def refuse_promises(schema: StructType) -> None:
    """Refuse a schema of the user's that promises that something has no null.

    Raises:
        UsageError: It does.
    """
    for field in schema.fields:
        if not field.nullable or _promises(field.dataType):
            word = "has" if field.nullable else "is"
            raise UsageError(f"{field.name} {word} NOT NULL {_WHY}", key=field.name, hint=_HINT)


def _promises(kind: DataType) -> bool:
    """Whether something in a type is never null."""
    from pyspark.sql import types

    inside: list[tuple[bool, Any]] = []
    if isinstance(kind, types.StructType):
        inside = [(field.nullable, field.dataType) for field in kind.fields]
    elif isinstance(kind, types.ArrayType):
        inside = [(kind.containsNull, kind.elementType)]
    elif isinstance(kind, types.MapType):
        inside = [(True, kind.keyType), (kind.valueContainsNull, kind.valueType)]
    return any(not nullable or _promises(part) for nullable, part in inside)
