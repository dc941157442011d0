"""lakelog, the independent reader and the one in Go say the same: of golden objects, of valid logs
written by hand, and of damaged ones whose digests are right again. Where there is no Go, which CI
has, the first two are held against each other.

On other logs each commit; `make soak` and `make readers` do many more.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from independent_log import read_name
from independent_reader import read_deletes, read_folder
from seeds import base_seed
from three_readers import GoReader, Tally, compare, verdicts

GOLDEN = Path(__file__).parents[2] / "fixtures" / "v1"
ITEMS, VALID, DAMAGED = 2, 5, 25


def check(tally: Tally) -> None:
    assert not tally.problems, "\n".join(tally.problems)


@pytest.mark.slow("30 logs, three readers of each, one of them in plain Python")
@pytest.mark.parametrize("item", range(ITEMS))
def test_they_agree(item: int, maybe_go: GoReader | None) -> None:
    check(compare(base_seed() + item, VALID, DAMAGED, maybe_go))


@pytest.mark.long
@pytest.mark.timeout(0)
def test_they_agree_on_many(maybe_go: GoReader | None) -> None:
    check(compare(base_seed(), 500, 3_000, maybe_go))


def golden_logs() -> list[tuple[str, Path, str, str]]:
    """Golden logs of this format: root, writer, database."""
    found = []
    for folder in sorted(GOLDEN.glob("**/transactions")):
        if any(read_name(path.name) for path in folder.iterdir()):
            database = folder.parent
            name = str(database.relative_to(GOLDEN))
            found.append((name, database.parents[1], database.parent.name, database.name))
    return found


def golden_objects() -> list[Path]:
    """Folders of golden objects of this format."""
    frames = (GOLDEN / "objects").glob("*/*.*")
    return sorted({path.parent for path in frames if read_name(path.name)})


def golden_deletes() -> dict[str, bytes]:
    """Golden objects of row deletes, by the path that transactions name them by."""
    found = (GOLDEN / "objects").glob("*/*.deletes")
    return {f"data/_/hourly/{path.name}": path.read_bytes() for path in found}


def check_golden(go: GoReader | None) -> None:
    tally = Tally()
    for name, root, writer, database in golden_logs():
        data = read_deletes(root, writer, database)
        tally.add(name, "", verdicts(*read_folder(root, writer, database), go, data))
        assert set(tally.classes) == {"ok"}, name
    for folder in golden_objects():
        items = {path.name: path.read_bytes() for path in folder.iterdir()}
        segments = {name: data for name, data in items.items() if name.endswith(".segment")}
        tally.add(folder.name, "", verdicts(items, segments, go, golden_deletes()))
    assert tally.logs, "there are no golden objects of this format in fixtures/v1"
    check(tally)


def test_they_agree_on_golden_objects(maybe_go: GoReader | None) -> None:
    check_golden(maybe_go)
