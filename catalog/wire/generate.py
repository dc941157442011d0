"""Run protoc over `proto/*.proto`: `python -m lakelog.catalog.wire.generate [FOLDER]`.

Needs the `dev` extra (grpcio-tools bundles protoc). Without FOLDER the committed files are
rewritten.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path


def generate(target: Path) -> None:
    """Write `*_pb2.py` and `*_pb2.pyi` for every file of `proto/` into `target`."""
    from grpc_tools import protoc

    source = Path(__file__).resolve().parents[2] / "proto"
    files = sorted(path.name for path in source.glob("*.proto"))
    status = protoc.main(
        ["protoc", f"-I{source}", f"--python_out={target}", f"--pyi_out={target}", *files]
    )
    if status:
        raise SystemExit(f"protoc failed with status {status}")
    for path in target.glob(
        "*_pb2.py*"
    ):  # protoc imports its own modules as if they were top-level
        text = path.read_text()
        path.write_text(re.sub(r"^import (lakelog_\w+_pb2)", r"from . import \1", text, flags=re.M))


if __name__ == "__main__":
    generate(Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).parent)
