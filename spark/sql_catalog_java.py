"""The Java texts of a lake in Spark's SQL: a catalog plugin that asks Python what there is."""

from __future__ import annotations

INSTALLER_CLASS = "io.lakelog.spark.SqlInstaller"
# Spark makes catalogs by the name of a class on its class path; this one is put where it keeps
# those that it made. Later Sparks have another manager of catalogs, so the field is looked for.
INSTALLER = """
package io.lakelog.spark;

import java.util.ArrayList;
import java.util.function.BiFunction;
import org.apache.spark.sql.classic.SparkSession;
import org.apache.spark.sql.connector.catalog.CatalogManager;
import org.apache.spark.sql.execution.SparkStrategy;
import scala.collection.immutable.ArraySeq;
import scala.collection.mutable.HashMap;
import scala.jdk.javaapi.CollectionConverters;

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
        for (Object each : new String[] {"location", "external", "option.path"}) {
            if (properties.containsKey(each)) {
                throw readsOnly("a table's files lie below its writer's prefix: leave LOCATION, "
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
