"""The Java text of a lake in Spark's SQL: a catalog plugin that asks Python what there is, tables
of a cut, and how their rows are inserted and changed.

Spark rewrites DELETE, UPDATE and MERGE itself, into a query that gives the rows that are deleted
and those that are added: joins, conditions, assignments and the check that no row is changed twice
are its own. What would write the outcome of that query hands it to Python instead, with the
condition as far as it can be written down.
"""

from __future__ import annotations

INSTALLER_CLASS = "io.lakelog.spark.SqlInstaller"
SQL = """
package io.lakelog.spark;

import com.fasterxml.jackson.core.JsonProcessingException;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.lang.ref.WeakReference;
import java.lang.reflect.Constructor;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collections;
import java.util.HashSet;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.OptionalLong;
import java.util.Set;
import java.util.UUID;
import java.util.function.BiFunction;
import java.util.regex.Pattern;
import org.apache.spark.sql.catalyst.ProjectingInternalRow;
import org.apache.spark.sql.catalyst.QueryPlanningTracker;
import org.apache.spark.sql.catalyst.analysis.NoSuchNamespaceException;
import org.apache.spark.sql.catalyst.analysis.NoSuchTableException;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.plans.logical.WriteDelta;
import org.apache.spark.sql.catalyst.trees.CurrentOrigin;
import org.apache.spark.sql.catalyst.util.WriteDeltaProjections;
import org.apache.spark.sql.classic.Dataset;
import org.apache.spark.sql.classic.SparkSession;
import org.apache.spark.sql.connector.catalog.*;
import org.apache.spark.sql.connector.expressions.Expressions;
import org.apache.spark.sql.connector.expressions.NamedReference;
import org.apache.spark.sql.connector.expressions.Transform;
import org.apache.spark.sql.connector.expressions.filter.Predicate;
import org.apache.spark.sql.connector.metric.CustomTaskMetric;
import org.apache.spark.sql.connector.read.*;
import org.apache.spark.sql.connector.write.*;
import org.apache.spark.sql.execution.SparkPlan;
import org.apache.spark.sql.execution.SparkStrategy;
import org.apache.spark.sql.execution.datasources.v2.DataSourceV2Relation;
import org.apache.spark.sql.execution.datasources.v2.DeleteFromTableExec;
import org.apache.spark.sql.sources.InsertableRelation;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;
import scala.collection.immutable.ArraySeq;
import scala.collection.immutable.Nil$;
import scala.collection.immutable.Seq;
import scala.collection.mutable.HashMap;
import scala.jdk.javaapi.CollectionConverters;
import scala.runtime.AbstractFunction0;
import scala.runtime.BoxedUnit;

// Python is asked with a list of words in JSON, and perhaps a frame, and answers with a list: how
// it went, and what was found.
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

// All tables of a query are of one cut of each database: Spark makes a tracker for each query and
// holds it while it looks tables up.
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
        for (Object each : new String[] {"location", "external", "option.path"}) {
            if (properties.containsKey(each)) {
                throw readsOnly("a table's files are below its writer's prefix: leave LOCATION, "
                    + "EXTERNAL and the option path out");
            }
        }
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
        StringBuilder asked = new StringBuilder();
        for (int i = 0; i < changes.length; i++) {
            if (!(changes[i] instanceof TableChange.ColumnChange)) {
                throw readsOnly("tables have no properties, comments or constraints");
            }
            String[] path = ((TableChange.ColumnChange) changes[i]).fieldNames();
            asked.append(i > 0 ? ", " : "").append(String.join(".", Arrays.asList(path)));
            if (changes[i] instanceof TableChange.AddColumn) {
                asked.append(" is new");
            } else if (changes[i] instanceof TableChange.UpdateColumnType) {
                asked.append(" is to be ");
                asked.append(((TableChange.UpdateColumnType) changes[i]).newDataType().sql());
            }
        }
        throw readsOnly("SQL doesn't change the columns of a table (" + asked + "): do so by "
            + "`lakelog schema --evolve`, or leave them out. Nothing was written");
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

// A table of a cut. Two are equal if they read the same, so that what was cached serves all queries
// of that cut and none of another one.
public final class LakeTable
    implements StagedTable, SupportsRead, SupportsWrite, SupportsRowLevelOperations,
        SupportsMetadataColumns, ScanBuilder, SupportsReportStatistics, Statistics, LakeRows {
    private static final Set OF_SPARK = new HashSet(Arrays.asList(new Object[] {
        "__row_operation", "__row_from_source", "__row_from_target", LakePlace.FILE,
        LakePlace.NUMBER}));
    private static final Pattern COMMENT = Pattern.compile("(?s)/\\\\*.*?\\\\*/|--[^\\n]*");
    private static final Pattern EVOLUTION = Pattern.compile(
        "(?i)\\\\bMERGE\\\\s+WITH\\\\s+SCHEMA\\\\s+EVOLUTION\\\\b");
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

    /** What a DELETE, UPDATE or MERGE does. */
    public RowLevelOperationBuilder newRowLevelOperationBuilder(RowLevelOperationInfo info) {
        if (write == null) {
            throw new UnsupportedOperationException(
                name + " is read only here: attach the lake with writer=, and without as_of=");
        }
        refuseNamesOfSpark();
        refuseEvolution();
        Dataset placed = (Dataset) write.placed(token);
        return write.operation(info, new LakeTable(name, token, schema, placed, null), token);
    }

    /** Spark 4.0 parses MERGE WITH SCHEMA EVOLUTION, asks no table for the columns that it lacks,
        and leaves them out: all that tells of it is the statement's text. */
    private void refuseEvolution() {
        scala.Option text = CurrentOrigin.get().sqlText();
        if (evolution() != null || text.isEmpty()) { return; }
        String words = COMMENT.matcher((String) text.get()).replaceAll(" ");
        if (EVOLUTION.matcher(words).find()) {
            throw new UnsupportedOperationException(
                "this Spark leaves out the columns that " + name + " lacks: evolve it (lakelog "
                + "schema --evolve), and MERGE without WITH SCHEMA EVOLUTION, or use Spark 4.1 or "
                + "later");
        }
    }

    /** By which later ones ask. */
    private static TableCapability evolution() {
        TableCapability[] known = TableCapability.values();
        for (int i = 0; i < known.length; i++) {
            if (known[i].name().equals("AUTOMATIC_SCHEMA_EVOLUTION")) { return known[i]; }
        }
        return null;
    }

    private void refuseNamesOfSpark() {
        String[] names = schema.fieldNames();
        for (int i = 0; i < names.length; i++) {
            String own = names[i].toLowerCase(Locale.ROOT);
            if (OF_SPARK.contains(own) || own.startsWith("__original_row_id_")) {
                throw new UnsupportedOperationException(
                    name + " has a column " + names[i] + ", a name that Spark gives to its own "
                    + "while it changes rows: rename it, or change rows by lakelog's own commits");
            }
        }
    }

    public MetadataColumn[] metadataColumns() {
        return LakePlace.both();
    }

    /** The rows, as `read` plans them. */
    public Dataset rows() { return rows; }

    public String name() { return name; }

    public StructType schema() { return schema; }

    public Set capabilities() {
        Set all = new HashSet();
        all.add(TableCapability.BATCH_READ);
        if (write == null) { return all; }
        all.add(TableCapability.V1_BATCH_WRITE);
        all.add(TableCapability.TRUNCATE);
        // A MERGE WITH SCHEMA EVOLUTION then asks for the columns that the table lacks, and is
        // refused by alterTable; of other tables Spark leaves them out, and says nothing.
        if (evolution() != null) { all.add(evolution()); }
        return all;
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

// The rows that a statement inserts go to Python, as a frame, and are committed there.
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

    /** The rows of the table at a cut, each with its place. */
    public Object placed(String token) {
        String[] asked = {"placed", words[2], words[3], token};
        return python.ask(asked, null).get(1);
    }

    /** What changes rows of the table, as they are at a cut. */
    public RowLevelOperationBuilder operation(
        RowLevelOperationInfo info, ScanBuilder rows, String token) {
        String[] change = {"change", info.command().toString(), words[2], words[3], token};
        return new LakeOperation(info.command(), rows, python, change);
    }

    public WriteBuilder truncate() {
        replaces = true;
        return this;
    }

    public V1Write build() { return this; }

    public InsertableRelation toInsertableRelation() { return this; }

    public void insert(org.apache.spark.sql.Dataset rows, boolean overwrite) {
        words[1] = replaces || overwrite ? "overwrite" : "append";
        python.ask(words, rows);
    }
}

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

    /** The words for Python: what is done to which table, at which cut. */
    public String[] words() { return words; }

    public RowLevelOperation.Command command() { return command; }

    public ScanBuilder newScanBuilder(CaseInsensitiveStringMap options) { return rows; }

    public DeltaWriteBuilder newWriteBuilder(LogicalWriteInfo info) { return new LakeDelta(); }

    public NamedReference[] rowId() {
        return new NamedReference[] {
            Expressions.column(LakePlace.FILE), Expressions.column(LakePlace.NUMBER)};
    }
}

// What tells rows of a table apart: their files, and their numbers there.
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

/** Stands where Spark wants a writer; nobody asks it to write. */
public final class LakeDelta implements DeltaWriteBuilder, DeltaWrite {
    public DeltaWrite build() { return this; }
}

// Planned in the place of Spark's own command. The condition is written as filters are; that of a
// MERGE is the join's, and says nothing of which rows are deleted.
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
        // Planned once more, where Spark chooses partitions again: a choice of two keys of one
        // column, as `<=>` makes them, can't be analysed.
        LogicalPlan query = (LogicalPlan) ((LogicalPlan) delta.productElement(2))
            .transformAllExpressionsWithSubqueries(new LakeUnchosen());
        LakeChange change = new LakeChange(session, operation.python(), words, query);
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

/** A table that is cached stays at its cut. */
public final class LakeRefresh extends AbstractFunction0 {
    public Object apply() { return BoxedUnit.UNIT; }
}

// Spark makes catalogs by the name of a class on its class path; this one is put where it keeps
// those that it made. Later Sparks have another manager of catalogs, so the field is looked for.
public final class SqlInstaller {
    /** Make a lake known to a session under a name, in the place of what had the name. */
    public void attach(SparkSession session, String name, BiFunction python, boolean writes)
        throws Exception {
        LakeCatalog catalog = new LakeCatalog(name, python, writes);
        catalogs(session).put(name, catalog);
        if (!finds(session, name, catalog)) {
            catalogs(session).remove(name);
            throw new NoSuchFieldException("Spark doesn't find catalog " + name);
        }
        ArrayList strategies = new ArrayList(
            CollectionConverters.asJava(session.experimental().extraStrategies()));
        for (int i = 0; i < strategies.size(); i++) {
            if (strategies.get(i) instanceof LakeStrategy) { return; }
        }
        strategies.add(new LakeStrategy(session));
        session.experimental().extraStrategies_$eq(
            ArraySeq.unsafeWrapArray(strategies.toArray(new SparkStrategy[0])));
    }

    private static boolean finds(SparkSession session, String name, LakeCatalog catalog) {
        try {
            return session.sessionState().catalogManager().catalog(name) == catalog;
        } catch (Exception error) { // Spark has no such catalog
            return false;
        }
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
        CatalogManager manager = session.sessionState().catalogManager();
        return (HashMap) PrivateField.of(manager.getClass(), "catalogs", HashMap.class)
            .get(manager);
    }
}
"""
