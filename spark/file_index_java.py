"""The Java text of the file index, compiled inside Spark's own JVM by the Janino that Spark
bundles.

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
import org.apache.spark.sql.execution.datasources.PartitionDirectory;
import org.apache.spark.sql.types.StructType;
import scala.collection.immutable.ArraySeq;
import scala.collection.immutable.Seq;

public final class LakelogFileIndex implements FileIndex {
    private final String[] paths;
    private final long[] sizes;
    private final long totalBytes;
    private final int hash;
    private final Seq roots;
    private final Seq listing;

    public LakelogFileIndex(String[] paths, long[] sizes) {
        this.paths = paths;
        this.sizes = sizes;
        this.hash = 31 * Arrays.hashCode(paths) + Arrays.hashCode(sizes);
        FileStatus[] statuses = new FileStatus[paths.length];
        LinkedHashSet parents = new LinkedHashSet();
        long total = 0L;
        for (int i = 0; i < paths.length; i++) {
            Path path = new Path(paths[i]);
            statuses[i] = new FileStatus(sizes[i], false, 1, 0L, 0L, path);
            parents.add(path.getParent());
            total += sizes[i];
        }
        this.totalBytes = total;
        this.roots = ArraySeq.unsafeWrapArray(parents.toArray(new Path[0]));
        PartitionDirectory all = PartitionDirectory.apply(InternalRow.empty(), statuses);
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
            && Arrays.equals(paths, that.paths);
    }

    public String toString() { return "LakelogFileIndex(" + paths.length + " files)"; }
}
"""

# `packed` is what `file_index.pack` makes: count, byte lengths, sizes, then all paths in UTF-8,
# big-endian. `asNullable`, because a file may lack any column, and Spark would optimise a promised
# "not null" into wrong rows.
RELATION_FACTORY = """
package io.lakelog.spark;

import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import org.apache.spark.sql.Dataset;
import org.apache.spark.sql.classic.SparkSession;
import org.apache.spark.sql.execution.datasources.HadoopFsRelation;
import org.apache.spark.sql.execution.datasources.parquet.ParquetFileFormat;
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
        String[] paths = new String[count];
        int at = buffer.position();
        for (int i = 0; i < count; i++) {
            paths[i] = new String(packed, at, lengths[i], StandardCharsets.UTF_8);
            at += lengths[i];
        }
        StructType schema = ((StructType) DataType.fromJson(schemaJson)).asNullable();
        HadoopFsRelation relation = new HadoopFsRelation(
            new LakelogFileIndex(paths, sizes), new StructType(), schema, scala.Option.empty(),
            new ParquetFileFormat(),
            Map$.MODULE$.from(CollectionConverters.asScala(options)), session);
        return session.baseRelationToDataFrame(relation);
    }
}
"""
