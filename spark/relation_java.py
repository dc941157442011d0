"""The Java texts of how Spark reads known files: the relation over the index of `file_index_java`,
the check of each file before its first row is read, and the conditions that the Parquet reader
gets.
"""

from __future__ import annotations

from .selection import GONE

# The Parquet reader skips row groups and pages by the conditions that it gets, and nobody looks at
# these again. Therefore a condition is handed down only if it is true of all rows that Spark's own
# lets through; Spark applies every condition again, so a wider one, or none, costs no row.
# Not handed down as they are, for what is skipped by them holds rows that are asked for:
# - floats: bounds ignore NaN, which for Spark is greater than all else, and dictionaries tell -0.0
#   from 0.0;
# - decimals: the value of a condition overflows, or is an error, where a file has fewer digits;
# - times: the value is cut to milliseconds where a file has these, so bounds count as inside, and
#   what is negated isn't handed down;
# - dates: a day that the machine's time zone has left out comes as the next one, so a range is
#   wider by a day;
# - both before 1900, when calendars and zones move them further.
PUSHED_FILTERS = """
package io.lakelog.spark;

import java.sql.Date;
import java.sql.Timestamp;
import java.time.Instant;
import java.time.LocalDate;
import java.time.LocalDateTime;
import java.time.ZoneOffset;
import java.util.Arrays;
import java.util.HashSet;
import java.util.Set;
import org.apache.spark.sql.sources.And;
import org.apache.spark.sql.sources.EqualNullSafe;
import org.apache.spark.sql.sources.EqualTo;
import org.apache.spark.sql.sources.Filter;
import org.apache.spark.sql.sources.GreaterThan;
import org.apache.spark.sql.sources.GreaterThanOrEqual;
import org.apache.spark.sql.sources.IsNotNull;
import org.apache.spark.sql.sources.IsNull;
import org.apache.spark.sql.sources.LessThan;
import org.apache.spark.sql.sources.LessThanOrEqual;
import org.apache.spark.sql.sources.Or;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.StructField;
import org.apache.spark.sql.types.StructType;
import scala.Product;

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
"""
CHECKED_READ_CLASS = "io.lakelog.spark.CheckedRead"
# Java serializes a class by name and serialVersionUID: raise it when the fields change, so that
# executors which have another CheckedRead refuse. A split carries the length of the file's footer
# and its digest, both 0: unknown; and the cut in words.
# Compiled in the driver, and sent to the executors in a jar; an executor that lacks the class
# fails. The checks are those of `scan`, exact size and digest of the footer, so that a file that
# replaced a live one is an error. For a missing file the error names the cut of the query, and
# what to do.
CHECKED_READ = """
package io.lakelog.spark;

import java.io.FileNotFoundException;
import java.io.IOException;
import java.nio.ByteBuffer;
import java.security.MessageDigest;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.FSDataInputStream;
import org.apache.hadoop.fs.FileSystem;
import org.apache.hadoop.fs.Path;
import org.apache.spark.broadcast.Broadcast;
import org.apache.spark.sql.execution.datasources.PartitionedFile;
import org.apache.spark.unsafe.Platform;
import org.apache.spark.util.SerializableConfiguration;
import scala.Function1;
import scala.Option;

public final class CheckedRead extends scala.runtime.AbstractFunction1
    implements java.io.Serializable {
    public static final String FOOTER = "lakelog_footer";
    public static final String CUT = "lakelog_cut";
    private static final long serialVersionUID = 1L;
    private final Function1 read;
    private final Broadcast conf;

    public CheckedRead(Function1 read, Broadcast conf) {
        this.read = read;
        this.conf = conf;
    }

    public Object apply(Object split) {
        Object rows = null;
        try {
            check((PartitionedFile) split);
            rows = read.apply(split);
        } catch (Exception error) {
            boolean gone = error instanceof FileNotFoundException;
            Platform.throwException(gone ? gone((PartitionedFile) split) : error);
        }
        return rows;
    }

    private void check(PartitionedFile file) throws Exception {
        Configuration settings = ((SerializableConfiguration) conf.value()).value();
        // On the driver's own machine they may be the very object of the driver, which doesn't know
        // the classes that tasks have (`StoreBySettings`).
        settings.setClassLoader(CheckedRead.class.getClassLoader());
        Path path = file.toPath();
        FileSystem store = path.getFileSystem(settings);
        try {
            long size = store.getFileStatus(path).getLen();
            if (size != file.fileSize()) {
                throw damaged(path, size + " bytes, the log says " + file.fileSize());
            }
            Option known = file.otherConstantMetadataColumnValues().get(FOOTER);
            long[] footer = (long[]) known.get();
            if (footer[0] == 0L || footer[1] == 0L) { return; }
            boolean same = footer[0] <= size;
            if (same) {
                byte[] bytes = new byte[(int) footer[0]];
                FSDataInputStream input = store.open(path);
                try {
                    input.readFully(size - bytes.length, bytes);
                } finally {
                    input.close();
                }
                byte[] digest = MessageDigest.getInstance("SHA-256").digest(bytes);
                same = ByteBuffer.wrap(digest).getLong() == footer[1];
            }
            if (!same) {
                throw damaged(
                    path, "another footer than the log says: it was replaced, or damaged");
            }
        } finally {
            String scheme = path.toUri().getScheme();
            if (settings.getBoolean("fs." + scheme + ".impl.disable.cache", false)) {
                store.close();
            }
        }
    }

    private static IOException gone(PartitionedFile file) {
        Object cut = file.otherConstantMetadataColumnValues().get(CUT).get();
        return new IOException("ObjectNotFound: " + file.toPath() + " is gone. The query reads "
            + cut + ". @GONE@");
    }

    private static IOException damaged(Path path, String what) {
        return new IOException("CorruptObject: " + path + " has " + what
            + ". Restore the file from a copy, or read a point in time without it");
    }
}
""".replace("@GONE@", GONE)
FACTORY_CLASS = "io.lakelog.spark.RelationFactory"
# Parquet as Spark reads it, but for three things. What opens the store is asked for here, when a
# query is planned (`s3_settings.S3Settings`), and goes to its tasks alone. Each file is checked by
# `CheckedRead` before it is read. And of the query's conditions the Parquet reader gets those of
# `PushedFilters`. What is handed to tasks is the reader of a plain `ParquetFileFormat`, as they
# don't know this class.
PARQUET_FORMAT = """
package io.lakelog.spark;

import java.util.ArrayList;
import java.util.function.Function;
import org.apache.hadoop.conf.Configuration;
import org.apache.spark.sql.SparkSession;
import org.apache.spark.sql.execution.datasources.parquet.ParquetFileFormat;
import org.apache.spark.sql.sources.Filter;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.util.SerializableConfiguration;
import scala.collection.immutable.ArraySeq;
import scala.collection.immutable.Map;
import scala.collection.immutable.Seq;
import scala.reflect.ClassTag$;

public final class LakelogParquet extends ParquetFileFormat {
    private final Function settings;

    public LakelogParquet(Function settings) { this.settings = settings; }

    public scala.Function1 buildReaderWithPartitionValues(
        SparkSession session, StructType data, StructType partition, StructType required,
        Seq filters, Map options, Configuration conf) {
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
            String[] told = ((String) settings.apply(null)).split("\\n", -1);
            for (int i = 0; i + 1 < told.length; i += 2) { conf.set(told[i], told[i + 1]); }
        }
        try {
            StoreBySettings.use(conf);
        } catch (Exception error) {
            throw new RuntimeException(error);
        }
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
