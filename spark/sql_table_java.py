"""The Java texts of a table in Spark's SQL: how Python is asked, the rows of a cut, and what
becomes of rows that a statement inserts or changes.
"""

from __future__ import annotations

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

# The rows that a statement inserts go to Python, as a frame, and are committed there.
WRITE = """
package io.lakelog.spark;

import org.apache.spark.sql.Dataset;
import org.apache.spark.sql.connector.read.ScanBuilder;
import org.apache.spark.sql.connector.write.RowLevelOperationBuilder;
import org.apache.spark.sql.connector.write.RowLevelOperationInfo;
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

    public void insert(Dataset rows, boolean overwrite) {
        words[1] = replaces || overwrite ? "overwrite" : "append";
        python.ask(words, rows);
    }
}
"""

# A table of a cut. Two are equal if they read the same, so that what was cached serves all queries
# of that cut and none of another one.
TABLE = """
package io.lakelog.spark;

import java.util.Arrays;
import java.util.HashSet;
import java.util.Locale;
import java.util.OptionalLong;
import java.util.Set;
import org.apache.spark.sql.classic.Dataset;
import org.apache.spark.sql.connector.catalog.MetadataColumn;
import org.apache.spark.sql.connector.catalog.StagedTable;
import org.apache.spark.sql.connector.catalog.SupportsMetadataColumns;
import org.apache.spark.sql.connector.catalog.SupportsRead;
import org.apache.spark.sql.connector.catalog.SupportsRowLevelOperations;
import org.apache.spark.sql.connector.catalog.SupportsWrite;
import org.apache.spark.sql.connector.catalog.TableCapability;
import org.apache.spark.sql.connector.metric.CustomTaskMetric;
import org.apache.spark.sql.connector.read.Scan;
import org.apache.spark.sql.connector.read.ScanBuilder;
import org.apache.spark.sql.connector.read.Statistics;
import org.apache.spark.sql.connector.read.SupportsReportStatistics;
import org.apache.spark.sql.connector.write.LogicalWriteInfo;
import org.apache.spark.sql.connector.write.RowLevelOperationBuilder;
import org.apache.spark.sql.connector.write.RowLevelOperationInfo;
import org.apache.spark.sql.connector.write.WriteBuilder;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;

public final class LakeTable
    implements StagedTable, SupportsRead, SupportsWrite, SupportsRowLevelOperations,
        SupportsMetadataColumns, ScanBuilder, SupportsReportStatistics, Statistics, LakeRows {
    private static final Set OF_SPARK = new HashSet(Arrays.asList(new Object[] {
        "__row_operation", "__row_from_source", "__row_from_target", LakePlace.FILE,
        LakePlace.NUMBER}));
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
        Dataset placed = (Dataset) write.placed(token);
        return write.operation(info, new LakeTable(name, token, schema, placed, null), token);
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
