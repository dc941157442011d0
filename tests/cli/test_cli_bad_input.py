"""Every wrong input: the right error and exit code, the object named, a hint, no traceback."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import lakelog
import pyarrow as pa
import pytest
from cli_cases import both_copies
from lakelog import errors
from lakelog.catalog.read.log_reader import LogReader
from lakelog.catalog.wire import lakelog_transaction_pb2 as wire
from lakelog.cli.errors import Redactor, report
from lakelog.cli.main import _run
from lakelog.store import open_store
from lakelog.testing.logs import LogBuilder, add_action, schema_action


@pytest.fixture
def refused(cli, capsys):
    """Call a command that must fail with one error: its message and hint, checked for manners."""

    def call(kind: type[errors.LakelogError], code: int, *args: object) -> str:
        words = [str(arg) for arg in args]
        with pytest.raises(errors.LakelogError) as raised:
            _run(words, Redactor(), own_process=False)
        assert type(raised.value) is kind
        result = cli(*args)
        assert result.code == code == kind.exit_code
        assert result.out == ""
        lines = result.err.splitlines()
        assert lines[0].startswith("lakelog: error: ")
        assert "Traceback" not in result.err
        assert len(lines) == 2, result.err
        assert lines[1].startswith("hint: "), result.err
        return result.err

    return call


@pytest.mark.parametrize("url", ["ftp://host/x", "s4://bucket/x", "lake://x"])
def test_an_unknown_scheme(refused, url):
    err = refused(errors.InvalidUrl, 2, "tables", url, "weather")
    assert f"{url.split(':')[0]}://" in err
    assert "s3://" in err


@pytest.mark.parametrize("command", ["databases", "tables", "log", "doctor"])
def test_no_catalog(refused, tmp_path, command):
    database = () if command in ("databases", "doctor") else ("weather",)
    assert str(tmp_path) in refused(errors.NotACatalog, 3, command, tmp_path, *database)
    (tmp_path / "some" / "files").mkdir(parents=True)
    (tmp_path / "some" / "files" / "x.parquet").write_bytes(b"x")
    refused(errors.NotACatalog, 3, command, tmp_path, *database)


def test_an_unknown_database(refused, weather):
    err = refused(errors.DatabaseNotFound, 3, "tables", weather, "whether")
    assert "'whether'" in err
    assert "weather" in err.splitlines()[1]


@pytest.mark.parametrize("command", ["files", "schema", "scan"])
def test_an_unknown_table(refused, weather, command):
    err = refused(errors.TableNotFound, 3, command, weather, "weather", "daily")
    assert "'daily'" in err
    assert "hourly, stations" in err


@pytest.mark.parametrize("command", ["tables", "log", "show", "checkpoint", "gc"])
def test_an_unknown_writer(refused, weather, command):
    err = refused(errors.WriterNotFound, 3, command, weather, "weather", "--writer", "LGA")
    assert "'LGA'" in err
    assert "EWR, JFK" in err


def test_a_writer_that_the_point_in_time_has_not(refused, weather):
    at = ("--as-of", "2013-06-30T02:00Z")
    refused(errors.WriterNotFound, 3, "tables", weather, "weather", "--writer", "JFK", *at)


@pytest.mark.parametrize("command", ["tables", "show"])
def test_an_unknown_revision(refused, weather, command):
    if command == "tables":
        args = ("--as-of", "EWR=99")
    else:
        args = ("--writer", "EWR", "--revision", "99")
    assert "99" in refused(errors.RevisionNotFound, 3, command, weather, "weather", *args)


def test_a_time_before_the_first_commit(refused, weather):
    at = ("--as-of", "2013-06-29T23:00-05:00")
    refused(
        errors.TimeBeforeFirstCommit, 3, "tables", weather, "weather", "--as-of", "1999-01-01T00Z"
    )
    assert refused(
        errors.TimeBeforeFirstCommit, 3, "tables", weather, "weather", *at[:1], "2013-06-30T00Z"
    )


@pytest.mark.parametrize("text", ["2013-06-30", "2013-06-30T12:00"])
def test_a_time_without_a_zone(refused, weather, text):
    err = refused(errors.NaiveTime, 2, "tables", weather, "weather", "--as-of", text)
    assert text in err
    assert "Z" in err.splitlines()[1]


@pytest.mark.parametrize("token", ["ll1-", "ll1-AAAA", "ll1-!!!", "ll1-Cgd3ZWF0aGVyEhEK"])
def test_a_malformed_token(refused, weather, token):
    assert token in refused(errors.InvalidToken, 2, "tables", weather, "weather", "--as-of", token)


def test_a_token_that_lost_a_character(cli, refused, weather):
    token = cli("tables", weather, "weather").out.split()[-1]
    for broken in (token[:-1], token[:20] + token[21:]):
        refused(errors.InvalidToken, 2, "tables", weather, "weather", "--as-of", broken)


@pytest.mark.parametrize("name", ["_x", "a b", "x" * 65, "ü"])
def test_a_name_that_can_be_no_database(refused, weather, name):
    assert name in refused(errors.InvalidName, 2, "tables", weather, name)


def test_a_parquet_file_that_is_none(refused, tmp_path):
    file = tmp_path / "x.parquet"
    write = ("write", tmp_path / "cat", "db", "t", file, "--writer", "W")
    for body in (b"", b"hello", b"PAR1" + bytes(20) + b"PAR1", b"x" * 1000):
        file.write_bytes(body)
        assert "x.parquet" in refused(errors.InvalidParquet, 2, *write)
    external = tmp_path / "y.parquet"
    external.write_bytes(b"hello")
    add = ("add", tmp_path / "cat", "db", "t", external, "--writer", "W")
    assert "y.parquet" in refused(errors.InvalidParquet, 2, *add)


@pytest.mark.parametrize(
    ("name", "body", "column", "error"),
    [
        ("x.jsonl", '{"empty": {}}', "empty", errors.InvalidSchema),
        ("x.csv", "twice,twice\n1,2\n", "twice", errors.UsageError),
    ],
)
def test_a_schema_that_parquet_can_not_hold(refused, tmp_path, name, body, column, error):
    file = tmp_path / name
    file.write_text(body)
    write = ("write", tmp_path / "cat", "db", "t", file, "--writer", "W")
    assert f"'{column}'" in refused(error, 2, *write)
    assert not list((tmp_path / "cat").rglob("*.parquet"))


def test_a_path_outside_in_a_log(refused, own_weather):
    """A log that names a file of somebody else is refused whole, before anything is opened."""
    store = open_store(own_weather)
    builder = LogBuilder("EWR", "weather")
    builder.state = LogReader(store, "EWR", "weather").load()

    def outside(message: wire.Transaction) -> None:
        message.actions[1].add.path = "../../JFK/weather/data/x.parquet"

    name, body = builder.encode(
        schema_action("new"), add_action("data/x.parquet", "new"), change=outside
    )
    store.put(f"EWR/weather/transactions/{name}", body)
    assert name in refused(errors.CorruptObject, 5, "tables", own_weather, "weather")


def cut(body: bytes) -> bytes:
    return body[: len(body) // 2]


def flipped(body: bytes) -> bytes:
    return body[:80] + bytes([body[80] ^ 1]) + body[81:]


@pytest.mark.parametrize("damage", [cut, flipped, lambda body: b""], ids=["cut", "flip", "empty"])
@pytest.mark.parametrize("command", ["tables", "files", "schema", "scan", "show"])
def test_a_damaged_transaction(refused, own_weather, log_object, damage, command):
    path = log_object("JFK", 2)
    for each in both_copies(path):
        each.write_bytes(damage(each.read_bytes()))
    table = ("stations",) if command in ("files", "schema", "scan") else ()
    key = f"JFK/weather/transactions/{path.name}"
    at = (key,) if command == "show" else ("weather", *table)
    err = refused(errors.CorruptObject, 5, command, own_weather, *at)
    assert key in err


def test_a_damaged_checkpoint_is_a_warning_while_the_log_is_whole(cli, own_weather, log_object):
    path = log_object("EWR", 2, "checkpoint")
    path.write_bytes(cut(path.read_bytes()))
    result = cli("tables", own_weather, "weather")
    assert result.code == 0
    assert result.err.startswith("lakelog: warning: ")
    assert path.name in result.err
    assert result.err.count("\n") == 1


def test_a_lost_transaction(refused, own_weather, log_object):
    for path in both_copies(log_object("JFK", 1)):
        path.unlink()
    err = refused(errors.MissingTransaction, 5, "tables", own_weather, "weather")
    assert "JFK/weather" in err
    assert "Readable" in err


def test_a_lost_and_a_damaged_data_file(cli, refused, own_weather):
    (file,) = cli("files", own_weather, "weather", "stations", "-o", "json").json["files"]
    path = Path(file["url"])
    body = path.read_bytes()
    path.write_bytes(body[:-1])
    scan = ("scan", own_weather, "weather", "stations")
    assert file["path"] in refused(errors.CorruptObject, 5, *scan)
    path.unlink()
    assert file["path"] in refused(errors.ObjectNotFound, 3, *scan)


@pytest.mark.parametrize("command", ["tables", "files", "scan", "log"])
def test_an_unknown_required_feature(cli, refused, own_weather, command):
    store = open_store(own_weather)
    builder = LogBuilder("EWR", "weather")
    builder.state = LogReader(store, "EWR", "weather").load()
    upgrade = wire.Upgrade(required_reader_features=["time-machine"])
    name, body = builder.encode(wire.Action(upgrade=upgrade))
    store.put(f"EWR/weather/transactions/{name}", body)
    if command == "log":
        result = cli("log", own_weather, "weather", "--writer", "EWR")
        assert result.code == 5
        assert "time-machine" in result.err
        assert "2013" in result.out, "the log stays listable"
        return
    table = ("hourly",) if command != "tables" else ()
    err = refused(errors.UnsupportedFeature, 5, command, own_weather, "weather", *table)
    assert "time-machine" in err
    assert "Upgrade" in err
    before = cli("tables", own_weather, "weather", "--as-of", "EWR=3,JFK=2")
    assert before.code == 0


def test_two_commits_on_one_revision(cli, refused, own_weather, log_object):
    path = log_object("JFK", 2)
    twin = path.with_name(path.name.replace(path.name.split(".")[1], "deadbeef"))
    shutil.copy(path, twin)
    err = refused(errors.ForkError, 4, "tables", own_weather, "weather")
    assert path.name in err
    assert twin.name in err
    told = cli("log", own_weather, "weather", "-o", "json")  # as far as it can be told
    assert told.json["commits"]
    assert told.json["token"] is None


@pytest.mark.parametrize(
    "args",
    [
        ("tabels", "x"),
        ("--output", "json"),
        ("tables",),
        ("tables", "x"),
        ("tables", "x", "db", "extra"),
        ("tables", "x", "db", "--limt", "3"),
        ("log", "x", "db", "--limit", "many"),
        ("log", "x", "db", "--limit", "-1"),
        ("tables", "x", "db", "-o", "xml"),
        ("tables", "x", "db", "--as-of", "yesterday"),
        ("tables", "x", "db", "--option", "nonsense"),
        ("write", "x", "db", "t", "f.csv"),
        ("write", "x", "db", "t", "--writer", "W"),
        ("write", "x", "db", "t", ".", "--writer", "W"),
        ("prune", "x", "db", "--keep-days", "0"),
        ("show", "x", "a/b", "--revision", "3"),
    ],
)
def test_a_wrong_command_line(refused, args):
    refused(errors.UsageError, 2, *args)


def test_a_near_miss_is_suggested(refused):
    assert "Did you mean tables?" in refused(errors.UsageError, 2, "tabels", "x")


def with_options(cli, moto, *args):
    """Call a command with the server's options on its command line."""
    given = {
        name: value if isinstance(value, str) else json.dumps(value)
        for name, value in moto.storage_options.items()
    }
    return cli(*args, *[f"--option={name}={value}" for name, value in given.items()])


@pytest.mark.s3
@pytest.mark.parametrize("command", ["tables", "checkpoint"])
def test_a_missing_bucket(cli, moto, command):
    url = "s3://no-such-bucket-anywhere/catalog"
    result = with_options(cli, moto, command, url, "weather", "--writer", "EWR")
    assert result.code == 3
    assert result.err.startswith("lakelog: error: the bucket doesn't exist")
    assert url in result.err
    assert "\nhint: Check its name" in result.err
    assert "Traceback" not in result.err


def test_every_kind_of_error_has_a_code_and_a_hint(capsys):
    kinds = [kind for kind in vars(errors).values() if isinstance(kind, type)]
    kinds = [kind for kind in kinds if issubclass(kind, errors.LakelogError)]
    more = {
        errors.ForkError: {"keys": ("a", "b")},
        errors.CommitOutcomeUnknown: {"key": "a", "transaction_id": "00"},
    }
    assert len(kinds) > 30
    for kind in kinds:
        if kind is not errors.LakelogError:
            assert 2 <= report(kind("what", **more.get(kind, {})), str) <= 7
            assert "\nhint: " in capsys.readouterr().err


@pytest.mark.s3
def test_options_of_the_command_line_reach_the_store(cli, moto):
    url = f"s3://{moto.make_bucket()}/catalog"
    catalog = lakelog.open_catalog(url, moto.storage_options)
    with catalog.writer("W", "db") as writer, writer.transaction() as tx:
        tx.write("t", pa.table({"a": [1]}))
    assert with_options(cli, moto, "scan", url, "db", "t", "-o", "csv").out == "a\n1\n"


def test_an_option_that_may_stand_alone_does_not_swallow_the_url(cli, weather):
    for command in ("gc", "prune"):
        keep = ("--keep-days", "1") if command == "prune" else ()
        done = cli(command, "--execute", weather, "weather", "--writer", "EWR", *keep)
        assert (done.code, done.err) == (0, "")
        assert done.out.startswith(f"{command} of EWR/weather: nothing to delete")
    done = cli("gc", weather, "--execute", "weather", "--writer", "EWR")
    assert (done.code, done.err) == (0, "")


@pytest.mark.s3
@pytest.mark.parametrize(
    ("option", "name"),
    [
        ("endpoint=http://127.0.0.1:9", "endpoint"),
        ("client_kwargs.regio=x", "regio"),
        ("config_kwargs.nope=1", "nope"),
    ],
)
def test_a_storage_option_that_there_is_not(refused, option, name):
    err = refused(errors.UsageError, 2, "databases", "s3://bucket/x", "--option", option)
    assert f"the s3 backend has no storage option '{name}'" in err
    assert "endpoint_url, key, secret" in err
    assert "__init__" not in err


@pytest.mark.parametrize(
    ("option", "here"),
    [
        ("AWS_REGION=x", "client_kwargs={'region_name': ...}"),
        ("aws_access_key_id=x", "key"),
        ("s3.secret-access-key=x", "secret"),
        ("AWS_SESSION_TOKEN=x", "token"),
        ("endpoint=http://127.0.0.1:9", "endpoint_url"),
    ],
)
def test_names_of_other_tools_are_translated(refused, option, here):
    name, _, value = option.partition("=")
    given = json.dumps({name: value})
    with pytest.MonkeyPatch.context() as patched:
        patched.setenv("LAKELOG_STORAGE_OPTIONS", given)
        err = refused(errors.UsageError, 2, "databases", "s3://bucket/x")
    assert f"It is {here} here." in err


@pytest.mark.parametrize("name", ["a.csv", "a.jsonl", "a.parquet", "a.arrow"])
def test_a_file_without_permission(cli, tmp_path, monkeypatch, name):
    """Root may read all, so the error is made."""
    (tmp_path / name).write_text("{}")
    opened = Path.open

    def refuse(self, *args, **options):
        if self.name == name:
            raise PermissionError(13, "Permission denied")
        return opened(self, *args, **options)

    monkeypatch.setattr(Path, "open", refuse)
    done = cli("write", tmp_path / "lake", "db", "t", tmp_path / name, "--writer", "W")
    assert done.code == 6
    assert f"{name} can't be read: Permission denied" in done.err
    assert "delimiter" not in done.err
