"""The Java text of the file index, compiled inside Spark's own JVM by the Janino that Spark
bundles; that of the relation over it is in `relation_java`, that of what runs in the tasks in
`relation_java`.

It is a string and no jar, so that a wheel needs no build step and no second artefact, and so that
it compiles against whichever Spark is running. It touches Spark only through the interfaces named
in its imports; `tests/spark/test_spark_file_index.py` runs all of them on a real Spark.
"""

from __future__ import annotations

# The index is held by the driver only: plans sent to executors carry file splits, never the
# relation. Equality is by content, so that two reads of one cut share a cache and an exchange: what
# is skipped follows from the files and the filters, and a plan is compared by its filters as well.
# What Spark filters by partition columns alone it leaves to the index, and doesn't filter again.
# The skipper is Python's (`skipping.FileSkipper`): it takes filters as text and gives bits.
FILE_INDEX = """
package io.lakelog.spark;

import java.math.BigDecimal;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.function.Function;
import org.apache.hadoop.fs.FileStatus;
import org.apache.hadoop.fs.Path;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.Attribute;
import org.apache.spark.sql.catalyst.expressions.BasePredicate;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.GenericInternalRow;
import org.apache.spark.sql.catalyst.expressions.PlanExpression;
import org.apache.spark.sql.catalyst.expressions.Predicate$;
import org.apache.spark.sql.execution.datasources.FileIndex;
import org.apache.spark.sql.execution.datasources.FileStatusWithMetadata;
import org.apache.spark.sql.execution.datasources.PartitionDirectory;
import org.apache.spark.sql.types.BooleanType;
import org.apache.spark.sql.types.ByteType;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.DateType;
import org.apache.spark.sql.types.Decimal;
import org.apache.spark.sql.types.DecimalType;
import org.apache.spark.sql.types.IntegerType;
import org.apache.spark.sql.types.ShortType;
import org.apache.spark.sql.types.StringType;
import org.apache.spark.sql.types.StructField;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.unsafe.types.UTF8String;
import org.slf4j.LoggerFactory;
import scala.collection.Iterator;
import scala.collection.immutable.ArraySeq;
import scala.collection.immutable.Map;
import scala.collection.immutable.Seq;

public final class LakelogFileIndex implements FileIndex {
    // What is packed one behind the other.
    private static final int NAME_ENDS = 0;
    private static final int FOLDERS_OF = 1;
    private static final int SIZES = 2;
    private static final int FOOTERS = 3;
    private static final int PARTITIONS_OF = 4;
    private static final int FOLDER_ENDS = 5;
    private static final int VALUE_ENDS = 6;
    private static final int NULLS = 7;
    private static final int NAMES = 8;
    private static final int FOLDERS = 9;
    private static final int VALUES = 10;

    private final byte[] packed;
    private final ByteBuffer numbers;
    private final StructType partitionSchema;
    private final StructField[] partitionFields;
    private final int count;
    private final int folderCount;
    private final int partitionCount;
    private final int[] starts;
    private final long totalBytes;
    private final int hash;
    private final Function skipper;
    private final String cut;
    private volatile Object[] judged = {null, null};
    private volatile Seq roots;

    public LakelogFileIndex(
        byte[] packed, StructType partitionSchema, Function skipper, String cut) {
        this.packed = packed;
        this.numbers = ByteBuffer.wrap(packed);
        this.partitionSchema = partitionSchema;
        this.partitionFields = partitionSchema.fields();
        this.skipper = skipper;
        this.cut = cut;
        this.count = numbers.getInt(0);
        this.folderCount = numbers.getInt(4);
        this.partitionCount = numbers.getInt(8);
        int values = partitionCount * partitionFields.length;
        int numbered = partitionFields.length == 0 ? 0 : 4;
        this.starts = new int[11];
        int[] lengths = {12, 4 * count, 4 * count, 8 * count, 16 * count, numbered * count,
            4 * folderCount, 4 * values, values};
        for (int i = 0, at = 0; i < lengths.length; i++) {
            at += lengths[i];
            starts[i] = at;
        }
        starts[9] = starts[NAMES] + end(NAME_ENDS, count);
        starts[10] = starts[FOLDERS] + end(FOLDER_ENDS, folderCount);
        this.hash = Arrays.hashCode(packed);
        long total = 0L;
        for (int i = 0; i < count; i++) { total += size(i); }
        this.totalBytes = total;
    }

    private long size(int i) { return numbers.getLong(starts[SIZES] + 8 * i); }

    /** Where the texts before this one end. */
    private int end(int ends, int i) {
        return i == 0 ? 0 : numbers.getInt(starts[ends] + 4 * (i - 1));
    }

    private String text(int ends, int texts, int i) {
        int start = end(ends, i);
        int length = end(ends, i + 1) - start;
        return new String(packed, starts[texts] + start, length, StandardCharsets.UTF_8);
    }

    private String folder(int i) { return text(FOLDER_ENDS, FOLDERS, i); }

    private String path(int i) {
        int folder = numbers.getInt(starts[FOLDERS_OF] + 4 * i);
        return folder(folder) + "/" + text(NAME_ENDS, NAMES, i);
    }

    private int partition(int i) {
        return partitionFields.length == 0 ? 0 : numbers.getInt(starts[PARTITIONS_OF] + 4 * i);
    }

    /** Values of a partition, as Spark keeps them. */
    private InternalRow row(int partition, int[] columns) {
        Object[] values = new Object[columns.length];
        for (int i = 0; i < columns.length; i++) {
            int at = columns[i] * partitionCount + partition;
            if (packed[starts[NULLS] + at] == 0) {
                values[i] = value(
                    text(VALUE_ENDS, VALUES, at), partitionFields[columns[i]].dataType());
            }
        }
        return new GenericInternalRow(values);
    }

    private static Object value(String text, DataType type) {
        if (type instanceof StringType) { return UTF8String.fromString(text); }
        if (type instanceof BooleanType) { return Boolean.valueOf(text); }
        if (type instanceof ByteType) { return Byte.valueOf(text); }
        if (type instanceof ShortType) { return Short.valueOf(text); }
        if (type instanceof IntegerType) { return Integer.valueOf(text); }
        if (type instanceof DateType) { return Integer.valueOf(text); }
        if (type instanceof DecimalType) {
            DecimalType decimal = (DecimalType) type;
            return Decimal.apply(new BigDecimal(text), decimal.precision(), decimal.scale());
        }
        return Long.valueOf(text);
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
        boolean[] chosen = chosen(partitionFilters);
        byte[] mask = mask(dataFilters);
        ArrayList[] files = new ArrayList[partitionCount];
        for (int i = 0; i < count; i++) {
            int partition = partition(i);
            if (!chosen[partition] || !isKept(mask, i)) { continue; }
            if (files[partition] == null) { files[partition] = new ArrayList(); }
            files[partition].add(status(i));
        }
        int[] columns = new int[partitionFields.length];
        for (int i = 0; i < columns.length; i++) { columns[i] = i; }
        ArrayList found = new ArrayList();
        for (int i = 0; i < partitionCount; i++) {
            if (files[i] == null) { continue; }
            Seq listed = ArraySeq.unsafeWrapArray(files[i].toArray(new FileStatusWithMetadata[0]));
            found.add(new PartitionDirectory(row(i, columns), listed));
        }
        return ArraySeq.unsafeWrapArray(found.toArray(new PartitionDirectory[0]));
    }

    private FileStatusWithMetadata status(int i) {
        FileStatus status = new FileStatus(size(i), false, 1, 0L, 0L, new Path(path(i)));
        int at = starts[FOOTERS] + 16 * i;
        long[] footer = new long[] {numbers.getLong(at), numbers.getLong(at + 8)};
        Map more = new Map.Map2(CheckedRead.FOOTER, footer, CheckedRead.CUT, cut);
        return new FileStatusWithMetadata(status, more);
    }

    /** How many files may hold rows that meet the filters, and of how many; filters that are known
        only when the query runs aside. */
    public long[] count(Seq partitionFilters, Seq dataFilters) {
        boolean[] chosen = chosen(partitionFilters);
        byte[] mask = mask(dataFilters);
        long kept = 0L;
        for (int i = 0; i < count; i++) {
            if (chosen[partition(i)] && isKept(mask, i)) { kept++; }
        }
        return new long[] {kept, count};
    }

    private static boolean isKept(byte[] mask, int i) {
        return mask == null || (mask[i >> 3] >> (i & 7) & 1) != 0;
    }

    /** Which partitions meet the filters. */
    private boolean[] chosen(Seq filters) {
        boolean[] chosen = new boolean[partitionCount];
        Arrays.fill(chosen, true);
        for (Iterator each = filters.iterator(); each.hasNext();) {
            Expression filter = (Expression) each.next();
            if (isDynamic(filter)) { continue; }
            Seq attributes = filter.references().toSeq();
            int[] columns = new int[attributes.length()];
            for (int i = 0; i < columns.length; i++) {
                columns[i] = partitionSchema.fieldIndex(((Attribute) attributes.apply(i)).name());
            }
            BasePredicate predicate = Predicate$.MODULE$.create(filter, attributes);
            predicate.initialize(0);
            for (int i = 0; i < partitionCount; i++) {
                chosen[i] = chosen[i] && predicate.eval(row(i, columns));
            }
        }
        return chosen;
    }

    private static boolean isDynamic(Expression filter) {
        if (filter instanceof PlanExpression) { return true; }
        for (Iterator each = filter.children().iterator(); each.hasNext();) {
            if (isDynamic((Expression) each.next())) { return true; }
        }
        return false;
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
        } catch (VirtualMachineError error) {
            throw error; // as one that lacks memory
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

    public StructType partitionSchema() { return partitionSchema; }

    public boolean isTimeTravel() { return false; }

    public scala.Option metadataOpsTimeNs() { return scala.Option.empty(); }

    public int hashCode() { return hash; }

    public boolean equals(Object other) {
        if (!(other instanceof LakelogFileIndex)) { return false; }
        LakelogFileIndex that = (LakelogFileIndex) other;
        return hash == that.hash && partitionSchema.equals(that.partitionSchema)
            && Arrays.equals(packed, that.packed);
    }

    public String toString() { return "LakelogFileIndex(" + count + " files)"; }
}
"""
