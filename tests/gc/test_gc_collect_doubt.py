"""What gc refuses: damage, forks and features of the future in what is retained."""

from __future__ import annotations

import pytest
from collect_cases import BASE, D, W, lose_log, take_over
from lakelog.catalog.format.names import LogObject
from lakelog.catalog.format.objects import encode_transaction
from lakelog.catalog.wire import lakelog_transaction_pb2 as wire
from lakelog.errors import (
    CorruptObject,
    ForkError,
    LogLost,
    MissingTransaction,
    UnsupportedFeature,
)
from lakelog.gc.collect import execute_gc, plan_gc
from lakelog.gc.prune import execute_prune, plan_prune
from lakelog.testing.doubles import PassingStore

DAY_S = 86_400.0


def damage_transaction(lake):
    lake.damage(lake.log_key("t3"))


def damage_base(lake):
    lake.damage(lake.log_key("c2"))


def lose_transaction(lake):
    lake.store.delete([lake.log_key("t4")])


def leave_a_stray_checkpoint(lake):
    """As a checkpoint would that its writer put long after the log had been pruned."""
    lake.store.put(f"{BASE}transactions/{LogObject(1, 0, 'ab' * 4, 'checkpoint').name}", b"stray")


def lose_the_tail_below_a_checkpoint(lake):
    with lake.writer() as writer:
        lake.commit(writer, 7)
        writer.checkpoint()
    lake.store.delete([lake.log_key("t6"), lake.log_key("t7")])


def fork(lake):
    key = lake.log_key("t5")
    lake.store.put(key.replace(key.split(".")[1], "00000000"), lake.store.get(key))


def require_a_feature(lake):
    with lake.writer() as writer:
        tx = writer.transaction()
        tx._intent.actions.append(
            wire.Action(upgrade=wire.Upgrade(required_writer_features=["delete files"]))
        )
        tx.commit()


def hold_an_unknown_optional_action(lake):
    key = lake.log_key("t6")
    found = lake.log().transaction(_item(lake, 6))
    message = wire.Transaction.FromString(found.message.SerializeToString())
    action = wire.Action(optional=True)
    action.MergeFromString(b"\x72\x04data")  # field 14, a kind of the future
    message.actions.append(action)
    lake.store.put(key, encode_transaction(found.log, message, b"")[0])


def _item(lake, revision):
    return lake.log().names().transactions[revision][0]


DOUBTS = {
    damage_transaction: CorruptObject,
    damage_base: CorruptObject,
    lose_transaction: MissingTransaction,
    leave_a_stray_checkpoint: MissingTransaction,
    lose_the_tail_below_a_checkpoint: MissingTransaction,
    fork: ForkError,
    lose_log: LogLost,
    require_a_feature: UnsupportedFeature,
    hold_an_unknown_optional_action: UnsupportedFeature,
}


@pytest.mark.parametrize("doubt", DOUBTS, ids=lambda doubt: doubt.__name__)
@pytest.mark.filterwarnings("ignore::lakelog.catalog.read.log_reader.CheckpointWarning")
def test_doubt_about_what_is_retained_is_a_refusal(lake, doubt):
    """A log pruned to revision 2, with checkpoint 4, and an orphan that anybody may see."""
    with lake.writer() as writer:
        for value in range(6):
            lake.commit(writer, value)
            if value in (2, 4):
                writer.checkpoint()
        lake.orphan(writer)
    lake.pass_time(30 * DAY_S)
    execute_prune(lake.catalog, plan_prune(lake.catalog, W, D, keep_revisions=4))
    assert lake.log_names() == "t2 c2 t3 t4 c4 t5"
    take_over(lake)
    good = plan_gc(lake.catalog, W, D)
    assert good.objects == 1
    doubt(lake)
    before = lake.data()
    with pytest.raises(DOUBTS[doubt]):
        plan_gc(lake.catalog, W, D)
    with pytest.raises(DOUBTS[doubt]):
        execute_gc(lake.catalog, good)
    assert lake.data() == before


class ForgetfulStore(PassingStore):
    """Its listings miss the first transaction, in both places."""

    def list(self, prefix, **options):
        for info in self.inner.list(prefix, **options):
            if "-999999999999-0." not in info.key:
                yield info


def test_a_log_whose_beginning_the_listings_miss_is_not_taken_for_a_pruned_one(lake):
    """Prune leaves a copy of the checkpoint that the log begins with."""
    with lake.writer() as writer:
        first = lake.commit(writer, 0)
        lake.commit(writer, 1, remove=[first])
        writer.checkpoint()
    lake.pass_time(30 * DAY_S)
    lake.store = ForgetfulStore(lake.store)
    with pytest.raises(MissingTransaction, match="miss what is below the checkpoint"):
        plan_gc(lake.catalog, W, D)
    assert first in lake.data()
