"""The Java texts of a rule of Spark's optimizer: in the place of a table of lakelog's, of the SQL
catalog or of `format("lakelog")`, it puts the plan that `lakelog.spark.read` makes of its rows.

The rule comes after Spark's own optimizations, so those that bring filters and columns down to the
files are applied again, and that by which joins choose partitions while a query runs.
"""

from __future__ import annotations

RULES_CLASS = "io.lakelog.spark.LakeRules"

ROWS = """
package io.lakelog.spark;

import org.apache.spark.sql.classic.Dataset;

/** A scan that knows its rows as a frame. */
public interface LakeRows {
    Dataset rows();
}
"""

# The source in Python was made by another process, which has fixed the cut: it comes here as that
# process has pickled it. Its frame lives as long as Spark's own object for the source. Whatever
# goes wrong, other than that Python refuses, leaves the table to the source.
SOURCE_ROWS = """
package io.lakelog.spark;

import java.lang.reflect.Field;
import java.util.Collections;
import java.util.List;
import java.util.Map;
import java.util.WeakHashMap;
import java.util.function.BiFunction;
import org.apache.spark.sql.classic.Dataset;
import org.apache.spark.sql.execution.datasources.v2.DataSourceV2Relation;
import org.apache.spark.sql.execution.datasources.v2.python.PythonDataSourceV2;
import org.apache.spark.sql.execution.datasources.v2.python.PythonTable;
import scala.Option;

public final class SourceRows {
    private final BiFunction python;
    private final Map known = Collections.synchronizedMap(new WeakHashMap());

    public SourceRows(BiFunction python) { this.python = python; }

    /** Whether it is a table of the source in Python. */
    public static boolean isSource(DataSourceV2Relation relation) {
        return relation.table() instanceof PythonTable
            && relation.table().name().equalsIgnoreCase("lakelog");
    }

    /** Its rows; null: the source reads them. */
    public Dataset rows(DataSourceV2Relation relation) {
        if ("false".equalsIgnoreCase(relation.options().get("native"))) { return null; }
        List answer;
        PythonDataSourceV2 source;
        try {
            Field field = PythonTable.class.getDeclaredField("ds");
            field.setAccessible(true);
            source = (PythonDataSourceV2) field.get(relation.table());
            Dataset before = (Dataset) known.get(source);
            if (before != null) { return before; }
            byte[] pickled = source.getOrCreateDataSourceInPython(
                "lakelog", relation.options(), Option.apply(relation.table().schema())
            ).dataSource();
            answer = (List) python.apply(pickled, null);
        } catch (Exception error) {
            return null;
        }
        if (answer.get(0).equals("refused")) {
            throw new IllegalArgumentException((String) answer.get(1));
        }
        if (answer.get(0).equals("by the source")) { return null; }
        Dataset found = (Dataset) answer.get(1);
        if (answer.get(0).equals("at one cut")) { known.put(source, found); }
        return found;
    }
}
"""

SWAP = """
package io.lakelog.spark;

import org.apache.spark.sql.catalyst.expressions.Alias;
import org.apache.spark.sql.catalyst.expressions.Attribute;
import org.apache.spark.sql.catalyst.expressions.CreateNamedStruct;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.Literal$;
import org.apache.spark.sql.catalyst.expressions.NamedExpression;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.plans.logical.Project;
import org.apache.spark.sql.classic.Dataset;
import org.apache.spark.sql.execution.datasources.v2.DataSourceV2ScanRelation;
import scala.Function1;
import scala.Option;
import scala.collection.immutable.ArraySeq;
import scala.collection.immutable.Nil$;
import scala.collection.immutable.Seq;
import scala.runtime.AbstractPartialFunction;

public final class LakeSwap extends AbstractPartialFunction {
    /** The column of a table that is all others as one. */
    public static final String WHOLE_ROW = "__lakelog_row";
    private final SourceRows sources;

    public LakeSwap(SourceRows sources) { this.sources = sources; }

    public boolean isDefinedAt(Object plan) {
        if (!(plan instanceof DataSourceV2ScanRelation)) { return false; }
        DataSourceV2ScanRelation node = (DataSourceV2ScanRelation) plan;
        return node.scan() instanceof LakeRows || SourceRows.isSource(node.relation());
    }

    public Object applyOrElse(Object plan, Function1 otherwise) {
        if (!isDefinedAt(plan)) { return otherwise.apply(plan); }
        DataSourceV2ScanRelation node = (DataSourceV2ScanRelation) plan;
        boolean isTable = node.scan() instanceof LakeRows;
        if (!isTable) { refusePromises(node.relation().output()); }
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

    /** Spark would believe a user's NOT NULL, and count what is null for something else. */
    private static void refusePromises(Seq output) {
        for (int i = 0; i < output.length(); i++) {
            Attribute each = (Attribute) output.apply(i);
            if (!each.nullable()) {
                throw new IllegalArgumentException("UsageError: " + each.name()
                    + " is NOT NULL in the schema that was given, and a table of lakelog's promises"
                    + " that of no column. Leave it out of the schema");
            }
        }
    }

    private static Expression named(String name, Seq output) {
        if (name.equals(WHOLE_ROW)) { return whole(output); }
        for (int i = 0; i < output.length(); i++) {
            Attribute each = (Attribute) output.apply(i);
            if (each.name().equals(name)) { return each; }
        }
        return null;
    }

    private static Expression whole(Seq output) {
        Expression[] parts = new Expression[2 * output.length()];
        for (int i = 0; i < output.length(); i++) {
            parts[2 * i] = Literal$.MODULE$.apply(((Attribute) output.apply(i)).name());
            parts[2 * i + 1] = (Attribute) output.apply(i);
        }
        return new CreateNamedStruct(ArraySeq.unsafeWrapArray(parts));
    }
}
"""

RULE = """
package io.lakelog.spark;

import org.apache.spark.sql.catalyst.optimizer.CollapseProject$;
import org.apache.spark.sql.catalyst.optimizer.ColumnPruning$;
import org.apache.spark.sql.catalyst.optimizer.PushDownPredicates$;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.rules.Rule;
import org.apache.spark.sql.catalyst.trees.TreeNode;
import org.apache.spark.sql.catalyst.trees.TreePattern$;
import org.apache.spark.sql.execution.dynamicpruning.CleanupDynamicPruningFilters$;
import org.apache.spark.sql.execution.dynamicpruning.PartitionPruning$;

public final class LakeRule extends Rule {
    private final LakeSwap swap;

    public LakeRule(SourceRows sources) { swap = new LakeSwap(sources); }

    public TreeNode apply(TreeNode plan) {
        LogicalPlan before = (LogicalPlan) plan;
        LogicalPlan found = (LogicalPlan) before.transformUp(swap);
        if (found.fastEquals(before)) { return before; }
        found = pushed(found);
        if (found.containsPattern(TreePattern$.MODULE$.DYNAMIC_PRUNING_SUBQUERY())) {
            return found; // Spark has done it already, for other tables
        }
        LogicalPlan pruned = PartitionPruning$.MODULE$.apply(found);
        if (pruned.fastEquals(found)) { return found; }
        return CleanupDynamicPruningFilters$.MODULE$.apply(pushed(pruned));
    }

    private static LogicalPlan pushed(LogicalPlan plan) {
        LogicalPlan found = plan;
        // Each brings the others' work on; plans are as deep as their joins, not deeper.
        for (int i = 0; i < 10; i++) {
            LogicalPlan next = CollapseProject$.MODULE$.apply(
                ColumnPruning$.MODULE$.apply(PushDownPredicates$.MODULE$.apply(found)));
            if (next.fastEquals(found)) { break; }
            found = next;
        }
        return found;
    }
}
"""

RULES = """
package io.lakelog.spark;

import java.util.ArrayList;
import java.util.function.BiFunction;
import org.apache.spark.sql.catalyst.rules.Rule;
import org.apache.spark.sql.classic.SparkSession;
import scala.collection.immutable.ArraySeq;
import scala.jdk.javaapi.CollectionConverters;

public final class LakeRules {
    /** Whether a session has the rule. */
    public boolean areIn(SparkSession session) {
        ArrayList rules = of(session);
        for (int i = 0; i < rules.size(); i++) {
            if (rules.get(i) instanceof LakeRule) { return true; }
        }
        return false;
    }

    /** Give it to a session. */
    public void add(SparkSession session, BiFunction python) {
        ArrayList rules = of(session);
        rules.add(new LakeRule(new SourceRows(python)));
        session.experimental().extraOptimizations_$eq(
            ArraySeq.unsafeWrapArray(rules.toArray(new Rule[0])));
    }

    private static ArrayList of(SparkSession session) {
        return new ArrayList(
            CollectionConverters.asJava(session.experimental().extraOptimizations()));
    }
}
"""
