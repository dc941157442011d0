"""Credentials given to a command never come out of it again, whatever goes wrong."""

from __future__ import annotations

import json

import pytest
from lakelog.cli.errors import Redactor, begin, note_error, report
from lakelog.errors import StorageError
from lakelog.testing.fault_proxy import Reply, fault_proxy
from lakelog.testing.servers import moto_server

CANARY = "c4n4ry-of-the-coal-mine"


def test_a_redactor_hides_values_at_any_depth_and_keeps_what_helps():
    redact = Redactor()
    redact.learn(
        {
            "key": "key-" + CANARY,
            "client_kwargs": {"aws_session_token": "token-" + CANARY, "region_name": "eu-west-1"},
            "headers": ["one-" + CANARY],
            "endpoint_url": "http://127.0.0.1:9000",
            "anon": True,
            "short": "abc",
        }
    )
    shown = redact(
        f"key-{CANARY} token-{CANARY} one-{CANARY} http://127.0.0.1:9000 eu-west-1 abc True"
    )
    assert shown == "*** *** *** http://127.0.0.1:9000 eu-west-1 abc True"


def test_an_unexpected_error_is_redacted_too(capsys, monkeypatch):
    redact = Redactor()
    redact.learn({"secret": CANARY})
    monkeypatch.setenv("LAKELOG_TRACEBACK", "1")
    with pytest.raises(RuntimeError) as raised:
        raise RuntimeError(f"client says {CANARY}")
    assert report(raised.value, redact) == 70
    err = capsys.readouterr().err
    assert "Traceback" in err
    assert "client says ***" in err
    assert CANARY not in err


def test_part_of_a_command_that_failed_is_redacted_and_told_once(capsys):
    redact = begin()
    redact.learn({"secret": CANARY})
    error = StorageError(f"client says {CANARY}", key="w/db", hint="Try again")
    note_error(error)
    assert report(error, redact) == 6
    assert capsys.readouterr().err == (
        "lakelog: error: client says *** [w/db]\n"
        "hint: Try again\n"
        "lakelog: error: Not everything was done: see above\n"
    )
    assert report(StorageError("another"), redact) == 6
    assert "another" in capsys.readouterr().err


@pytest.mark.parametrize(
    "args",
    [
        ("tables", "URL", "db", "--optoin", f"secret={CANARY}"),
        ("tables", "URL", "db", f"--optoin=secret={CANARY}"),
        (f"--option=secret={CANARY}", "tables", "URL", "db"),
        ("tables", "URL", "db", "--option", CANARY),
        ("tables", "URL", "db", "--option", f"={CANARY}"),
        ("tables", "URL", "db", "--option", f"secret={CANARY}", "--limit", "x"),
        ("tables", f"s3://user:{CANARY}@bucket/x", "db"),
        ("tables", f"ftp://user:{CANARY}@host/x", "db"),
        ("nothing", f"--option=secret={CANARY}"),
    ],
)
@pytest.mark.parametrize("traceback", ["0", "1"])
def test_a_wrong_command_line_does_not_echo_it(cli, tmp_path, monkeypatch, args, traceback):
    monkeypatch.setenv("LAKELOG_TRACEBACK", traceback)
    result = cli(*[str(tmp_path) if arg == "URL" else arg for arg in args])
    assert result.code in (2, 3)
    assert CANARY not in result.out + result.err


@pytest.mark.parametrize("env", [CANARY, f'["{CANARY}"]', f'{{"secret": "{CANARY}"'])
def test_a_broken_environment_is_not_echoed(cli, tmp_path, monkeypatch, env):
    monkeypatch.setenv("LAKELOG_STORAGE_OPTIONS", env)
    monkeypatch.setenv("LAKELOG_TRACEBACK", "1")
    result = cli("tables", tmp_path, "db")
    assert result.code == 2
    assert CANARY not in result.out + result.err


@pytest.fixture
def planted(moto, monkeypatch):
    """A server that throws back whatever it was told, and options full of canaries."""

    def rule(request):
        told = " ".join(f"{name}={value}" for name, value in request.headers.items())
        body = f"<Error><Code>AccessDenied</Code><Message>you sent {told}</Message></Error>"
        return Reply(403, body.encode(), {"Content-Type": "application/xml"})

    with fault_proxy(moto.endpoint_url) as proxy:
        proxy.rule = rule
        options = {"key": f"key-{CANARY}", "endpoint_url": proxy.endpoint_url}
        monkeypatch.setenv("LAKELOG_STORAGE_OPTIONS", json.dumps(options))
        yield ("--option", f"secret=secret-{CANARY}", "--option", f"token=token-{CANARY}")


COMMANDS = [
    ("databases", "URL"),
    ("tables", "URL", "db"),
    ("log", "URL", "db"),
    ("show", "URL", "W/db/transactions/998-999999999999-0.00000000.transaction"),
    ("doctor", "URL", "db", "--writer", "W"),
    ("checkpoint", "URL", "db", "--writer", "W"),
    ("gc", "URL", "db", "--writer", "W"),
    ("maintain", "URL", "db", "--execute"),
    ("policy", "show", "URL"),
    ("rebuild", "URL", "db", "--writer", "W"),
]


@pytest.mark.s3
@pytest.mark.parametrize("args", COMMANDS, ids=[args[0] for args in COMMANDS])
def test_no_command_shows_a_credential(cli, planted, monkeypatch, args):
    monkeypatch.setenv("LAKELOG_TRACEBACK", "1")
    result = cli(*["s3://bucket/catalog" if arg == "URL" else arg for arg in args], *planted)
    assert result.code == 6
    assert "lakelog: error: " in result.err
    assert CANARY not in result.out + result.err


@pytest.mark.s3
def test_wrong_credentials(cli, monkeypatch):
    with moto_server({"INITIAL_NO_AUTH_ACTION_COUNT": "0"}) as strict:
        options = strict.storage_options | {"secret": f"secret-{CANARY}"}
        monkeypatch.setenv("LAKELOG_STORAGE_OPTIONS", json.dumps(options))
        for command in ("tables", "log", "checkpoint"):
            result = cli(command, "s3://bucket/catalog", "db", "--writer", "W")
            assert result.code == 6
            first, *hint = result.err.splitlines()
            assert first.startswith("lakelog: error: ")
            assert "[s3://bucket/catalog]" in first or "[W/db/" in first
            assert len(hint) == 1
            assert "check the credentials" in hint[0]
            assert CANARY not in result.err
