"""The Java texts by which rows of a lake's table are changed in Spark's SQL.

Spark rewrites DELETE, UPDATE and MERGE itself, into a query that gives the rows that go and those
that come: joins, conditions, assignments and the check that no row is changed twice are its own.
What would write the outcome of that query hands it to Python instead, with the condition as far as
it can be told.
"""

from __future__ import annotations

# What tells rows of a table apart: their files, and their numbers there.
PLACE = """
package io.lakelog.spark;

import org.apache.spark.sql.connector.catalog.MetadataColumn;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.DataTypes;

public final class LakePlace implements MetadataColumn {
    public static final String FILE = "__lakelog_file";
    public static final String NUMBER = "__lakelog_place";
    private final String name;

    public LakePlace(String name) { this.name = name; }

    public static MetadataColumn[] both() {
        return new MetadataColumn[] {new LakePlace(FILE), new LakePlace(NUMBER)};
    }

    public String name() { return name; }

    public DataType dataType() {
        return name.equals(FILE) ? DataTypes.StringType : DataTypes.LongType;
    }

    public boolean isNullable() { return false; }

    public String comment() { return "Where the row is, for DELETE, UPDATE and MERGE"; }
}
"""

DELTA = """
package io.lakelog.spark;

import org.apache.spark.sql.connector.write.DeltaWrite;
import org.apache.spark.sql.connector.write.DeltaWriteBuilder;

/** Stands where Spark wants a writer; nobody asks it to write. */
public final class LakeDelta implements DeltaWriteBuilder, DeltaWrite {
    public DeltaWrite build() { return this; }
}
"""

OPERATION = """
package io.lakelog.spark;

import org.apache.spark.sql.connector.expressions.Expressions;
import org.apache.spark.sql.connector.expressions.NamedReference;
import org.apache.spark.sql.connector.read.ScanBuilder;
import org.apache.spark.sql.connector.write.DeltaWriteBuilder;
import org.apache.spark.sql.connector.write.LogicalWriteInfo;
import org.apache.spark.sql.connector.write.RowLevelOperation;
import org.apache.spark.sql.connector.write.RowLevelOperationBuilder;
import org.apache.spark.sql.connector.write.SupportsDelta;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;

public final class LakeOperation implements SupportsDelta, RowLevelOperationBuilder {
    private final RowLevelOperation.Command command;
    private final ScanBuilder rows;
    private final AskPython python;
    private final String[] words;

    public LakeOperation(
        RowLevelOperation.Command command, ScanBuilder rows, AskPython python, String[] words) {
        this.command = command;
        this.rows = rows;
        this.python = python;
        this.words = words;
    }

    public RowLevelOperation build() { return this; }

    public AskPython python() { return python; }

    /** What Python is told of it: what is done to which table, at which cut. */
    public String[] words() { return words; }

    public RowLevelOperation.Command command() { return command; }

    public ScanBuilder newScanBuilder(CaseInsensitiveStringMap options) { return rows; }

    public DeltaWriteBuilder newWriteBuilder(LogicalWriteInfo info) { return new LakeDelta(); }

    public NamedReference[] rowId() {
        return new NamedReference[] {
            Expressions.column(LakePlace.FILE), Expressions.column(LakePlace.NUMBER)};
    }
}
"""

REFRESH = """
package io.lakelog.spark;

import scala.runtime.AbstractFunction0;
import scala.runtime.BoxedUnit;

/** A table that is cached stays at its cut. */
public final class LakeRefresh extends AbstractFunction0 {
    public Object apply() { return BoxedUnit.UNIT; }
}
"""

CHANGE = """
package io.lakelog.spark;

import java.util.Collections;
import java.util.Set;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.classic.Dataset;
import org.apache.spark.sql.classic.SparkSession;
import org.apache.spark.sql.connector.catalog.SupportsDeleteV2;
import org.apache.spark.sql.connector.expressions.filter.Predicate;
import org.apache.spark.sql.types.StructType;

/** One statement, as a table of which Spark deletes: its command for that is what runs here. */
public final class LakeChange implements SupportsDeleteV2 {
    private final SparkSession session;
    private final AskPython python;
    private final String[] words;
    private final LogicalPlan query;

    public LakeChange(
        SparkSession session, AskPython python, String[] words, LogicalPlan query) {
        this.session = session;
        this.python = python;
        this.words = words;
        this.query = query;
    }

    public void deleteWhere(Predicate[] nothing) {
        python.ask(words, Dataset.ofRows(session, query));
    }

    public String name() { return words[2] + "." + words[3]; }

    public StructType schema() { return new StructType(); }

    public Set capabilities() { return Collections.emptySet(); }
}
"""

# Planned in the place of Spark's own command. The condition is told as filters are; of a MERGE it
# is that of the join, and says nothing of which rows go.
STRATEGY = """
package io.lakelog.spark;

import java.lang.reflect.Constructor;
import java.util.Arrays;
import org.apache.spark.sql.catalyst.ProjectingInternalRow;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.plans.logical.WriteDelta;
import org.apache.spark.sql.catalyst.util.WriteDeltaProjections;
import org.apache.spark.sql.classic.SparkSession;
import org.apache.spark.sql.connector.catalog.Table;
import org.apache.spark.sql.connector.expressions.filter.Predicate;
import org.apache.spark.sql.connector.write.RowLevelOperation;
import org.apache.spark.sql.connector.write.RowLevelOperationTable;
import org.apache.spark.sql.execution.SparkPlan;
import org.apache.spark.sql.execution.SparkStrategy;
import org.apache.spark.sql.execution.datasources.v2.DataSourceV2Relation;
import org.apache.spark.sql.execution.datasources.v2.DeleteFromTableExec;
import scala.collection.immutable.ArraySeq;
import scala.collection.immutable.Nil$;
import scala.collection.immutable.Seq;

public final class LakeStrategy extends SparkStrategy {
    private final SparkSession session;

    public LakeStrategy(SparkSession session) { this.session = session; }

    public Seq apply(LogicalPlan plan) {
        if (!(plan instanceof WriteDelta)) { return (Seq) Nil$.MODULE$; }
        WriteDelta delta = (WriteDelta) plan;
        Object relation = delta.productElement(0);
        if (!(relation instanceof DataSourceV2Relation)) { return (Seq) Nil$.MODULE$; }
        Table table = ((DataSourceV2Relation) relation).table();
        if (!(table instanceof RowLevelOperationTable)) { return (Seq) Nil$.MODULE$; }
        RowLevelOperation found = ((RowLevelOperationTable) table).operation();
        if (!(found instanceof LakeOperation)) { return (Seq) Nil$.MODULE$; }
        LakeOperation operation = (LakeOperation) found;
        String[] known = operation.words();
        String[] words = (String[]) Arrays.copyOf(known, known.length + 3);
        Expression[] condition = {delta.condition()};
        words[known.length] = FilterText.of(ArraySeq.unsafeWrapArray(condition));
        WriteDeltaProjections projections = delta.projections();
        words[known.length + 1] = projections.rowProjection().isEmpty() ? ""
            : places((ProjectingInternalRow) projections.rowProjection().get());
        words[known.length + 2] = places(projections.rowIdProjection());
        LakeChange change = new LakeChange(
            session, operation.python(), words, (LogicalPlan) delta.productElement(2));
        return ArraySeq.unsafeWrapArray(new SparkPlan[] {command(change)});
    }

    private static String places(ProjectingInternalRow of) {
        return of.colOrdinals().mkString(",");
    }

    /** Spark's command that deletes from a table. Some versions want more than others. */
    private static SparkPlan command(LakeChange change) {
        try {
            Constructor made = DeleteFromTableExec.class.getConstructors()[0];
            Object[] given = new Object[made.getParameterTypes().length];
            given[0] = change;
            given[1] = new Predicate[0];
            given[2] = new LakeRefresh();
            for (int i = 3; i < given.length; i++) {
                String name = "$lessinit$greater$default$" + (i + 1);
                given[i] = DeleteFromTableExec.class.getMethod(name, new Class[0])
                    .invoke(null, new Object[0]);
            }
            return (SparkPlan) made.newInstance(given);
        } catch (Exception error) {
            throw new IllegalStateException("Spark deletes from tables otherwise", error);
        }
    }
}
"""
