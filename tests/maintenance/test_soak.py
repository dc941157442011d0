"""Eight writers, readers and the job of maintenance at once; ten minutes: `make soak-maintain`."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

sys.path.append(str(Path(__file__).parent))

from soak import place, soak


@pytest.mark.slow("processes that work for a while, and files that must grow old")
def test_no_row_is_lost_and_no_file_is_left(tmp_path):
    with place("local", str(tmp_path)) as (url, options):
        print(soak(url, options, str(tmp_path), seconds=8, floor_s=2.5, kill_every_s=4))
