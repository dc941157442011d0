"""The generated protobuf code is that of proto/, and no released number has changed its meaning."""

from __future__ import annotations

from pathlib import Path

from google.protobuf.descriptor_pb2 import DescriptorProto
from lakelog.catalog import wire
from lakelog.catalog.wire.generate import generate
from readable import FILES, descriptor_lines

ROOT = Path(__file__).parents[2]


def test_the_generated_code_is_current(tmp_path: Path) -> None:
    generate(tmp_path)
    committed = Path(wire.__file__).parent
    fresh = {path.name: path.read_text() for path in tmp_path.iterdir()}
    assert len(fresh) == 12
    stale = [name for name, text in fresh.items() if (committed / name).read_text() != text]
    assert not stale, f"run `python -m lakelog.catalog.wire.generate`: {stale}"


def test_no_released_number_has_changed_its_meaning() -> None:
    golden = (ROOT / "fixtures" / "v1" / "descriptor.txt").read_text().splitlines()
    current = descriptor_lines()
    gone = [line for line in golden if line not in current and not _is_reserved(line)]
    assert not gone, f"changed, or given up without `reserved`: {gone}"
    new = [line for line in current if line not in golden]
    assert not new, f"add these lines to fixtures/v1/descriptor.txt: {new}"


def _is_reserved(line: str) -> bool:
    """Whether the number of a field that is gone is kept from being used again."""
    message, number = line.split()[:2]
    for module in FILES:
        found = module.DESCRIPTOR.message_types_by_name.get(message)
        if found is not None:
            form = DescriptorProto()
            found.CopyToProto(form)
            return any(span.start <= int(number) < span.end for span in form.reserved_range)
    return False
