"""A collector: `pipeline_collector.py AIRPORT URL FOLDER` commits the weather of an airport, month
by month. After two months it waits until somebody reads along, and then goes on slowly."""

from __future__ import annotations

import sys
import time
from pathlib import Path

import lakelog
from lakelog.cli.commands.demo import month_of, source

PAUSE_S = 0.3

if __name__ == "__main__":
    airport, url, folder = sys.argv[1:]
    rows = source()
    with lakelog.open_catalog(url).writer(airport, "weather", checkpoint_every=5) as writer:
        for month in range(1, 13):
            with writer.transaction() as tx:
                tx.write("hourly", month_of(rows, airport, month), partition=f"2013-{month:02d}")
            while month == 2 and not Path(folder, "reads along").exists():
                time.sleep(0.05)
            time.sleep(PAUSE_S * (month > 2))
