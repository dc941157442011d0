"""`format("lakelog")` by Spark's own Parquet reader, on classic sessions.

Spark plans a data source in Python without telling it the columns of a query, or asking for its
size. So a rule of the optimizer, in Java, asks here, by py4j's callbacks, for what
`lakelog.spark.read` would make of the same options, and puts that in its place, as it does with the
tables of the SQL catalog. Where it can't, the source reads the table as ever. A check in the
analyzer refuses schemas with NOT NULL.
"""

from __future__ import annotations

import pickle
import warnings
from pathlib import PurePath
from threading import Lock
from typing import TYPE_CHECKING, Any, Final

from ..errors import LakelogError, SparkOutOfMemory
from ..store.places import is_url
from . import file_index
from .access import Access, supports_url
from .jvm import JavaBiFunction, compiled, first_line, typed_errors
from .native import is_switched_off
from .read import natively
from .source_options import NOT_NULL, NOT_NULL_HINT, is_followed

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from .source import LakelogDataSource

RULES_CLASS = "io.lakelog.spark.LakeRules"
RULES = """
package io.lakelog.spark;

import java.lang.reflect.Field;
import java.util.ArrayList;
import java.util.Collections;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.WeakHashMap;
import java.util.function.BiFunction;
import org.apache.spark.sql.catalyst.analysis.Analyzer;
import org.apache.spark.sql.catalyst.expressions.*;
import org.apache.spark.sql.catalyst.optimizer.*;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.plans.logical.OverwriteByExpression;
import org.apache.spark.sql.catalyst.plans.logical.Project;
import org.apache.spark.sql.catalyst.plans.logical.ReplaceData;
import org.apache.spark.sql.catalyst.rules.Rule;
import org.apache.spark.sql.catalyst.streaming.StreamingRelationV2;
import org.apache.spark.sql.catalyst.trees.TreeNode;
import org.apache.spark.sql.catalyst.trees.TreePattern$;
import org.apache.spark.sql.classic.Dataset;
import org.apache.spark.sql.classic.SparkSession;
import org.apache.spark.sql.connector.catalog.Table;
import org.apache.spark.sql.execution.datasources.SchemaPruning$;
import org.apache.spark.sql.execution.datasources.v2.DataSourceV2Relation;
import org.apache.spark.sql.execution.datasources.v2.DataSourceV2ScanRelation;
import org.apache.spark.sql.execution.datasources.v2.python.PythonDataSourceV2;
import org.apache.spark.sql.execution.datasources.v2.python.PythonTable;
import org.apache.spark.sql.execution.dynamicpruning.CleanupDynamicPruningFilters$;
import org.apache.spark.sql.execution.dynamicpruning.PartitionPruning$;
import org.apache.spark.sql.internal.SQLConf$;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;
import org.slf4j.LoggerFactory;
import scala.Function1;
import scala.Option;
import scala.collection.Iterator;
import scala.collection.immutable.ArraySeq;
import scala.collection.immutable.Nil$;
import scala.collection.immutable.Seq;
import scala.jdk.javaapi.CollectionConverters;
import scala.runtime.AbstractPartialFunction;
import scala.runtime.BoxedUnit;

/** A scan that knows its rows as a frame. */
public interface LakeRows {
    Dataset rows();
}

// Some of what a session is made with has no public way in. A version of Spark that keeps it
// otherwise must be refused when lakelog is installed, before it gives other rows.
/** Private fields of Spark's classes. */
public final class PrivateField {
    /** Returns the field of a class, or of one that it extends, if it is of this very type. */
    public static Field of(Class owner, String name, Class type) throws NoSuchFieldException {
        for (Class each = owner; each != null; each = each.getSuperclass()) {
            Field[] fields = each.getDeclaredFields();
            for (int i = 0; i < fields.length; i++) {
                if (fields[i].getName().equals(name) && fields[i].getType() == type) {
                    fields[i].setAccessible(true);
                    return fields[i];
                }
            }
        }
        throw new NoSuchFieldException(
            owner.getName() + " has no field " + name + " of type " + type.getName());
    }
}

// The source in Python was made by another process, which has fixed the cut: it comes here as that
// process has pickled it. Its frame lives as long as Spark's own object for the source, and serves
// while the session's settings are those that it was planned under: under others it may read
// something else, or not be possible at all. Whatever goes wrong, other than that Python refuses,
// leaves the table to the source, and Spark's log says why, once for each cause.
public final class SourceRows {
    private static final int CAUSES = 100;
    private static final Set LOGGED = Collections.synchronizedSet(new HashSet());
    private final Field ds;
    private final BiFunction python;
    private final Map known = Collections.synchronizedMap(new WeakHashMap());

    public SourceRows(BiFunction python) throws NoSuchFieldException {
        this.python = python;
        this.ds = PrivateField.of(PythonTable.class, "ds", PythonDataSourceV2.class);
    }

    /** Whether it is a table of the source in Python. */
    public static boolean isSource(Table table) {
        return table instanceof PythonTable && table.name().equalsIgnoreCase("lakelog");
    }

    /** Its rows; null: the source reads them. */
    public Dataset rows(DataSourceV2Relation relation) {
        if ("false".equalsIgnoreCase(relation.options().get("native"))) { return null; }
        List answer;
        PythonDataSourceV2 source;
        Object settings = SQLConf$.MODULE$.get().getAllConfs();
        try {
            source = (PythonDataSourceV2) ds.get(relation.table());
            Object[] before = (Object[]) known.get(source);
            if (before != null && before[1].equals(settings)) { return (Dataset) before[0]; }
            byte[] pickled = source.getOrCreateDataSourceInPython(
                "lakelog", relation.options(), Option.apply(relation.table().schema())
            ).dataSource();
            answer = (List) python.apply(pickled, null);
        } catch (Exception error) {
            logOnce(error);
            return null;
        }
        if (answer.get(0).equals("refused")) {
            throw new IllegalArgumentException((String) answer.get(1));
        }
        if (answer.get(0).equals("by the source")) { return null; }
        Dataset found = (Dataset) answer.get(1);
        if (answer.get(0).equals("at one cut")) {
            known.put(source, new Object[] {found, settings});
        }
        return found;
    }

    private static void logOnce(Exception error) {
        if (LOGGED.size() < CAUSES && LOGGED.add(error.toString())) {
            LoggerFactory.getLogger(SourceRows.class).error(
                "format('lakelog') reads in Python, several times slower", error);
        }
    }
}

// Extensions of Spark's can bring such checks, but must be on its class path when it starts. So one
// is put where the session's analyzer keeps those that it was made with.
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
        if (plan instanceof OverwriteByExpression) { refuse((OverwriteByExpression) plan); }
        boolean constrains = ((LogicalPlan) plan).nodeName().equals("AddCheckConstraint");
        for (Iterator each = ((LogicalPlan) plan).collectLeaves().iterator(); each.hasNext();) {
            LogicalPlan leaf = (LogicalPlan) each.next();
            if (constrains && leaf instanceof DataSourceV2Relation
                && ((DataSourceV2Relation) leaf).table() instanceof LakeRows) {
                throw new UnsupportedOperationException("Tables of a lake have no constraints");
            }
            boolean isSource = leaf instanceof DataSourceV2Relation
                && SourceRows.isSource(((DataSourceV2Relation) leaf).table());
            isSource = isSource || leaf instanceof StreamingRelationV2
                && SourceRows.isSource(((StreamingRelationV2) leaf).table());
            if (isSource) { refuse(leaf.output()); }
        }
        return BoxedUnit.UNIT;
    }

    // Spark knows of no partitions of these tables, and would replace all rows.
    /** Refuse to replace rows where Spark is set to replace partitions. */
    private static void refuse(OverwriteByExpression write) {
        if (!(write.productElement(0) instanceof DataSourceV2Relation)) { return; }
        Table table = ((DataSourceV2Relation) write.productElement(0)).table();
        if (!(table instanceof LakeRows) && !SourceRows.isSource(table)) { return; }
        CaseInsensitiveStringMap options =
            new CaseInsensitiveStringMap(CollectionConverters.asJava(write.writeOptions()));
        String set = SQLConf$.MODULE$.get()
            .getConfString("spark.sql.sources.partitionOverwriteMode", "static");
        set = (String) options.getOrDefault("partitionOverwriteMode", set);
        if (set.equalsIgnoreCase("dynamic") && !options.containsKey("where")) {
            throw new IllegalArgumentException("UsageError: " + table.name()
                + ": partitionOverwriteMode is dynamic, and lakelog does not replace those "
                + "partitions alone that the new rows are in. Nothing was written. Say which rows "
                + "are replaced: lakelog.spark.write(..., mode='overwrite', where=...); or replace "
                + "all of this writer: option('partitionOverwriteMode', 'static')");
        }
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

public final class LakeSwap extends AbstractPartialFunction {
    private final SourceRows sources;

    public LakeSwap(SourceRows sources) { this.sources = sources; }

    public boolean isDefinedAt(Object plan) {
        if (!(plan instanceof DataSourceV2ScanRelation)) { return false; }
        DataSourceV2ScanRelation node = (DataSourceV2ScanRelation) plan;
        return node.scan() instanceof LakeRows || SourceRows.isSource(node.relation().table());
    }

    public Object applyOrElse(Object plan, Function1 otherwise) {
        if (!isDefinedAt(plan)) { return otherwise.apply(plan); }
        DataSourceV2ScanRelation node = (DataSourceV2ScanRelation) plan;
        boolean isTable = node.scan() instanceof LakeRows;
        if (!isTable) { LakePromises.refuse(node.relation().output()); }
        Dataset frame =
            isTable ? ((LakeRows) node.scan()).rows() : sources.rows(node.relation());
        if (frame == null) { return otherwise.apply(plan); }
        LogicalPlan rows = frame.queryExecution().optimizedPlan();
        Seq wanted = node.output();
        NamedExpression[] columns = new NamedExpression[wanted.length()];
        for (int i = 0; i < columns.length; i++) {
            Attribute want = (Attribute) wanted.apply(i);
            Expression found = named(want.name(), rows.output());
            if (isTable && found == null) {
                throw new IllegalStateException("The table's plan lacks column " + want.name());
            }
            if (!isTable && (found == null || !found.dataType().equals(want.dataType()))) {
                return otherwise.apply(plan); // a type that the user asks for
            }
            columns[i] = new Alias(
                found, want.name(), want.exprId(), want.qualifier(), Option.empty(), Nil$.MODULE$);
        }
        return new Project(ArraySeq.unsafeWrapArray(columns), rows);
    }

    private static Expression named(String name, Seq output) {
        for (int i = 0; i < output.length(); i++) {
            Attribute each = (Attribute) output.apply(i);
            if (each.name().equals(name)) { return each; }
        }
        return null;
    }
}

// The rule comes after Spark's own optimizations. Therefore those are applied again that push
// filters, columns and fields of columns down to the files, and the one by which joins choose
// partitions at run time. If other tables of the query have been through that one, it starts again
// for them: applied twice it would prune them twice, by rows that may have come from a table that
// the source in Python was to read.
/** Takes out that by which joins choose partitions; it drops no row that the join keeps. */
public final class LakeUnchosen extends AbstractPartialFunction {
    public boolean isDefinedAt(Object part) { return part instanceof DynamicPruningSubquery; }

    public Object applyOrElse(Object part, Function1 otherwise) {
        return isDefinedAt(part) ? Literal$.MODULE$.TrueLiteral() : otherwise.apply(part);
    }
}

public final class LakeRule extends Rule {
    private final LakeSwap swap;

    public LakeRule(SourceRows sources) { swap = new LakeSwap(sources); }

    public TreeNode apply(TreeNode plan) {
        LogicalPlan before = (LogicalPlan) plan;
        LogicalPlan found = (LogicalPlan) before.transformUp(swap);
        if (found.fastEquals(before)) { return before; }
        return chosen(pushed(SchemaPruning$.MODULE$.apply(pushed(found))));
    }

    /** With partitions that joins choose while the query runs. */
    private static LogicalPlan chosen(LogicalPlan plan) {
        LogicalPlan found = plan;
        if (plan.containsPattern(TreePattern$.MODULE$.DYNAMIC_PRUNING_SUBQUERY())) {
            if (plan instanceof ReplaceData) { return plan; } // other rules choose there, too
            found = simple((LogicalPlan) plan.transformAllExpressions(new LakeUnchosen()));
        }
        LogicalPlan pruned = PartitionPruning$.MODULE$.apply(found);
        if (pruned.fastEquals(found)) { return found; }
        return simple(CleanupDynamicPruningFilters$.MODULE$.apply(pushed(pruned)));
    }

    private static LogicalPlan simple(LogicalPlan plan) {
        return PruneFilters$.MODULE$.apply(BooleanSimplification$.MODULE$.apply(plan));
    }

    private static LogicalPlan pushed(LogicalPlan plan) {
        LogicalPlan found = plan;
        // Each brings the others' work on; plans are as deep as their joins, not deeper.
        for (int i = 0; i < 10; i++) {
            LogicalPlan next = PushProjectionThroughUnion$.MODULE$.apply(
                PushDownPredicates$.MODULE$.apply(found));
            next = CollapseProject$.MODULE$.apply(ColumnPruning$.MODULE$.apply(next));
            if (next.fastEquals(found)) { break; }
            found = next;
        }
        return found;
    }
}

public final class LakeRules {
    /** Whether a session has the rule. */
    public boolean areIn(SparkSession session) {
        ArrayList rules = of(session);
        for (int i = 0; i < rules.size(); i++) {
            if (rules.get(i) instanceof LakeRule) { return true; }
        }
        return false;
    }

    /** Give it to a session, and the check of what schemas promise. */
    public void add(SparkSession session, BiFunction python) throws Exception {
        LakeRule rule = new LakeRule(new SourceRows(python));
        LakePromises.addTo(session);
        ArrayList rules = of(session);
        rules.add(rule);
        session.experimental().extraOptimizations_$eq(
            ArraySeq.unsafeWrapArray(rules.toArray(new Rule[0])));
    }

    private static ArrayList of(SparkSession session) {
        return new ArrayList(
            CollectionConverters.asJava(session.experimental().extraOptimizations()));
    }
}
""".replace("@WHY@", NOT_NULL).replace("@HINT@", NOT_NULL_HINT)


_TEXTS: Final = (RULES,)
_adding: Final = Lock()


def add_rule(spark: SparkSession) -> Any:
    """Gives a classic session the rule, unless it has it; returns the JVM's class loader that has
    its classes. Raises `SparkUnsupported` if this Spark has other internals."""
    from pyspark.java_gateway import ensure_callback_server_started

    with _adding, typed_errors(f"lakelog's rule doesn't fit Spark {spark.version}"):
        gateway = spark.sparkContext._gateway
        made = compiled(gateway, RULES_CLASS, _TEXTS)
        if not made.entry.areIn(spark._jsparkSession):
            ensure_callback_server_started(gateway)
            made.entry.add(spark._jsparkSession, _Answers(spark))
        return made.loader


class _Answers(JavaBiFunction):
    """What the rule asks for."""

    def __init__(self, spark: SparkSession) -> None:
        self._spark = spark

    def apply(self, pickled: bytes, _: None) -> Any:
        """The rows of a source, as Spark keeps it: a Java list of what they are, and of a frame."""
        answer: tuple[Any, ...] = ("by the source",)
        try:
            source = pickle.loads(pickled)
            frame = _rows(self._spark, source)
            if frame is not None:
                answer = ("at one cut" if source.is_fixed else "as of now", frame._jdf)
        except SparkOutOfMemory as error:
            answer = ("refused", f"{type(error).__name__}: {error}")
        except LakelogError:
            pass  # whatever it is, the source says it as well
        except Exception as error:
            warnings.warn(
                f"format('lakelog') reads in Python, several times slower: {first_line(error)}",
                RuntimeWarning,
                stacklevel=2,
            )
        found = self._spark._jvm.java.util.ArrayList()
        for item in answer:
            found.add(item)
        return found


def _rows(spark: SparkSession, source: LakelogDataSource) -> DataFrame | None:
    """What `read` makes of a source's options; None where only the source can read that."""
    options = source.options
    if is_followed(options) or is_switched_off() or not file_index.is_there(spark):
        return None
    access = source.access()
    if not is_url(access.url) and not PurePath(access.url).is_absolute():
        return None  # it is below the working folder of the process that Spark has started
    if not supports_url(spark, access.url):
        return None
    asked = source.asked()
    if asked.keys is not None:
        return None  # some files alone
    return natively(spark, Access(access.open(), *access.options()), asked)
