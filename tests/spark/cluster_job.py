"""A job for a cluster: `cluster_job.py URL`, by spark-submit. It writes, reads by all roads, and
tells of which lakelog the executors are."""

from __future__ import annotations

import sys

import lakelog
import lakelog.spark


def where(batches):
    """Runs in the executors."""
    import lakelog
    import pyarrow as pa

    for batch in batches:
        places = [lakelog.__file__] * batch.num_rows
        yield pa.RecordBatch.from_pydict({"place": places})


if __name__ == "__main__":
    [url] = sys.argv[1:]
    spark = lakelog.spark.session("a job")
    print("master:", spark.sparkContext.master)
    places = spark.range(0, 2, 1, 2).mapInArrow(where, "place string").collect()
    print("executors:", sorted({row["place"] for row in places}))
    done = lakelog.spark.write(spark.range(0, 1000, 1, 2), url, "db", "t", writer="spark")
    print("written:", done.rows)
    print("native:", lakelog.spark.read(spark, url, "db", "t").where("id >= 100").count())
    with lakelog.open_catalog(url).writer("spark", "db") as writer, writer.transaction() as tx:
        tx.delete("t", "id < 500")
    print("deletes:", lakelog.spark.read(spark, url, "db", "t").count())
    source = spark.read.format("lakelog").options(database="db", table="t", native="false")
    print("source:", source.load(url).count())
    spark.stop()
