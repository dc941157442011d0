"""The states that golden objects make say what they said: of transactions, of checkpoints, and of
deletes."""

from __future__ import annotations

from dataclasses import replace

import pyarrow as pa
import pytest
from golden_objects import CHAIN, decoded, loaded, one, replayed, said_by
from lakelog.catalog.format.deletes import bitmaps_of, decode_bitmap
from lakelog.catalog.format.frame import LogIdentity
from lakelog.catalog.format.names import rebuilt_slot_uuid
from lakelog.catalog.log.admission import check_writer_features
from lakelog.catalog.log.checkpoint import encode_state
from lakelog.catalog.log.replay import apply
from lakelog.catalog.log.state import empty_state
from lakelog.catalog.read.hidden import columns_of
from lakelog.errors import BrokenChain, UnsupportedFeature


def test_the_chain_replays_and_its_checkpoints_hold_the_same_state() -> None:
    assert said_by(loaded("checkpoint-inline")) == said_by(replayed("members"))
    assert said_by(loaded("checkpoint-spilled")) == said_by(replayed("forget"))


def test_replay_goes_on_from_a_checkpoint() -> None:
    for start in ("checkpoint-inline", "checkpoint-spilled"):
        state = loaded(start)
        for case in CHAIN[state.revision + 1 :]:
            apply(state, decoded(case))
        assert said_by(state) == said_by(replayed("seal"))
        live = state.table_of("hourly")[0].table("hourly").column("path").to_pylist()
        assert sorted(live) == [f"data/2013-01/hourly/part-00{n}.parquet" for n in (3, 5, 6)]


def test_a_log_that_requires_a_writer_feature_is_read_and_not_written() -> None:
    with pytest.raises(UnsupportedFeature, match="example-for-writers"):
        check_writer_features(replayed("forget"))


def test_an_unknown_action_is_refused_unless_it_is_optional() -> None:
    assert replayed("optional-action").revision == 7
    with pytest.raises(UnsupportedFeature, match="action of a kind"):
        decoded("refused-action")
    with pytest.raises(UnsupportedFeature, match="doesn't know"):
        encode_state(replayed("optional-action"))


def test_an_unknown_reader_feature_is_refused() -> None:
    with pytest.raises(UnsupportedFeature, match="example-for-readers"):
        decoded("refused-feature")


def test_a_copy_takes_the_name_of_its_folder() -> None:
    state = replayed("forget")
    apply(state, decoded("identity"))
    assert state.named == ("EWR-2", "weather")
    assert state.is_foreign, "where the others are"
    assert not replace(state, writer="EWR-2").is_foreign


def test_a_sealed_log_goes_on_in_its_next_incarnation() -> None:
    sealed = replayed("seal")
    assert sealed.sealed_for == 2
    first, second = decoded("seal"), decoded("second-incarnation")
    with pytest.raises(BrokenChain):
        apply(sealed, decoded("second-incarnation"))
    assert second.log == LogIdentity(first.log.log_id, 2)
    rebuild_id = first.message.actions[0].seal.rebuild_id
    assert second.message.commit.slot_seed == rebuild_id
    assert second.message.uuid == rebuilt_slot_uuid(rebuild_id, 0)
    assert second.message.commit.successor_uuid == rebuilt_slot_uuid(rebuild_id, 1)
    state = empty_state("EWR", "weather")
    apply(state, second)
    assert said_by(loaded("second-incarnation")) == said_by(state)


def test_a_log_names_the_places_of_files() -> None:
    state = loaded("second-incarnation")
    apply(state, decoded("location"))
    assert state.locations == {"file://", "s3://other"}
    kept = loaded("checkpoint-location")
    assert (kept.locations, said_by(kept)) == (state.locations, said_by(state))
    apply(state, decoded("definition"))
    found = state.definitions.of("hourly")
    assert found is not None
    assert (found.ids(), found.last_id) == ({"degrees": 4, "name": 18, "note": 19}, 19)
    assert found.key == ("name",)
    assert {name: value.as_py() for name, value in found.defaults.items()} == {"note": "none"}
    kept = loaded("checkpoint-definition")
    assert kept.definitions.entries == state.definitions.entries
    assert said_by(kept) == said_by(state)
    assert {piece.kind for piece in kept.pieces} > {10}
    (path,) = (p for p in kept.files.table("hourly")["path"].to_pylist() if p.startswith("at/"))
    assert kept.places.url(path) == "s3://other/raw/hourly/year=2013/part-007.parquet"


def test_deletes_come_from_the_log_and_from_its_checkpoint() -> None:
    state = loaded("second-incarnation")
    for case in ("location", "definition", "deletes"):
        apply(state, decoded(case))
    kept = loaded("checkpoint-deletes")
    for each in (state, kept):
        (tombstone,) = each.deletes.of_table("hourly")
        assert (tombstone.predicate, tombstone.revision) == ("temp > 30 OR name LIKE 'a%'", 3)
        columns = columns_of(tombstone)
        assert columns is not None
        assert columns.ids() == {"temp": 4, "name": 5}
        assert columns.defaults == {"name": pa.scalar("none")}
        ((path, (rows,)),) = each.deletes.rows_of("hourly").items()
        assert path == "data/2013-01/hourly/part-003.parquet"
        body = one("deletes", "deletes").read_bytes()
        data = bitmaps_of(body, "x")[rows.offset : rows.offset + rows.length]
        assert decode_bitmap(data, rows.digest, rows.cardinality, "x").tolist() == [0, 4, 9]
    assert state.deletes.of_table("hourly") == kept.deletes.of_table("hourly")
    assert state.deletes.rows_of("hourly") == kept.deletes.rows_of("hourly")
    assert {piece.kind for piece in kept.pieces} >= {9, 11}
