"""The Java text of the file index, compiled inside Spark's own JVM by the Janino that Spark
bundles; that of what runs in the tasks is in `checked_read_java`.

It is a string and no jar, so that a wheel needs no build step and no second artefact, and so that
it compiles against whichever Spark is running. It touches Spark only through the interfaces named
in its imports; `tests/spark/test_spark_file_index.py` runs all of them on a real Spark.
"""

from __future__ import annotations

PACKAGE = "io.lakelog.spark"
FACTORY_CLASS = f"{PACKAGE}.RelationFactory"

# The index is held by the driver only: plans sent to executors carry file splits, never the
# relation. Equality is by content, so that two reads of one cut share a cache and an exchange: what
# is skipped follows from the files and the filters, and a plan is compared by its filters as well.
# The skipper is Python's (`skipping.FileSkipper`): it takes filters as text and gives bits.
FILE_INDEX = """
package io.lakelog.spark;

import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.function.Function;
import org.apache.hadoop.fs.FileStatus;
import org.apache.hadoop.fs.Path;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.execution.datasources.FileIndex;
import org.apache.spark.sql.execution.datasources.FileStatusWithMetadata;
import org.apache.spark.sql.execution.datasources.PartitionDirectory;
import org.apache.spark.sql.types.StructType;
import org.slf4j.LoggerFactory;
import scala.collection.immutable.ArraySeq;
import scala.collection.immutable.Map;
import scala.collection.immutable.Seq;

public final class LakelogFileIndex implements FileIndex {
    private final byte[] packed;
    private final ByteBuffer numbers;
    private final int count;
    private final int folderCount;
    private final int[] starts;
    private final long totalBytes;
    private final int hash;
    private final Function skipper;
    private final String cut;
    private volatile Object[] judged = {null, null};
    private volatile Seq roots;

    public LakelogFileIndex(byte[] packed, Function skipper, String cut) {
        this.packed = packed;
        this.numbers = ByteBuffer.wrap(packed);
        this.skipper = skipper;
        this.cut = cut;
        this.count = numbers.getInt(0);
        this.folderCount = numbers.getInt(4);
        // Of: ends of names, folders of files, sizes, footers, ends of folders, names, folders.
        int[] widths = {4, 4, 8, 16};
        this.starts = new int[7];
        starts[0] = 8;
        for (int i = 0; i < 4; i++) { starts[i + 1] = starts[i] + widths[i] * count; }
        starts[5] = starts[4] + 4 * folderCount;
        starts[6] = starts[5] + (count == 0 ? 0 : numbers.getInt(starts[0] + 4 * (count - 1)));
        this.hash = Arrays.hashCode(packed);
        long total = 0L;
        for (int i = 0; i < count; i++) { total += size(i); }
        this.totalBytes = total;
    }

    private long size(int i) { return numbers.getLong(starts[2] + 8 * i); }

    private String text(int ends, int texts, int i) {
        int start = i == 0 ? 0 : numbers.getInt(ends + 4 * (i - 1));
        int end = numbers.getInt(ends + 4 * i);
        return new String(packed, texts + start, end - start, StandardCharsets.UTF_8);
    }

    private String folder(int i) { return text(starts[4], starts[6], i); }

    private String path(int i) {
        int folder = numbers.getInt(starts[1] + 4 * i);
        return folder(folder) + "/" + text(starts[0], starts[5], i);
    }

    public Seq rootPaths() {
        if (roots == null) {
            Path[] found = new Path[folderCount];
            for (int i = 0; i < folderCount; i++) { found[i] = new Path(folder(i) + "/"); }
            roots = ArraySeq.unsafeWrapArray(found);
        }
        return roots;
    }

    public Seq listFiles(Seq partitionFilters, Seq dataFilters) {
        byte[] mask = mask(dataFilters);
        ArrayList files = new ArrayList();
        for (int i = 0; i < count; i++) {
            if (!isKept(mask, i)) { continue; }
            FileStatus status = new FileStatus(size(i), false, 1, 0L, 0L, new Path(path(i)));
            int at = starts[3] + 16 * i;
            long[] footer = new long[] {numbers.getLong(at), numbers.getLong(at + 8)};
            Map more = new Map.Map2(CheckedRead.FOOTER, footer, CheckedRead.CUT, cut);
            files.add(new FileStatusWithMetadata(status, more));
        }
        Seq listed = ArraySeq.unsafeWrapArray(files.toArray(new FileStatusWithMetadata[0]));
        PartitionDirectory all = new PartitionDirectory(InternalRow.empty(), listed);
        return ArraySeq.unsafeWrapArray(new PartitionDirectory[] {all});
    }

    /** How many files may hold rows that meet the filters, and of how many. */
    public long[] count(Seq dataFilters) {
        byte[] mask = mask(dataFilters);
        long kept = 0L;
        for (int i = 0; i < count; i++) { if (isKept(mask, i)) { kept++; } }
        return new long[] {kept, count};
    }

    private static boolean isKept(byte[] mask, int i) {
        return mask == null || (mask[i >> 3] >> (i & 7) & 1) != 0;
    }

    /** A bit for each file; null: all are read. Whatever fails costs the skipping alone. */
    private byte[] mask(Seq filters) {
        if (skipper == null || filters.isEmpty()) { return null; }
        try {
            String text = FilterText.of(filters);
            Object[] last = judged;
            if (text.equals(last[0])) { return (byte[]) last[1]; }
            byte[] mask = (byte[]) skipper.apply(text);
            if (mask == null || mask.length != (count + 7) / 8) { return null; }
            judged = new Object[] {text, mask};
            return mask;
        } catch (Throwable error) {
            LoggerFactory.getLogger(LakelogFileIndex.class).warn(
                "No file is skipped: Python doesn't answer", error);
            return null;
        }
    }

    public String[] inputFiles() {
        String[] uris = new String[count];
        for (int i = 0; i < count; i++) {
            uris[i] = new Path(path(i)).toUri().toString();
        }
        return uris;
    }

    public void refresh() { }

    public long sizeInBytes() { return totalBytes; }

    public StructType partitionSchema() { return new StructType(); }

    public boolean isTimeTravel() { return false; }

    public scala.Option metadataOpsTimeNs() { return scala.Option.empty(); }

    public int hashCode() { return hash; }

    public boolean equals(Object other) {
        if (!(other instanceof LakelogFileIndex)) { return false; }
        LakelogFileIndex that = (LakelogFileIndex) other;
        return hash == that.hash && Arrays.equals(packed, that.packed);
    }

    public String toString() { return "LakelogFileIndex(" + count + " files)"; }
}
"""

# Parquet as Spark reads it, but for two things. Each file is checked by `CheckedRead` before it is
# read. And no condition on a float is handed to the Parquet reader, which skips row groups and
# pages by bounds that ignore NaN, while in Spark NaN is greater than all else, and by dictionaries
# that tell -0.0 from 0.0: Spark applies every condition again to the rows, so that nothing but the
# skipping is lost. What is handed to tasks is the reader of a plain `ParquetFileFormat`, as they
# don't know this class.
PARQUET_FORMAT = """
package io.lakelog.spark;

import java.util.ArrayList;
import org.apache.hadoop.conf.Configuration;
import org.apache.spark.sql.SparkSession;
import org.apache.spark.sql.execution.datasources.parquet.ParquetFileFormat;
import org.apache.spark.sql.sources.Filter;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.StructField;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.util.SerializableConfiguration;
import scala.collection.immutable.ArraySeq;
import scala.collection.immutable.Map;
import scala.collection.immutable.Seq;

public final class LakelogParquet extends ParquetFileFormat {
    public scala.Function1 buildReaderWithPartitionValues(
        SparkSession session, StructType data, StructType partition, StructType required,
        Seq filters, Map options, Configuration conf) {
        ArrayList kept = new ArrayList();
        for (scala.collection.Iterator each = filters.iterator(); each.hasNext();) {
            Filter filter = (Filter) each.next();
            if (isSafe(filter, data)) { kept.add(filter); }
        }
        scala.Function1 read = new ParquetFileFormat().buildReaderWithPartitionValues(
            session, data, partition, required,
            ArraySeq.unsafeWrapArray(kept.toArray(new Filter[0])), options, conf);
        return new CheckedRead(
            read, SerializableConfiguration.broadcast(session.sparkContext(), conf));
    }

    private static boolean isSafe(Filter filter, StructType data) {
        String[][] columns = filter.v2references();
        for (int i = 0; i < columns.length; i++) {
            if (!isWithoutFloats(columns[i], data)) { return false; }
        }
        return true;
    }

    private static boolean isWithoutFloats(String[] name, DataType type) {
        for (int i = 0; i < name.length; i++) {
            if (!(type instanceof StructType)) { return false; }
            StructField[] fields = ((StructType) type).fields();
            type = null;
            for (int j = 0; j < fields.length; j++) {
                if (fields[j].name().equals(name[i])) { type = fields[j].dataType(); }
            }
        }
        if (type == null) { return false; }
        String text = type.catalogString();
        return text.indexOf("float") < 0 && text.indexOf("double") < 0;
    }
}
"""

# `packed` names a file with what `known_files.pack` makes: calls into the JVM are slow with bytes.
# `asNullable`, because a file may lack any column, and Spark would optimise a promised "not null"
# into wrong rows.
RELATION_FACTORY = """
package io.lakelog.spark;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Paths;
import java.util.function.Function;
import org.apache.spark.sql.Dataset;
import org.apache.spark.sql.classic.SparkSession;
import org.apache.spark.sql.execution.FileSourceScanExec;
import org.apache.spark.sql.execution.SparkPlan;
import org.apache.spark.sql.execution.adaptive.AdaptiveSparkPlanExec;
import org.apache.spark.sql.execution.datasources.HadoopFsRelation;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.StructType;
import scala.collection.Iterator;
import scala.collection.immutable.Map$;
import scala.jdk.javaapi.CollectionConverters;

public final class RelationFactory {
    public Dataset relation(
        SparkSession session, String schemaJson, String packed, java.util.Map options,
        Function skipper, String cut) throws IOException {
        byte[] files = Files.readAllBytes(Paths.get(packed, new String[0]));
        StructType schema = ((StructType) DataType.fromJson(schemaJson)).asNullable();
        HadoopFsRelation relation = new HadoopFsRelation(
            new LakelogFileIndex(files, skipper, cut), new StructType(), schema,
            scala.Option.empty(), new LakelogParquet(),
            Map$.MODULE$.from(CollectionConverters.asScala(options)), session);
        return session.baseRelationToDataFrame(relation);
    }

    /** How many files of indexes of ours a query reads, and of how many. */
    public long[] filesRead(org.apache.spark.sql.classic.Dataset frame) {
        long[] found = new long[2];
        count(frame.queryExecution().executedPlan(), found);
        return found;
    }

    private static void count(SparkPlan plan, long[] found) {
        if (plan instanceof AdaptiveSparkPlanExec) {
            count(((AdaptiveSparkPlanExec) plan).inputPlan(), found);
            return;
        }
        if (plan instanceof FileSourceScanExec) {
            FileSourceScanExec scan = (FileSourceScanExec) plan;
            if (scan.relation().location() instanceof LakelogFileIndex) {
                long[] counts = ((LakelogFileIndex) scan.relation().location()).count(
                    scan.dataFilters());
                found[0] += counts[0];
                found[1] += counts[1];
            }
        }
        for (Iterator each = plan.children().iterator(); each.hasNext();) {
            count((SparkPlan) each.next(), found);
        }
        for (Iterator each = plan.subqueries().iterator(); each.hasNext();) {
            count((SparkPlan) each.next(), found);
        }
    }
}
"""
