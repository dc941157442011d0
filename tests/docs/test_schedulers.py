"""The nightly job as docs/maintenance.md shows it for schedulers: each of them runs it."""

from __future__ import annotations

import configparser
import os
import re
import shlex
import shutil
import subprocess
import sys
import types
from pathlib import Path

import lakelog
import pyarrow as pa
import pytest
import yaml
from lakelog import errors

TEXT = (Path(__file__).parents[2] / "docs" / "maintenance.md").read_text()
URL = "s3://lake/catalog"
METRICS = "/var/lib/node_exporter/lakelog.prom"


def block(kind: str) -> str:
    [found] = re.findall(rf"^```{kind}\n(.*?)^```", TEXT, re.M | re.S)
    return found


@pytest.fixture
def lake(tmp_path) -> Path:
    catalog = lakelog.open_catalog(tmp_path / "lake")
    with catalog.writer("oslo", "weather") as writer:
        for hour in range(6):
            with writer.transaction() as tx:
                tx.write("hourly", pa.table({"hour": [hour]}))
    return tmp_path / "lake"


def files(lake: Path) -> int:
    return lakelog.open_catalog(lake).snapshot("weather").files("hourly").num_rows


def run(command: str | list[str], lake: Path, **more: str) -> subprocess.CompletedProcess:
    """Runs a command here, on a lake of this test's."""
    bin_folder = Path(sys.executable).parent
    environment = os.environ | {"PATH": f"{bin_folder}{os.pathsep}{os.environ['PATH']}"} | more
    place = str(lake)
    if isinstance(command, str):
        command = command.replace(METRICS, str(lake.parent / "m.prom")).replace(URL, place)
        return subprocess.run(
            ["sh", "-c", command], env=environment, capture_output=True, text=True, check=False
        )
    command = [word.replace(URL, place) for word in command]
    return subprocess.run(command, env=environment, capture_output=True, text=True, check=False)


def test_cron(lake):
    *when, command = block("cron").strip().split(" ", 5)
    assert len(when) == 5
    done = run(command, lake)
    assert done.returncode == 0, done.stderr
    assert files(lake) == 1
    assert "lakelog_live_files" in (lake.parent / "m.prom").read_text()


def test_systemd(lake, tmp_path):
    service, timer = block("ini").split("# lakelog-maintain.timer\n")
    parsed = configparser.ConfigParser()
    parsed.optionxform = str
    parsed.read_string(service)
    name, _, url = parsed["Service"]["Environment"].partition("=")
    program, *words = shlex.split(parsed["Service"]["ExecStart"])
    assert (name, Path(program).name) == ("LAKELOG_URL", "lakelog")
    done = run(["lakelog", *words], lake, LAKELOG_URL=url.replace(URL, str(lake)))
    assert done.returncode == 0, done.stderr
    assert files(lake) == 1
    parsed.read_string(timer)
    if shutil.which("systemd-analyze"):
        when = parsed["Timer"]["OnCalendar"]
        done = subprocess.run(["systemd-analyze", "calendar", when], check=False)
        assert done.returncode == 0


def test_kubernetes(lake):
    job = yaml.safe_load(block("yaml"))
    spec = job["spec"]["jobTemplate"]["spec"]
    assert (job["kind"], job["spec"]["concurrencyPolicy"]) == ("CronJob", "Forbid")
    [container] = spec["template"]["spec"]["containers"]
    fails, _ = spec["podFailurePolicy"]["rules"]
    assert fails["onExitCodes"]["containerName"] == container["name"]
    codes = {*fails["onExitCodes"]["values"]}
    retried = {errors.ConflictError, errors.StorageError, errors.CommitOutcomeUnknown}
    never = {errors.UsageError, errors.NotFoundError, errors.CorruptError}
    assert codes == {1, 70} | {kind.exit_code for kind in never}
    assert not codes & {kind.exit_code for kind in retried}
    assert spec["template"]["spec"]["restartPolicy"] == "Never", "a failure policy asks for it"
    done = run(container["command"], lake)
    assert done.returncode == 0, done.stderr
    assert files(lake) == 1


def test_airflow(lake, monkeypatch):
    """Of Airflow there is no more here than what its operator is given."""
    made = []
    module = types.ModuleType("airflow.providers.standard.operators.bash")
    module.BashOperator = lambda **given: made.append(given)
    names = module.__name__.split(".")
    for end in range(1, len(names)):
        monkeypatch.setitem(sys.modules, ".".join(names[:end]), types.ModuleType(names[end - 1]))
    monkeypatch.setitem(sys.modules, module.__name__, module)
    exec(compile(block("py"), "maintenance.md", "exec"), {})
    [given] = made
    first, second = run(given["bash_command"], lake), run(given["bash_command"], lake)
    assert (first.returncode, second.returncode) == (0, given["skip_on_exit_code"])
    assert first.stdout.splitlines()[-1].startswith('{"step":')
    assert files(lake) == 1
