"""The Java texts of a lake in Spark's SQL: a catalog plugin that asks Python what there is, and an
optimizer rule that puts the plan of `lakelog.spark.read` in the place of each table.
"""

from __future__ import annotations

INSTALLER_CLASS = "io.lakelog.spark.SqlInstaller"

# The rows that a statement inserts go to Python, as a frame, and are committed there.
WRITE = """
package io.lakelog.spark;

import org.apache.spark.sql.Dataset;
import org.apache.spark.sql.connector.write.SupportsTruncate;
import org.apache.spark.sql.connector.write.V1Write;
import org.apache.spark.sql.connector.write.WriteBuilder;
import org.apache.spark.sql.sources.InsertableRelation;

public final class LakeWrite implements SupportsTruncate, V1Write, InsertableRelation {
    private final AskPython python;
    private final String[] words;
    private boolean replaces;

    public LakeWrite(AskPython python, String[] words) {
        this.python = python;
        this.words = words;
    }

    /** The same, for one statement. */
    public LakeWrite fresh() { return new LakeWrite(python, words); }

    public WriteBuilder truncate() {
        replaces = true;
        return this;
    }

    public V1Write build() { return this; }

    public InsertableRelation toInsertableRelation() { return this; }

    public void insert(Dataset rows, boolean overwrite) {
        words[1] = replaces || overwrite ? "overwrite" : "append";
        python.ask(words, rows);
    }
}
"""

# Python is asked with a list of words in JSON, and perhaps a frame, and answers with a list: how it
# went, and what was found.
ASK = """
package io.lakelog.spark;

import com.fasterxml.jackson.core.JsonProcessingException;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.util.List;
import java.util.function.BiFunction;

public final class AskPython {
    private static final ObjectMapper JSON = new ObjectMapper();
    private final BiFunction python;

    public AskPython(BiFunction python) { this.python = python; }

    /** The answer, unless Python refuses. */
    public List ask(String[] words, Object frame) {
        try {
            List answer = (List) python.apply(JSON.writeValueAsString(words), frame);
            if (answer.get(0).equals("refused")) {
                throw new IllegalArgumentException((String) answer.get(1));
            }
            return answer;
        } catch (JsonProcessingException error) {
            throw new IllegalStateException(error);
        }
    }

    /** The names in an answer. */
    public static String[] names(List answer) {
        try {
            return (String[]) JSON.readValue((String) answer.get(1), String[].class);
        } catch (JsonProcessingException error) {
            throw new IllegalStateException(error);
        }
    }
}
"""

# A table of a cut. Two are equal if they read the same, so that what was cached serves all queries
# of that cut and none of another one.
TABLE = """
package io.lakelog.spark;

import java.util.Arrays;
import java.util.HashSet;
import java.util.OptionalLong;
import java.util.Set;
import org.apache.spark.sql.classic.Dataset;
import org.apache.spark.sql.connector.catalog.StagedTable;
import org.apache.spark.sql.connector.catalog.SupportsRead;
import org.apache.spark.sql.connector.catalog.SupportsWrite;
import org.apache.spark.sql.connector.catalog.TableCapability;
import org.apache.spark.sql.connector.metric.CustomTaskMetric;
import org.apache.spark.sql.connector.read.Scan;
import org.apache.spark.sql.connector.read.ScanBuilder;
import org.apache.spark.sql.connector.read.Statistics;
import org.apache.spark.sql.connector.read.SupportsReportStatistics;
import org.apache.spark.sql.connector.write.LogicalWriteInfo;
import org.apache.spark.sql.connector.write.WriteBuilder;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;

public final class LakeTable
    implements StagedTable, SupportsRead, SupportsWrite, ScanBuilder, SupportsReportStatistics,
        Statistics {
    private final String name;
    private final String token;
    private final StructType schema;
    private final Dataset rows;
    private final LakeWrite write;

    /** One that is there, or that the first insertion makes: then without rows. */
    public LakeTable(
        String name, String token, StructType schema, Dataset rows, LakeWrite write) {
        this.name = name;
        this.token = token;
        this.schema = schema;
        this.rows = rows;
        this.write = write;
    }

    public void commitStagedChanges() { }

    public void abortStagedChanges() { }

    /** What is staged and what is scanned both have a default of it. */
    public CustomTaskMetric[] reportDriverMetrics() { return new CustomTaskMetric[0]; }

    public WriteBuilder newWriteBuilder(LogicalWriteInfo info) { return write.fresh(); }

    /** The rows, as `read` plans them. */
    public Dataset rows() { return rows; }

    public String name() { return name; }

    public StructType schema() { return schema; }

    public Set capabilities() {
        Object[] all = {
            TableCapability.BATCH_READ, TableCapability.V1_BATCH_WRITE, TableCapability.TRUNCATE};
        return new HashSet(Arrays.asList(write == null ? new Object[] {all[0]} : all));
    }

    public ScanBuilder newScanBuilder(CaseInsensitiveStringMap options) { return this; }

    public Scan build() { return this; }

    public StructType readSchema() { return schema; }

    public String description() { return name + " at " + token; }

    public Statistics estimateStatistics() { return this; }

    public OptionalLong sizeInBytes() {
        return OptionalLong.of(
            rows.queryExecution().optimizedPlan().stats().sizeInBytes().longValue());
    }

    public OptionalLong numRows() { return OptionalLong.empty(); }

    public int hashCode() { return 31 * name.hashCode() + token.hashCode(); }

    public boolean equals(Object other) {
        return other instanceof LakeTable && name.equals(((LakeTable) other).name)
            && token.equals(((LakeTable) other).token);
    }
}
"""

# All tables of a query are of one cut of each database: Spark makes a tracker for each query and
# holds it while it looks tables up.
CATALOG = """
package io.lakelog.spark;

import java.lang.ref.WeakReference;
import java.util.Arrays;
import java.util.Collections;
import java.util.List;
import java.util.Map;
import java.util.UUID;
import java.util.function.BiFunction;
import org.apache.spark.sql.catalyst.QueryPlanningTracker;
import org.apache.spark.sql.catalyst.analysis.NoSuchNamespaceException;
import org.apache.spark.sql.catalyst.analysis.NoSuchTableException;
import org.apache.spark.sql.classic.Dataset;
import org.apache.spark.sql.connector.catalog.Identifier;
import org.apache.spark.sql.connector.catalog.NamespaceChange;
import org.apache.spark.sql.connector.catalog.StagedTable;
import org.apache.spark.sql.connector.catalog.StagingTableCatalog;
import org.apache.spark.sql.connector.catalog.SupportsNamespaces;
import org.apache.spark.sql.connector.catalog.Table;
import org.apache.spark.sql.connector.catalog.TableChange;
import org.apache.spark.sql.connector.expressions.Transform;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;

public final class LakeCatalog implements StagingTableCatalog, SupportsNamespaces {
    private final String name;
    private final AskPython python;
    private final boolean writes;
    private final ThreadLocal query = new ThreadLocal();

    public LakeCatalog(String name, BiFunction python, boolean writes) {
        this.name = name;
        this.python = new AskPython(python);
        this.writes = writes;
    }

    public void initialize(String given, CaseInsensitiveStringMap options) { }

    public String name() { return name; }

    // --- Asking Python ---------------------------------------------------------------------------

    private String[] names(String what, String[] namespace) throws NoSuchNamespaceException {
        String[] words = new String[1 + namespace.length];
        words[0] = what;
        for (int i = 0; i < namespace.length; i++) { words[i + 1] = namespace[i]; }
        List answer = python.ask(words, null);
        if (answer.get(0).equals("no namespace")) { throw new NoSuchNamespaceException(namespace); }
        return AskPython.names(answer);
    }

    private Table load(Identifier table, String kind, String when) throws NoSuchTableException {
        if (table.namespace().length != 1) { throw new NoSuchTableException(table); }
        String database = table.namespace()[0];
        List answer = python.ask(
            new String[] {"table", database, table.name(), kind, when, query()}, null);
        if (answer.get(0).equals("no table") || answer.get(0).equals("no namespace")) {
            throw new NoSuchTableException(table);
        }
        Dataset rows = (Dataset) answer.get(2);
        LakeWrite write = kind.equals("now") ? write(table, "") : null;
        return new LakeTable(full(table), (String) answer.get(1), rows.schema(), rows, write);
    }

    private String full(Identifier table) {
        return name + "." + table.namespace()[0] + "." + table.name();
    }

    /** What insertions into a table do; null: they are refused. */
    private LakeWrite write(Identifier table, String by) {
        return !writes ? null : new LakeWrite(
            python, new String[] {"insert", "", table.namespace()[0], table.name(), by});
    }

    /** A name of the query that is being looked at; empty if none is. */
    private String query() {
        scala.Option tracker = QueryPlanningTracker.get();
        if (tracker.isEmpty()) { return ""; }
        Object[] last = (Object[]) query.get();
        if (last == null || ((WeakReference) last[0]).get() != tracker.get()) {
            last = new Object[] {
                new WeakReference(tracker.get()), UUID.randomUUID().toString()};
            query.set(last);
        }
        return (String) last[1];
    }

    // --- What there is ---------------------------------------------------------------------------

    public Identifier[] listTables(String[] namespace) throws NoSuchNamespaceException {
        String[] found = names("tables", namespace);
        Identifier[] tables = new Identifier[found.length];
        for (int i = 0; i < found.length; i++) { tables[i] = Identifier.of(namespace, found[i]); }
        return tables;
    }

    public Table loadTable(Identifier table) throws NoSuchTableException {
        return load(table, "now", "");
    }

    public Table loadTable(Identifier table, String version) throws NoSuchTableException {
        return load(table, "version", version);
    }

    public Table loadTable(Identifier table, long micros) throws NoSuchTableException {
        return load(table, "micros", Long.toString(micros));
    }

    public String[][] listNamespaces() throws NoSuchNamespaceException {
        String[] found = names("databases", new String[0]);
        String[][] namespaces = new String[found.length][];
        for (int i = 0; i < found.length; i++) { namespaces[i] = new String[] {found[i]}; }
        return namespaces;
    }

    public String[][] listNamespaces(String[] of) throws NoSuchNamespaceException {
        if (of.length == 0) { return listNamespaces(); }
        if (!namespaceExists(of)) { throw new NoSuchNamespaceException(of); }
        return new String[0][];
    }

    public boolean namespaceExists(String[] namespace) {
        try {
            return namespace.length == 1
                && Arrays.asList(names("databases", new String[0])).contains(namespace[0]);
        } catch (NoSuchNamespaceException error) {
            return false;
        }
    }

    public Map loadNamespaceMetadata(String[] namespace) throws NoSuchNamespaceException {
        if (!namespaceExists(namespace)) { throw new NoSuchNamespaceException(namespace); }
        return Collections.emptyMap();
    }

    // --- Tables that a query fills ---------------------------------------------------------------

    public StagedTable stageCreate(
        Identifier table, StructType schema, Transform[] partitions, Map properties) {
        if (!writes || table.namespace().length != 1) { throw readsOnly("attach it with writer="); }
        StringBuilder by = new StringBuilder();
        for (int i = 0; i < partitions.length; i++) {
            if (!partitions[i].name().equals("identity")) {
                throw readsOnly("tables are partitioned by columns, not by " + partitions[i]);
            }
            if (i > 0) { by.append('\\n'); }
            by.append(partitions[i].references()[0].fieldNames()[0]);
        }
        return new LakeTable(full(table), "", schema, null, write(table, by.toString()));
    }

    public StagedTable stageReplace(
        Identifier table, StructType schema, Transform[] partitions, Map properties) {
        throw readsOnly("INSERT OVERWRITE replaces rows; `lakelog drop` drops tables");
    }

    public StagedTable stageCreateOrReplace(
        Identifier table, StructType schema, Transform[] partitions, Map properties) {
        return (StagedTable) stageReplace(table, schema, partitions, properties);
    }

    // --- What SQL doesn't change here ------------------------------------------------------------

    private UnsupportedOperationException readsOnly(String what) {
        return new UnsupportedOperationException("In the catalog " + name + " of a lake: " + what);
    }

    public Table createTable(Identifier table, StructType schema, Transform[] by, Map properties) {
        throw readsOnly("a table begins with the first commit that names it");
    }

    public Table alterTable(Identifier table, TableChange[] changes) {
        throw readsOnly("columns are changed by `lakelog schema --evolve`");
    }

    public boolean dropTable(Identifier table) {
        throw readsOnly("tables are dropped by `lakelog drop`");
    }

    public void renameTable(Identifier from, Identifier to) {
        throw readsOnly("tables keep their names");
    }

    public void createNamespace(String[] namespace, Map properties) {
        throw readsOnly("a database begins with the first writer of it");
    }

    public void alterNamespace(String[] namespace, NamespaceChange[] changes) {
        throw readsOnly("databases have no properties");
    }

    public boolean dropNamespace(String[] namespace, boolean cascade) {
        throw readsOnly("databases are not dropped");
    }
}
"""

# In the plan of a query a table stands for the plan of its rows. The rule comes after Spark's own
# optimizations, so those that bring filters and columns down to the files are applied again.
SWAP = """
package io.lakelog.spark;

import org.apache.spark.sql.catalyst.expressions.Alias;
import org.apache.spark.sql.catalyst.expressions.Attribute;
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

    private static Attribute named(String name, Seq output) {
        for (int i = 0; i < output.length(); i++) {
            Attribute each = (Attribute) output.apply(i);
            if (each.name().equals(name)) { return each; }
        }
        throw new IllegalStateException("The plan of the table lacks column " + name);
    }
}
"""

RULE = """
package io.lakelog.spark;

import org.apache.spark.sql.catalyst.optimizer.CollapseProject$;
import org.apache.spark.sql.catalyst.optimizer.ColumnPruning$;
import org.apache.spark.sql.catalyst.optimizer.PushDownPredicates$;
import org.apache.spark.sql.catalyst.plans.logical.DeleteFromTable;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.rules.Rule;
import org.apache.spark.sql.catalyst.trees.TreeNode;

public final class LakeRule extends Rule {
    public TreeNode apply(TreeNode plan) {
        if (plan instanceof DeleteFromTable) { return plan; } // which is asked of the table itself
        LogicalPlan before = (LogicalPlan) plan;
        LogicalPlan found = (LogicalPlan) before.transformUp(new LakeSwap());
        if (found.fastEquals(before)) { return before; }
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

# Each may use those before it.
TEXTS = (ASK, WRITE, TABLE, CATALOG, SWAP, RULE, INSTALLER)
