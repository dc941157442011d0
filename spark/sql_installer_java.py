"""The Java texts that put a lake into a session of Spark's: the rule by which the plan of
`lakelog.spark.read` stands in the place of each table, and the registration of the catalog.
"""

from __future__ import annotations

INSTALLER_CLASS = "io.lakelog.spark.SqlInstaller"

# In the plan of a query a table stands for the plan of its rows. The rule comes after Spark's own
# optimizations, so those that bring filters and columns down to the files are applied again, and
# that by which joins choose partitions while a query runs.
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
import org.apache.spark.sql.execution.datasources.v2.DataSourceV2ScanRelation;
import scala.Function1;
import scala.Option;
import scala.collection.immutable.ArraySeq;
import scala.collection.immutable.Nil$;
import scala.collection.immutable.Seq;
import scala.runtime.AbstractPartialFunction;

public final class LakeSwap extends AbstractPartialFunction {
    public boolean isDefinedAt(Object plan) {
        return plan instanceof DataSourceV2ScanRelation
            && ((DataSourceV2ScanRelation) plan).scan() instanceof LakeTable;
    }

    public Object applyOrElse(Object plan, Function1 otherwise) {
        if (!isDefinedAt(plan)) { return otherwise.apply(plan); }
        DataSourceV2ScanRelation node = (DataSourceV2ScanRelation) plan;
        LogicalPlan rows = ((LakeTable) node.scan()).rows().queryExecution().optimizedPlan();
        Seq wanted = node.output();
        NamedExpression[] columns = new NamedExpression[wanted.length()];
        for (int i = 0; i < columns.length; i++) {
            Attribute want = (Attribute) wanted.apply(i);
            columns[i] = new Alias(
                named(want.name(), rows.output()), want.name(), want.exprId(), want.qualifier(),
                Option.empty(), Nil$.MODULE$);
        }
        return new Project(ArraySeq.unsafeWrapArray(columns), rows);
    }

    private static Expression named(String name, Seq output) {
        if (name.equals(LakeRow.NAME)) { return whole(output); }
        for (int i = 0; i < output.length(); i++) {
            Attribute each = (Attribute) output.apply(i);
            if (each.name().equals(name)) { return each; }
        }
        throw new IllegalStateException("The plan of the table lacks column " + name);
    }

    /** All columns, as one. */
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
    public TreeNode apply(TreeNode plan) {
        LogicalPlan before = (LogicalPlan) plan;
        LogicalPlan found = (LogicalPlan) before.transformUp(new LakeSwap());
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

# Spark makes catalogs by the name of a class on its class path; this one is put where it keeps
# those that it made. Later Sparks have another manager of catalogs, so the field is looked for.
INSTALLER = """
package io.lakelog.spark;

import java.lang.reflect.Field;
import java.util.ArrayList;
import java.util.function.BiFunction;
import org.apache.spark.sql.catalyst.rules.Rule;
import org.apache.spark.sql.classic.SparkSession;
import org.apache.spark.sql.execution.SparkStrategy;
import scala.collection.immutable.ArraySeq;
import scala.collection.mutable.HashMap;
import scala.jdk.javaapi.CollectionConverters;

public final class SqlInstaller {
    /** Make a lake known to a session under a name, in the place of what had the name. */
    public void attach(SparkSession session, String name, BiFunction python, boolean writes)
        throws Exception {
        catalogs(session).put(name, new LakeCatalog(name, python, writes));
        ArrayList rules = new ArrayList(
            CollectionConverters.asJava(session.experimental().extraOptimizations()));
        for (int i = 0; i < rules.size(); i++) {
            if (rules.get(i) instanceof LakeRule) { return; }
        }
        rules.add(new LakeRule());
        session.experimental().extraOptimizations_$eq(
            ArraySeq.unsafeWrapArray(rules.toArray(new Rule[0])));
        ArrayList strategies = new ArrayList(
            CollectionConverters.asJava(session.experimental().extraStrategies()));
        strategies.add(new LakeStrategy(session));
        session.experimental().extraStrategies_$eq(
            ArraySeq.unsafeWrapArray(strategies.toArray(new SparkStrategy[0])));
    }

    /** Whether there was such a lake. */
    public boolean detach(SparkSession session, String name) throws Exception {
        HashMap known = catalogs(session);
        if (known.get(name).isEmpty() || !(known.get(name).get() instanceof LakeCatalog)) {
            return false;
        }
        known.remove(name);
        return true;
    }

    /** Whether a name is free for a lake: not that of a catalog of another kind. */
    public boolean isFree(SparkSession session, String name) throws Exception {
        scala.Option known = catalogs(session).get(name);
        boolean isSet = session.conf().getOption("spark.sql.catalog." + name).isDefined();
        return known.isEmpty() ? !isSet : known.get() instanceof LakeCatalog;
    }

    private static HashMap catalogs(SparkSession session) throws Exception {
        Object manager = session.sessionState().catalogManager();
        for (Class each = manager.getClass(); each != null; each = each.getSuperclass()) {
            Field[] fields = each.getDeclaredFields();
            for (int i = 0; i < fields.length; i++) {
                if (fields[i].getName().equals("catalogs")) {
                    fields[i].setAccessible(true);
                    return (HashMap) fields[i].get(manager);
                }
            }
        }
        throw new IllegalStateException("Spark keeps its catalogs elsewhere");
    }
}
"""
