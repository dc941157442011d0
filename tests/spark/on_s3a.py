"""Spark with Hadoop's own connector to S3, against moto; `test_spark_s3a.py` runs this in a process
of its own, since Spark takes jars only when its JVM starts.

Both stores have a bucket of one name. What comes to them goes through proxies, which see who asks
for what.
"""

from __future__ import annotations

import json
import os
import re
import urllib.request
from pathlib import Path
from typing import TYPE_CHECKING, Any

import lakelog
import lakelog.spark
import pyarrow as pa
import pytest
from lakelog.errors import UsageError
from lakelog.testing.fault_proxy import FaultProxy, Reply, Request, fault_proxy, s3_error
from lakelog.testing.servers import direct, moto_server
from newer_spark import STREAMS, has, refusal
from py4j.protocol import Py4JJavaError
from pyspark.errors import StreamingQueryException

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql import DataFrame, SparkSession

DOCUMENT = Path(__file__).resolve().parents[2] / "docs" / "spark.md"
BUCKET = "lake"
FILES = 8
URL = f"s3a://{BUCKET}/x"
# Nothing that Spark shows may have any of these.
SECRETS = ("canary-secret-of-all", "canary-token-1", "canary-token-2", "canary-token-3")
CONNECTOR = re.compile(r"[?&]fs=([0-9a-f-]+)")  # S3A names itself in the Referer
KEY = re.compile(r"Credential=([^/]+)/")


class Server:
    """A store behind a proxy that tells who asks, and refuses tokens that have run out."""

    def __init__(self, proxy: FaultProxy, value: int) -> None:
        self.proxy = proxy
        self.value = value  # in all rows of its table
        self.seen: list[Request] = []
        self.valid_token: str | None = None
        proxy.rule = self._rule

    def _rule(self, request: Request) -> Reply | None:
        self.seen.append(request)
        if self.valid_token not in (None, request.headers.get("x-amz-security-token")):
            return s3_error(403, "InvalidToken")
        return None

    def options(self, token: str = "") -> dict[str, Any]:
        credentials = {"key": f"key{self.value}", "secret": SECRETS[0], "token": token}
        return {name: value for name, value in credentials.items() if value} | {
            "endpoint_url": self.proxy.endpoint_url,
            "client_kwargs": {"region_name": "us-east-1"},
            "config_kwargs": {"s3": {"addressing_style": "path"}},
        }

    def since(self, number: int) -> list[str]:
        return [f"{request.method} {request.path}" for request in self.seen[number:]]

    def by_connector(self) -> dict[str, set[str]]:
        """The keys that each connector of S3A, by its identity, signed with."""
        found: dict[str, set[str]] = {}
        for request in self.seen:
            if name := CONNECTOR.search(request.headers.get("referer", "")):
                key = KEY.search(request.headers.get("authorization", ""))
                found.setdefault(name[1], set()).add(key[1] if key else "")
        return found


@pytest.fixture(scope="session")
def both() -> Iterator[tuple[Server, Server]]:
    with (
        moto_server() as first,
        moto_server() as second,
        fault_proxy(first.endpoint_url) as one,
        fault_proxy(second.endpoint_url) as two,
    ):
        for server in (first, second):
            server.make_bucket(BUCKET)
        yield Server(one, 1), Server(two, 2)


@pytest.fixture(scope="session")
def one(both: tuple[Server, Server]) -> Server:
    return both[0]


@pytest.fixture(scope="session")
def events(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("events")


@pytest.fixture(scope="session")
def spark(events: Path) -> Iterator[SparkSession]:
    for name in [name for name in os.environ if name.startswith("AWS_")]:
        del os.environ[name]
    os.environ["AWS_EC2_METADATA_DISABLED"] = "true"
    settings: dict[str, object] = {
        "spark.ui.enabled": True,
        "spark.ui.port": 0,
        "spark.eventLog.enabled": True,
        "spark.eventLog.dir": events.as_uri(),
        "spark.eventLog.compress": False,
        "spark.sql.shuffle.partitions": 2,
        "spark.hadoop.fs.s3a.attempts.maximum": 1,
    }
    if folder := os.environ.get("LAKELOG_IVY"):
        settings["spark.jars.ivy"] = folder
    made = lakelog.spark.session(packages=["s3a"], **settings)
    yield made
    made.stop()


@pytest.fixture(scope="session", autouse=True)
def tables(both: tuple[Server, Server]) -> None:
    """The same table in both: files of a row each, which says whose it is."""
    for server in both:
        catalog = lakelog.open_catalog(URL, server.options())
        with catalog.writer("w", "db") as writer, writer.transaction() as tx:
            for number in range(FILES):
                tx.write("t", pa.table({"n": [number], "whose": [server.value]}))


def read(spark: SparkSession, server: Server, token: str = "") -> DataFrame:
    return lakelog.spark.read(spark, URL, "db", "t", storage_options=server.options(token))


def whose(frame: DataFrame) -> set[int]:
    rows = frame.select("n", "whose").collect()
    assert len(rows) == FILES
    return {row.whose for row in rows}


def shown(frame: DataFrame) -> str:
    execution = frame._jdf.queryExecution()
    trees = [execution.logical(), execution.analyzed(), execution.executedPlan()]
    return execution.toString() + "".join(tree.toJSON() for tree in trees)


def test_planning_asks_for_no_file(spark: SparkSession, one: Server) -> None:
    before = len(one.seen)
    frame = read(spark, one)
    assert not [asked for asked in one.since(before) if "/data/" in asked]
    before = len(one.seen)
    few = frame.where("n < 2")
    assert "FileScan parquet" in shown(few)
    assert lakelog.spark.files_read(few) == (2, FILES)
    assert not [asked for asked in one.since(before) if asked.endswith(".parquet")]
    before = len(one.seen)
    assert few.count() == 2
    asked = [each for each in one.since(before) if each.endswith(".parquet")]
    assert len({each.split()[1] for each in asked}) == 2
    assert len(asked) <= 2 * 4, asked
    assert not [each for each in one.since(before) if not each.endswith(".parquet")]


def test_each_read_has_its_own_store(spark: SparkSession, both: tuple[Server, Server]) -> None:
    """One bucket at two endpoints, in turn, at once, and while one is in Spark's cache."""
    frames = [read(spark, server) for server in both]
    for _ in range(2):
        assert [whose(frame) for frame in frames] == [{1}, {2}]
    union = frames[0].union(frames[1]).groupBy("whose").count().collect()
    assert {tuple(row) for row in union} == {(1, FILES), (2, FILES)}
    frames[0].cache()
    assert [whose(read(spark, server)) for server in both] == [{1}, {2}]
    frames[0].unpersist()
    for server in both:
        connectors = server.by_connector()
        assert set().union(*connectors.values()) == {f"key{server.value}"}
        assert len(connectors) == 1, "a connector is kept, for all files and queries"


def test_tokens_that_are_renewed(spark: SparkSession, one: Server) -> None:
    try:
        one.valid_token = SECRETS[1]
        old = read(spark, one, SECRETS[1])
        assert whose(old) == {1}
        one.valid_token = SECRETS[2]
        assert whose(read(spark, one, SECRETS[2])) == {1}
        with pytest.raises(Py4JJavaError, match=r"AccessDenied|403"):
            old.groupBy("whose").count().collect()
    finally:
        one.valid_token = None


def test_a_profile_is_asked_at_each_query(
    spark: SparkSession, one: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One frame, and tasks that write, go on with what the profile says at the time."""
    file = tmp_path / "credentials"
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(file))
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "config"))

    def renew(token: str) -> None:
        file.write_text(
            f"[etl]\naws_access_key_id = key1\naws_secret_access_key = {SECRETS[0]}\n"
            f"aws_session_token = {token}\n"
        )
        one.valid_token = token

    options = {"profile": "etl", "endpoint_url": one.proxy.endpoint_url}
    try:
        renew(SECRETS[2])
        frame = lakelog.spark.read(spark, URL, "db", "t", storage_options=options)
        assert whose(frame) == {1}
        renew(SECRETS[3])
        assert whose(frame) == {1}
        done = lakelog.spark.write(frame, URL, "db", "copy", writer="etl", storage_options=options)
        assert done.rows == FILES
    finally:
        one.valid_token = None
    file.unlink()
    with pytest.raises(Py4JJavaError, match="AccessDenied: No credentials for S3"):
        frame.count()


def test_a_session_says_it_for_both(spark: SparkSession, both: tuple[Server, Server]) -> None:
    """Without storage options lakelog, Spark's connector and the tasks go by `fs.s3a.*`, also when
    that changes."""
    for server in both:
        settings = {
            "endpoint": server.proxy.endpoint_url,
            "endpoint.region": "us-east-1",
            "path.style.access": "true",
            "access.key": f"key{server.value}",
            "secret.key": SECRETS[0],
        }
        for name, value in settings.items():
            spark.conf.set(f"fs.s3a.{name}", value)
        frame = lakelog.spark.read(spark, URL, "db", "t")
        assert whose(frame) == {server.value}
        lakelog.spark.write(frame, URL, "db", "copied", writer="session", mode="overwrite")
        lakelog.spark.attach(spark, "by_session", URL)
        assert whose(spark.table("by_session.db.copied")) == {server.value}
        assert "FileScan parquet" in shown(frame)
    assert whose(read(spark, both[0])) == {1}  # its own options win
    for name in settings:
        spark.conf.unset(f"fs.s3a.{name}")


def test_files_are_written_in_their_places(spark: SparkSession, one: Server) -> None:
    before = len(one.seen)
    frame = spark.range(0, 1000, 1, 4).selectExpr("id", "id % 3 AS part")
    options = one.options()
    done = lakelog.spark.write(
        frame, URL, "db", "written", writer="s3a", partition_by=["part"], storage_options=options
    )
    assert len(done.files) == 12
    requests = [request for request in one.seen[before:] if "/_probe/" not in request.path]
    put = [each.path for each in requests if each.method == "PUT" and each.path.endswith("parquet")]
    assert sorted(put) == sorted(f"/{BUCKET}/x/s3a/db/{path}" for path in done.files)
    assert not [each for each in requests if "x-amz-copy-source" in each.headers]
    assert not [each for each in requests if each.method in ("DELETE", "POST")]
    back = lakelog.spark.read(spark, URL, "db", "written", storage_options=options)
    assert back.selectExpr("sum(id)", "count(part)").collect() == [(499500, 1000)]
    lakelog.spark.attach(spark, "lake", URL, writer="s3a-sql", storage_options=options)
    spark.sql("INSERT INTO lake.db.written VALUES (1000, 1)")
    assert spark.sql("SELECT max(id) FROM lake.db.written").collect() == [(1000,)]


def test_connectors_that_nobody_uses_are_closed(spark: SparkSession, one: Server) -> None:
    """With more identities than are kept; a frame whose connector is gone gets a new one."""
    first = read(spark, one)
    assert whose(first) == {1}
    for number in range(10):
        options = one.options() | {"key": f"other{number}"}
        other = lakelog.spark.read(spark, URL, "db", "t", storage_options=options)
        assert other.where("n = 1").count() == 1
    before = one.by_connector().keys()
    assert first.where("n < 3").count() == 3
    assert len(one.by_connector().keys() - before) == 1


def test_what_the_document_says(spark: SparkSession, one: Server) -> None:
    """Its examples of S3, but for where the store is and who one is there."""
    section = DOCUMENT.read_text().split("\n## S3\n")[1].split("\n## ")[0]
    blocks = re.findall(r"^```py\n(.*?)^```", section, re.M | re.S)
    assert blocks
    space: dict[str, object] = {}
    for block in blocks:
        text = block.replace("https://s3.example.org", one.proxy.endpoint_url)
        text = text.replace("s3://bucket/lake", URL).replace("the-key", "key1")
        exec(text.replace("the-secret", SECRETS[0]), space)
    assert "done" in space


def test_packages_come_only_at_the_start(spark: SparkSession) -> None:
    assert lakelog.spark.session(packages=["s3a"]).sparkContext is spark.sparkContext
    with pytest.raises(UsageError, match=r"without org\.example:other:1"):
        lakelog.spark.session(packages=["s3a", "org.example:other:1"])


@pytest.mark.slow("eight jobs, of which most start Python processes")
def test_no_secret_shows(
    spark: SparkSession, both: tuple[Server, Server], events: Path, tmp_path: Path
) -> None:
    """The last test: in plans, in the UI and its API, and in the event log of all that ran."""
    frame = read(spark, both[0], SECRETS[1]).where("n < 3")
    source = spark.read.format("lakelog").options(database="db", table="t")
    source = source.option("storageOptions", json.dumps(both[0].options(SECRETS[1])))
    for each in (frame, source.load(URL), source.option("native", "false").load(URL)):
        each.collect()
        assert not found(shown(each) + repr(each))
    _write_and_follow(spark, both[0].options(SECRETS[1]), tmp_path / "progress")
    base = spark.sparkContext.uiWebUrl
    api = f"api/v1/applications/{spark.sparkContext.applicationId}"
    pages = ["environment/", "SQL/", "jobs/", "stages/", f"{api}/environment"]
    for page in (*pages, f"{api}/sql?details=true&length=1000"):
        with direct.open(urllib.request.Request(f"{base}/{page}"), timeout=60) as answer:
            text = answer.read().decode()
        assert len(text) > 1000
        assert not found(text), page
    spark.stop()
    (log,) = [path for path in events.rglob("*") if path.is_file() and "events" in path.name]
    text = log.read_text()
    assert "SparkListenerSQLExecutionStart" in text
    assert not found(text)


def _write_and_follow(spark: SparkSession, options: dict[str, Any], progress: Path) -> None:
    """What the data source is told by its options for writes, changes and streams."""

    def about(each: Any, **more: str) -> Any:
        told = {"database": "db", "table": "told", "storageOptions": json.dumps(options)} | more
        return each.format("lakelog").options(**told)

    about(spark.range(3).write, writer="told").mode("append").save(URL)
    catalog = lakelog.open_catalog(URL, options)
    since = catalog.snapshot("db").token
    about(spark.range(3, 5).write, writer="told").mode("append").save(URL)
    changes = lakelog.spark.changes(spark, URL, "db", "told", since, storage_options=options)
    assert changes.count() == 2
    rows = about(spark.readStream, since=since).load(URL)
    assert not found(shown(changes) + repr(changes) + repr(rows))
    out = about(rows.writeStream, table="out", writer="out", checkpointLocation=str(progress))
    query = out.trigger(availableNow=True).start(URL)
    if not has(STREAMS):
        with pytest.raises(StreamingQueryException, match=refusal(STREAMS)) as refused:
            query.awaitTermination()
        assert not found(str(refused.value))
        return
    query.awaitTermination()
    assert catalog.snapshot("db").to_arrow("out").num_rows == 2
    told = [str(each) for each in query.recentProgress]
    told += [
        path.read_text() for path in progress.rglob("*") if path.suffix != ".crc" and path.is_file()
    ]
    told.append(query._jsq.explainInternal(True))
    assert any("StreamingQuery" in each or "lakelog" in each for each in told)
    assert not found("".join(told))


def found(text: str) -> list[str]:
    return [secret for secret in SECRETS if secret in text]
