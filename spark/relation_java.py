"""The Java text of how Spark reads known files: their index, the relation over it, and which
conditions the Parquet reader gets. What runs in the tasks is in `task_java`.

It is a string and no jar, so that a wheel needs no build step and no second artefact, and so that
it compiles against whichever Spark is running. It touches Spark only through the interfaces named
in its imports; `tests/spark/test_spark_file_index.py` runs all of them on a real Spark.
"""

from __future__ import annotations

FACTORY_CLASS = "io.lakelog.spark.RelationFactory"
RELATION = """
package io.lakelog.spark;

import java.io.IOException;
import java.math.BigDecimal;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Paths;
import java.sql.Date;
import java.sql.Timestamp;
import java.time.Instant;
import java.time.LocalDate;
import java.time.LocalDateTime;
import java.time.ZoneOffset;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashSet;
import java.util.Set;
import java.util.function.Function;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.FileStatus;
import org.apache.hadoop.fs.Path;
import org.apache.spark.sql.Dataset;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.Attribute;
import org.apache.spark.sql.catalyst.expressions.BasePredicate;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.GenericInternalRow;
import org.apache.spark.sql.catalyst.expressions.PlanExpression;
import org.apache.spark.sql.catalyst.expressions.Predicate$;
import org.apache.spark.sql.classic.SparkSession;
import org.apache.spark.sql.execution.FileSourceScanExec;
import org.apache.spark.sql.execution.SparkPlan;
import org.apache.spark.sql.execution.adaptive.AdaptiveSparkPlanExec;
import org.apache.spark.sql.execution.datasources.FileIndex;
import org.apache.spark.sql.execution.datasources.FileStatusWithMetadata;
import org.apache.spark.sql.execution.datasources.HadoopFsRelation;
import org.apache.spark.sql.execution.datasources.PartitionDirectory;
import org.apache.spark.sql.execution.datasources.parquet.ParquetFileFormat;
import org.apache.spark.sql.sources.*;
import org.apache.spark.sql.types.*;
import org.apache.spark.unsafe.types.UTF8String;
import org.apache.spark.util.SerializableConfiguration;
import org.slf4j.LoggerFactory;
import scala.Product;
import scala.collection.Iterator;
import scala.collection.immutable.ArraySeq;
import scala.collection.immutable.Map$;
import scala.collection.immutable.Map;
import scala.collection.immutable.Seq;
import scala.jdk.javaapi.CollectionConverters;
import scala.reflect.ClassTag$;

// The index is held by the driver only: plans sent to executors carry file splits, never the
// relation. Equality is by content, so that two reads of one cut share a cache and an exchange:
// what is skipped follows from the files and the filters, and a plan is compared by its filters as
// well. What Spark filters by partition columns alone it leaves to the index, and doesn't filter
// again.
// The skipper is Python's (`skipping.FileSkipper`): it takes filters as text and gives bits.
public final class LakelogFileIndex implements FileIndex {
    // What is packed one behind the other.
    private static final int NAME_ENDS = 0, FOLDERS_OF = 1, SIZES = 2, FOOTERS = 3,
        PARTITIONS_OF = 4, FOLDER_ENDS = 5, VALUE_ENDS = 6, NULLS = 7, NAMES = 8, FOLDERS = 9,
        VALUES = 10;

    private final byte[] packed;
    private final ByteBuffer numbers;
    private final StructType partitionSchema;
    private final StructField[] partitionFields;
    private final int count, folderCount, partitionCount;
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

// The Parquet reader skips row groups and pages by the conditions that it gets, and nobody looks at
// these again. Therefore a condition is handed down only if it is true of all rows that Spark's own
// lets through; Spark applies every condition again, so a wider one, or none, costs no row.
// Not handed down as they are, for what is skipped by them holds rows that are asked for:
// - floats: bounds ignore NaN, which for Spark is greater than all else, and dictionaries tell -0.0
//   from 0.0;
// - decimals: the value of a condition overflows, or is an error, where a file has fewer digits;
// - times: the value is cut to milliseconds where a file has these, so bounds count as inside, and
//   what is negated isn't handed down;
// - dates: a day that the machine's time zone has left out comes as the next one, so a range is
//   wider by a day;
// - both before 1900, when calendars and zones move them further.
public final class PushedFilters {
    private static final Set EXACT = new HashSet(Arrays.asList(new Object[] {
        "boolean", "tinyint", "smallint", "int", "bigint", "string", "binary"}));
    private static final LocalDateTime FIRST = LocalDateTime.of(1900, 2, 1, 0, 0);
    private final StructType schema;

    /** Of a relation with these columns. */
    public PushedFilters(StructType schema) { this.schema = schema; }

    /** What may be handed down of a condition, true wherever that is; null: nothing. */
    public Filter of(Filter filter) {
        if (filter instanceof And) {
            Filter left = of(((And) filter).left());
            Filter right = of(((And) filter).right());
            if (left == null || right == null) { return left == null ? right : left; }
            return new And(left, right);
        }
        if (filter instanceof Or) {
            Filter left = of(((Or) filter).left());
            Filter right = of(((Or) filter).right());
            return left == null || right == null ? null : new Or(left, right);
        }
        boolean isExact = true;
        String[][] columns = filter.v2references();
        for (int i = 0; i < columns.length; i++) {
            isExact = isExact && EXACT.contains(typeOf(columns[i]));
        }
        if (isExact || filter instanceof IsNull || filter instanceof IsNotNull) { return filter; }
        String type = columns.length == 1 ? typeOf(columns[0]) : "";
        return type.equals("date") || type.startsWith("timestamp") ? range(filter) : null;
    }

    /** Of a comparison with a day or a time. */
    private static Filter range(Filter filter) {
        boolean isSame = filter instanceof EqualTo || filter instanceof EqualNullSafe;
        boolean isLeast = filter instanceof GreaterThan || filter instanceof GreaterThanOrEqual;
        boolean isMost = filter instanceof LessThan || filter instanceof LessThanOrEqual;
        if (!isSame && !isLeast && !isMost) { return null; }
        Product of = (Product) filter; // all six are of a column and a value
        return range(
            (String) of.productElement(0), of.productElement(1), isSame || isLeast,
            isSame || isMost);
    }

    private static Filter range(String column, Object value, boolean isLeast, boolean isMost) {
        Object least = value;
        Object most = value;
        LocalDateTime at = null;
        if (value instanceof Instant) { at = utc((Instant) value); }
        if (value instanceof Timestamp) { at = utc(((Timestamp) value).toInstant()); }
        if (value instanceof LocalDateTime) { at = (LocalDateTime) value; }
        LocalDate day = value instanceof LocalDate ? (LocalDate) value : null;
        if (value instanceof Date) { day = ((Date) value).toLocalDate(); }
        if (day != null) {
            at = day.atStartOfDay();
            least = day.minusDays(1L);
            most = day.plusDays(1L);
        }
        if (at == null || at.isBefore(FIRST)) { return null; }
        Filter low = new GreaterThanOrEqual(column, least);
        Filter high = new LessThanOrEqual(column, most);
        return !isMost ? low : !isLeast ? high : new And(low, high);
    }

    private static LocalDateTime utc(Instant instant) {
        return LocalDateTime.ofInstant(instant, ZoneOffset.UTC);
    }

    private String typeOf(String[] name) {
        DataType type = schema;
        for (int i = 0; i < name.length; i++) {
            if (!(type instanceof StructType)) { return ""; }
            StructField[] fields = ((StructType) type).fields();
            type = null;
            for (int j = 0; j < fields.length; j++) {
                if (fields[j].name().equals(name[i])) { type = fields[j].dataType(); }
            }
        }
        return type == null ? "" : type.catalogString();
    }
}

// Parquet as Spark reads it, but for three things. What opens the store is asked for here, when a
// query is planned (`s3_settings.S3Settings`), and goes to its tasks alone. Each file is checked by
// `CheckedRead` before it is read. And of the query's conditions the Parquet reader gets those of
// `PushedFilters`. What is handed to tasks is the reader of a plain `ParquetFileFormat`, as they
// don't know this class.
public final class LakelogParquet extends ParquetFileFormat {
    private final Function settings;

    public LakelogParquet(Function settings) { this.settings = settings; }

    public scala.Function1 buildReaderWithPartitionValues(
        org.apache.spark.sql.SparkSession session, StructType data, StructType partition,
        StructType required, Seq filters, Map options, Configuration conf) {
        ArrayList kept = new ArrayList();
        PushedFilters pushed = new PushedFilters(data);
        for (scala.collection.Iterator each = filters.iterator(); each.hasNext();) {
            Filter found = pushed.of((Filter) each.next());
            if (found != null) { kept.add(found); }
        }
        tell(conf);
        scala.Function1 read = new ParquetFileFormat().buildReaderWithPartitionValues(
            session, data, partition, required,
            ArraySeq.unsafeWrapArray(kept.toArray(new Filter[0])), options, conf);
        return new CheckedRead(read, session.sparkContext().broadcast(
            new SerializableConfiguration(conf),
            ClassTag$.MODULE$.apply(SerializableConfiguration.class)));
    }

    private void tell(Configuration conf) {
        if (settings != null) {
            String[] pairs = ((String) settings.apply(null)).split("\\n", -1);
            for (int i = 0; i + 1 < pairs.length; i += 2) { conf.set(pairs[i], pairs[i + 1]); }
        }
        try {
            StoreBySettings.use(conf);
        } catch (Exception error) {
            throw new RuntimeException(error);
        }
    }
}

// `packed` names a file with what `known_files.pack` makes: calls into the JVM are slow with bytes.
// `asNullable`, because a file may lack any column, and Spark would optimise a promised "not null"
// into wrong rows.
public final class RelationFactory {
    public Dataset relation(
        SparkSession session, String schemaJson, String partitionJson, String packed,
        java.util.Map options, Function skipper, Function settings, String cut)
        throws IOException {
        byte[] files = Files.readAllBytes(Paths.get(packed, new String[0]));
        StructType schema = ((StructType) DataType.fromJson(schemaJson)).asNullable();
        StructType partition = ((StructType) DataType.fromJson(partitionJson)).asNullable();
        HadoopFsRelation relation = new HadoopFsRelation(
            new LakelogFileIndex(files, partition, skipper, cut), partition, schema,
            scala.Option.empty(), new LakelogParquet(settings),
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
                    scan.partitionFilters(), scan.dataFilters());
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
