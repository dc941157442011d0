"""The Java texts of the rule of Spark's optimizer that puts Spark's own reader in the place of
lakelog's tables (`swap_java`), and of how a session is given it.

The rule comes after Spark's own optimizations, so those that bring filters, columns and fields of
columns down to the files are applied again, and that by which joins choose partitions while a query
runs. If other tables of the query have gone through that one, it begins anew for them: twice over
it would prune them twice, and the rows by which it chose may have been those of a table that the
source in Python was to read.
"""

from __future__ import annotations

RULES_CLASS = "io.lakelog.spark.LakeRules"

UNCHOSEN = """
package io.lakelog.spark;

import org.apache.spark.sql.catalyst.expressions.DynamicPruningSubquery;
import org.apache.spark.sql.catalyst.expressions.Literal$;
import scala.Function1;
import scala.runtime.AbstractPartialFunction;

/** Takes out that by which joins choose partitions; it drops no row that the join keeps. */
public final class LakeUnchosen extends AbstractPartialFunction {
    public boolean isDefinedAt(Object part) { return part instanceof DynamicPruningSubquery; }

    public Object applyOrElse(Object part, Function1 otherwise) {
        return isDefinedAt(part) ? Literal$.MODULE$.TrueLiteral() : otherwise.apply(part);
    }
}
"""

RULE = """
package io.lakelog.spark;

import org.apache.spark.sql.catalyst.optimizer.BooleanSimplification$;
import org.apache.spark.sql.catalyst.optimizer.CollapseProject$;
import org.apache.spark.sql.catalyst.optimizer.ColumnPruning$;
import org.apache.spark.sql.catalyst.optimizer.PruneFilters$;
import org.apache.spark.sql.catalyst.optimizer.PushDownPredicates$;
import org.apache.spark.sql.catalyst.optimizer.PushProjectionThroughUnion$;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.plans.logical.ReplaceData;
import org.apache.spark.sql.catalyst.rules.Rule;
import org.apache.spark.sql.catalyst.trees.TreeNode;
import org.apache.spark.sql.catalyst.trees.TreePattern$;
import org.apache.spark.sql.execution.datasources.SchemaPruning$;
import org.apache.spark.sql.execution.dynamicpruning.CleanupDynamicPruningFilters$;
import org.apache.spark.sql.execution.dynamicpruning.PartitionPruning$;

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
"""
