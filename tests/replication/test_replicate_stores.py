"""Between an object store and a disk, there and back; and a store without put-if-absent."""

from __future__ import annotations

import lakelog
import pyarrow as pa
import pytest
from lakelog.replication import replicate

D = "weather"


def fill(catalog, first, count):
    tokens = []
    with catalog.writer("oslo", D) as writer:
        for number in range(first, first + count):
            with writer.transaction() as tx:
                tx.write("t", pa.table({"n": [number, number + 1]}), partition=f"p={number % 2}")
            if number % 3 == 2:
                with writer.transaction() as tx:
                    tx.delete("t", f"n = {number}", mode="rows")
            tokens.append(catalog.snapshot(D).token)
    return tokens


def rows(catalog, token):
    return sorted(catalog.snapshot(D, token).to_arrow("t")["n"].to_pylist())


@pytest.mark.parametrize("server", ["moto", "rclone_s3"])
def test_from_a_disk_to_s3_and_back(server, request, tmp_path):
    s3 = request.getfixturevalue(server)
    home = lakelog.open_catalog(str(tmp_path / "home"))
    url = f"s3://{s3.make_bucket()}/copies/one"
    away = lakelog.open_catalog(url, s3.storage_options)
    tokens = fill(home, 0, 7)
    assert replicate(home, away).tokens == {D: tokens[-1]}
    tokens += fill(home, 7, 3)
    report = replicate(home, away)
    assert report.tokens == {D: tokens[-1]}
    back = lakelog.open_catalog(str(tmp_path / "back"))
    assert replicate(away, back).tokens == report.tokens
    for token in tokens:
        wanted = rows(home, token)
        assert rows(away, token) == wanted
        assert rows(back, token) == wanted
    assert not any(log.copied.commits for log in replicate(away, home).logs)
