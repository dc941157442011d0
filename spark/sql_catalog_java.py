"""The Java texts of a lake in Spark's SQL: a catalog plugin that asks Python what there is, and
hands it the rows that are inserted.
"""

from __future__ import annotations

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
