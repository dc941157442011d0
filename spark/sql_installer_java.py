"""The Java text that makes a lake a catalog of a session of Spark's."""

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
