"""The Java text of the file index, compiled inside Spark's own JVM by the Janino that Spark
bundles; that of what runs in the tasks is in `checked_read_java`.

It is a string and no jar, so that a wheel needs no build step and no second artefact, and so that
it compiles against whichever Spark is running. Janino knows no lambdas, no diamond operator and no
generics inference to speak of: the text keeps to plain Java 5. It touches Spark only through the
interfaces named in its imports; `tests/spark/test_file_index.py` runs all of them on a real Spark.
"""

from __future__ import annotations

PACKAGE = "io.lakelog.spark"
FACTORY_CLASS = f"{PACKAGE}.RelationFactory"

# The index is held by the driver only: plans sent to executors carry file splits, never the
# relation. Equality is by content, so that two reads of one cut share a cache and an exchange.
FILE_INDEX = """
package io.lakelog.spark;

import java.util.Arrays;
import java.util.LinkedHashSet;
import org.apache.hadoop.fs.FileStatus;
import org.apache.hadoop.fs.Path;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.execution.datasources.FileIndex;
import org.apache.spark.sql.execution.datasources.FileStatusWithMetadata;
import org.apache.spark.sql.execution.datasources.PartitionDirectory;
import org.apache.spark.sql.types.StructType;
import scala.collection.immutable.ArraySeq;
import scala.collection.immutable.Map;
import scala.collection.immutable.Seq;

public final class LakelogFileIndex implements FileIndex {
    private final String[] paths;
    private final long[] sizes;
    private final long[] footers;
    private final long totalBytes;
    private final int hash;
    private final Seq roots;
    private final Seq listing;

    public LakelogFileIndex(String[] paths, long[] sizes, long[] footers) {
        this.paths = paths;
        this.sizes = sizes;
        this.footers = footers;
        this.hash = 31 * Arrays.hashCode(paths) + Arrays.hashCode(footers);
        FileStatusWithMetadata[] files = new FileStatusWithMetadata[paths.length];
        LinkedHashSet parents = new LinkedHashSet();
        long total = 0L;
        for (int i = 0; i < paths.length; i++) {
            Path path = new Path(paths[i]);
            FileStatus status = new FileStatus(sizes[i], false, 1, 0L, 0L, path);
            long[] footer = new long[] {footers[2 * i], footers[2 * i + 1]};
            Map more = new Map.Map1(CheckedRead.FOOTER, footer);
            files[i] = new FileStatusWithMetadata(status, more);
            parents.add(path.getParent());
            total += sizes[i];
        }
        this.totalBytes = total;
        this.roots = ArraySeq.unsafeWrapArray(parents.toArray(new Path[0]));
        Seq listed = ArraySeq.unsafeWrapArray(files);
        PartitionDirectory all = new PartitionDirectory(InternalRow.empty(), listed);
        this.listing = ArraySeq.unsafeWrapArray(new PartitionDirectory[] {all});
    }

    public Seq rootPaths() { return roots; }

    public Seq listFiles(Seq partitionFilters, Seq dataFilters) { return listing; }

    public String[] inputFiles() {
        String[] uris = new String[paths.length];
        for (int i = 0; i < paths.length; i++) {
            uris[i] = new Path(paths[i]).toUri().toString();
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
        return hash == that.hash && Arrays.equals(sizes, that.sizes)
            && Arrays.equals(footers, that.footers) && Arrays.equals(paths, that.paths);
    }

    public String toString() { return "LakelogFileIndex(" + paths.length + " files)"; }
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

# `packed` is what `file_index.pack` makes: count, byte lengths, sizes, lengths and digests of
# footers in turn, then all paths in UTF-8, big-endian. `asNullable`, because a file may lack any
# column, and Spark would optimise a promised "not null" into wrong rows.
RELATION_FACTORY = """
package io.lakelog.spark;

import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import org.apache.spark.sql.Dataset;
import org.apache.spark.sql.classic.SparkSession;
import org.apache.spark.sql.execution.datasources.HadoopFsRelation;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.StructType;
import scala.collection.immutable.Map$;
import scala.jdk.javaapi.CollectionConverters;

public final class RelationFactory {
    public Dataset relation(
        SparkSession session, String schemaJson, byte[] packed, java.util.Map options) {
        ByteBuffer buffer = ByteBuffer.wrap(packed);
        int count = buffer.getInt();
        int[] lengths = new int[count];
        for (int i = 0; i < count; i++) { lengths[i] = buffer.getInt(); }
        long[] sizes = new long[count];
        for (int i = 0; i < count; i++) { sizes[i] = buffer.getLong(); }
        long[] footers = new long[2 * count];
        for (int i = 0; i < 2 * count; i++) { footers[i] = buffer.getLong(); }
        String[] paths = new String[count];
        int at = buffer.position();
        for (int i = 0; i < count; i++) {
            paths[i] = new String(packed, at, lengths[i], StandardCharsets.UTF_8);
            at += lengths[i];
        }
        StructType schema = ((StructType) DataType.fromJson(schemaJson)).asNullable();
        HadoopFsRelation relation = new HadoopFsRelation(
            new LakelogFileIndex(paths, sizes, footers), new StructType(), schema,
            scala.Option.empty(), new LakelogParquet(),
            Map$.MODULE$.from(CollectionConverters.asScala(options)), session);
        return session.baseRelationToDataFrame(relation);
    }
}
"""
