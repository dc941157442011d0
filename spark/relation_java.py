"""The Java text of the relation that stands for known files: Parquet as Spark reads it, with a
check of each file, over the index of `file_index_java`.
"""

from __future__ import annotations

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
