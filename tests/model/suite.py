"""What is explored: every model at its small and its large size, and every planted bug.

The small size runs in CI; the large one by `python tests/model/run.py --size large`. A planted bug
is explored at the smallest size that catches it, and has to break the invariant named here.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import invariants as inv
from checkpoints import Checkpoints
from exclusive import Exclusive
from grace import Grace
from mirror import Mirror
from plain import Plain
from prune import Prune
from readers import Readers
from rebuilds import Rebuilds

if TYPE_CHECKING:
    from collections.abc import Callable

    from explorer import Model


class Mutant(NamedTuple):
    """A planted bug.

    Attributes:
        bug: What the buggy implementation does, in a few words.
        catches: The invariant that has to break.
        model: Builds the model; takes the bug's name.
    """

    bug: str
    catches: str
    model: Callable[[str], Model]


def small() -> list[Model]:
    """The models at CI's size."""
    return [
        Exclusive(2, 0, 3),
        Exclusive(2, 1, 2),
        Exclusive(0, 2, 3),
        Exclusive(1, 1, 3, compaction=True),
        Prune(2, 0, 2),
        Prune(1, 1, 2),
        Prune(1, 1, 2, rival=True),
        Prune(2, 0, 2, late=True),
        Prune(2, 0, 1, late=True, stands=True),
        Prune(2, 0, 2, late=True, repair=True),
        Checkpoints(2, 2, 2, damage=True),
        Checkpoints(3, 1, 2, damage=True),
        Checkpoints(2, 1, 2, damage=True, mirror=True),
        Mirror(2, 3),
        Mirror(2, 2, disaster=True),
        Readers(2, 1, damage=True),
        Grace(2, 3),
        Plain(3, 3),
        Plain(2, 2, maintenance=True),
        Rebuilds(2, 1, 1),
        Rebuilds(1, 2, 2),
        Rebuilds(2, 1, 1, doubles=True),
    ]


def large() -> list[Model]:
    """The models at the size of a release; minutes and some gigabytes."""
    return [
        Exclusive(2, 0, 4),
        Exclusive(3, 0, 3),
        Exclusive(2, 1, 3),
        Exclusive(2, 1, 4),
        Exclusive(1, 2, 3),
        Exclusive(1, 2, 3, compaction=True),
        Exclusive(2, 1, 3, compaction=True),
        Exclusive(1, 1, 4, compaction=True),
        Prune(2, 0, 3),
        Prune(3, 0, 3),
        Prune(1, 1, 3),
        Prune(1, 1, 3, rival=True),
        Prune(2, 1, 2),
        Prune(2, 1, 2, late=True),
        Prune(2, 0, 3, late=True),
        Prune(1, 1, 2, late=True),
        Prune(1, 1, 3, late=True, rival=True),
        Prune(2, 0, 2, late=True, stands=True),
        Prune(1, 1, 2, late=True, repair=True),
        Prune(2, 0, 2, late=True, stands=True, repair=True),
        Checkpoints(3, 2, 1),
        Checkpoints(4, 1, 2, damage=True),
        Checkpoints(2, 2, 2, mirror=True),
        Checkpoints(3, 1, 1, mirror=True),
        Mirror(2, 4),
        Mirror(3, 3),
        Mirror(2, 3, disaster=True),
        Readers(3, 1, damage=True),
        Readers(2, 2, damage=True),
        Readers(4, 1),
        Grace(3, 4),
        Plain(3, 4),
        Plain(2, 3, maintenance=True),
        Plain(3, 3, maintenance=True),
        Rebuilds(2, 1, 2),
        Rebuilds(2, 2, 2),
        Rebuilds(2, 1, 3),
        Rebuilds(3, 1, 2),
        Rebuilds(2, 1, 2, doubles=True),
    ]


def _owners(bug: str) -> Model:
    return Exclusive(2, 0, 3, mutant=bug)


def _with_guest(bug: str) -> Model:
    return Exclusive(1, 1, 3, mutant=bug)


def _compaction(bug: str) -> Model:
    return Exclusive(1, 1, 3, compaction=True, mutant=bug)


def _prune(bug: str) -> Model:
    return Prune(2, 0, 3, mutant=bug)


def _one_owner(bug: str) -> Model:
    return Prune(1, 0, 2, mutant=bug)


def _late(bug: str) -> Model:
    return Prune(2, 0, 2, late=True, mutant=bug)


def _rival(bug: str) -> Model:
    return Prune(1, 1, 3, rival=True, mutant=bug)


def _checkpoints(bug: str) -> Model:
    return Checkpoints(2, 1, 2, mutant=bug)


def _two_makers(bug: str) -> Model:
    return Checkpoints(3, 2, 1, mutant=bug)


def _damage(bug: str) -> Model:
    return Checkpoints(2, 1, 1, damage=True, mutant=bug)


def _mirrored(bug: str) -> Model:
    return Checkpoints(2, 1, 2, mirror=True, mutant=bug)


def _repair(bug: str) -> Model:
    return Prune(2, 0, 2, late=True, repair=True, mutant=bug)


def _mirror(bug: str) -> Model:
    return Mirror(2, 3, mutant=bug)


def _lost_end(bug: str) -> Model:
    return Mirror(2, 2, disaster=True, mutant=bug)


def _readers(bug: str) -> Model:
    return Readers(3, 1, mutant=bug)


def _few_revisions(bug: str) -> Model:
    return Readers(2, 1, mutant=bug)


def _grace(bug: str) -> Model:
    return Grace(2, 2, mutant=bug)


def _plain(bug: str) -> Model:
    return Plain(2, 2, maintenance=True, mutant=bug)


def _standing(bug: str) -> Model:
    return Prune(2, 0, 2, late=True, stands=True, mutant=bug)


def _rebuild(bug: str) -> Model:
    return Rebuilds(2, 1, 2, mutant=bug)


def _two_rebuilds(bug: str) -> Model:
    return Rebuilds(1, 2, 2, mutant=bug)


def _doubles(bug: str) -> Model:
    return Rebuilds(2, 1, 2, doubles=True, mutant=bug)


MUTANTS: dict[str, Mutant] = {
    "no_readback": Mutant("takes 'exists' for a lost race without reading back", inv.ONCE, _owners),
    "epoch_not_bumped_on_open": Mutant(
        "an owner opens with the highest epoch seen, not one more", inv.ONE_OWNER, _owners
    ),
    "retry_higher_epoch": Mutant(
        "an owner retries after losing to a higher epoch", inv.EPOCH, _owners
    ),
    "retry_equal_epoch": Mutant(
        "an owner retries after losing to another owner of its epoch", inv.ONE_OWNER, _owners
    ),
    "fence_by_lost_name_only": Mutant(
        "judges the commit it lost to, then jumps to the head unjudged", inv.EPOCH, _owners
    ),
    "relist_no_fence": Mutant(
        "an idle owner lists again without applying the fencing rule", inv.ONE_OWNER, _owners
    ),
    "fence_own_commit": Mutant(
        "takes its own earlier commit of unknown outcome for a rival", inv.JUST, _owners
    ),
    "guest_any_epoch": Mutant(
        "a guest retries although the head's epoch has changed", inv.EPOCH, _with_guest
    ),
    "guest_keeps_files": Mutant(
        "a guest moves to the new epoch but keeps its files", inv.EPOCH, _with_guest
    ),
    "guest_resumes_at_new_epoch": Mutant(
        "a guest retries an unknown commit under the epoch it learnt since", inv.EPOCH, _with_guest
    ),
    "guest_no_recheck": Mutant(
        "a guest replays without checking its inputs again", inv.VALID, _compaction
    ),
    "adds_old_epoch_file": Mutant(
        "an owner adds a file whose name carries an older epoch", inv.EPOCH, _owners
    ),
    "gc_refs_of_head_only": Mutant(
        "gc keeps the files of the head, not of every retained revision", inv.KEPT, _compaction
    ),
    "idle_no_list": Mutant("commits after a long idle without listing", inv.NOT_RECREATED, _prune),
    "prune_floor_zero": Mutant("prunes names however young", inv.NOT_RECREATED, _prune),
    "belief_from_reply": Mutant(
        "dates its belief from the reply, not from the first send", inv.NOT_RECREATED, _prune
    ),
    "retry_unknown_after_prune": Mutant(
        "commits again although the unknown attempt's name was pruned", inv.ONCE, _one_owner
    ),
    "fence_by_retained_only": Mutant(
        "judges by the revisions left, though some were pruned unseen", inv.ONE_OWNER, _rival
    ),
    "late_reply_acknowledged": Mutant(
        "acknowledges a reply later than the floor without listing", inv.FORWARD, _late
    ),
    "reply_dated_by_own_clock": Mutant(
        "dates a reply by its own clock, which stood still", inv.FORWARD, _standing
    ),
    "prune_without_checkpoint": Mutant(
        "prunes transactions that no checkpoint covers", inv.FORWARD, _checkpoints
    ),
    "prune_unverified": Mutant(
        "prunes by a checkpoint that it did not read back", inv.FORWARD, _damage
    ),
    "prune_by_young_checkpoint": Mutant(
        "prunes by a checkpoint younger than the floor (makers)", inv.CHECKPOINT, _two_makers
    ),
    "prune_segments_by_survivor": Mutant(
        "keeps the survivor's segments, not those of newer checkpoints", inv.FORWARD, _checkpoints
    ),
    "checkpoint_after_idle": Mutant(
        "writes a header long after the listing it builds on", inv.CHECKPOINT, _checkpoints
    ),
    "checkpoint_of_unread_revision": Mutant(
        "names a checkpoint by a newer head than it replayed", inv.CHECKPOINT, _checkpoints
    ),
    "segment_name_again": Mutant(
        "puts a segment under a name that stood before", inv.CHECKPOINT, _checkpoints
    ),
    "copy_before_the_commit_is_known": Mutant(
        "puts the copy together with the transaction", inv.MIRRORED, _mirror
    ),
    "repair_copies_pruned_names": Mutant(
        "a repair copies what it finds under a pruned name", inv.MIRRORED, _repair
    ),
    "no_wait": Mutant("sends r+2 while r has no copy", inv.COPIED, _mirror),
    "close_does_not_wait": Mutant("closes while a copy is missing", inv.COPIED, _mirror),
    "opener_completes_nothing": Mutant(
        "opens, and leaves the mirror as it is", inv.COPIED, _mirror
    ),
    "opener_compares_heads_only": Mutant(
        "takes a mirror with the log's head for complete", inv.COPIED, _mirror
    ),
    "lost_race_hides_copies": Mutant(
        "replays to h, and forgets that h-1 may lack its copy", inv.COPIED, _mirror
    ),
    "takes_any_copy": Mutant("takes a copy for its own without comparing", inv.COPIED, _lost_end),
    "opener_trusts_the_log": Mutant(
        "opens without comparing the heads of log and mirror", inv.LOST_END, _lost_end
    ),
    "log_listed_first": Mutant("lists the log, then the mirror", inv.SOUND, _mirror),
    "mirror_pruned_first": Mutant("prunes the mirror, then the log", inv.COPIED, _mirrored),
    "survivor_not_mirrored": Mutant("prunes without copying the survivor", inv.READABLE, _mirrored),
    "survivor_mirrored_last": Mutant(
        "copies the survivor after it pruned", inv.READABLE, _mirrored
    ),
    "mirror_segments_by_mirror": Mutant(
        "keeps copies of segments by the checkpoints in the mirror alone", inv.READABLE, _mirrored
    ),
    "reader_skips_gap": Mutant("a reader passes over a gap in its listing", inv.EXACT, _readers),
    "reader_trusts_listing_once": Mutant(
        "a reader takes a 404 for the end of the log", inv.FRESH, _readers
    ),
    "reader_tails_after_idle": Mutant(
        "a reader asks for the next name after a long idle", inv.FRESH, _few_revisions
    ),
    "reader_belief_from_get": Mutant(
        "a reader dates its belief from a GET that found something", inv.FRESH, _readers
    ),
    "reader_of_young_checkpoint": Mutant(
        "prunes by a checkpoint younger than the floor (readers)", inv.FRESH, _readers
    ),
    "gc_grace_zero": Mutant("gc gives files no grace", inv.KEPT, _grace),
    "gc_log_before_ages": Mutant(
        "gc reads the log first and the files' ages later", inv.KEPT, _grace
    ),
    "commit_old_files": Mutant("commits files older than half the grace period", inv.KEPT, _grace),
    "plain_ack_on_put": Mutant("acknowledges on the PUT's response", inv.ONE_ACK, _plain),
    "plain_ignores_siblings": Mutant(
        "looks for higher names only, not for a sibling", inv.ONE_ACK, _plain
    ),
    "plain_ignores_checkpoints": Mutant(
        "looks at transactions only, not at checkpoints", inv.FORK_SEEN, _plain
    ),
    "plain_prunes_forks": Mutant("prunes one side of a fork", inv.FORK_SEEN, _plain),
    "rebuild_without_seal": Mutant("switches without a seal", inv.FENCED, _rebuild),
    "seal_lost_to_a_commit": Mutant(
        "goes on with its plan although a commit has the seal's name", inv.FORWARD, _rebuild
    ),
    "epochs_start_anew": Mutant(
        "the next incarnation's epochs begin below those that are open", inv.FENCED, _rebuild
    ),
    "goes_on_after_a_rebuild": Mutant(
        "finds its own commit in the next incarnation, and goes on there", inv.FENCED, _rebuild
    ),
    "opening_named_by_plan": Mutant(
        "each rebuild gives its opening checkpoint a name of its own",
        inv.ONE_REBUILD,
        _two_rebuilds,
    ),
    "opener_copies_no_checkpoint": Mutant(
        "commits on an opening checkpoint that has no copy yet", inv.READABLE, _rebuild
    ),
    "falls_back_to_the_older": Mutant(
        "a reader without an opening checkpoint reads the incarnation below", inv.FORWARD, _rebuild
    ),
    "own_id_is_enough": Mutant(
        "takes its double's rows under its own id for its own", inv.FORWARD, _doubles
    ),
}

# Steps that must happen somewhere in the small models, or "clean" would say nothing.
REACHED: dict[type, set[str]] = {
    Exclusive: {
        "exists, reads back its own",
        "is refused, reads back, replays",
        "raises CommitOutcomeUnknown",
        "calls commit again",
        "is fenced",
        "lists again",
        "lands, reply lost",
        "gc deletes",
        "prune",
    },
    Prune: {
        "lands on a pruned name, reply lost",
        "stays unknown for good",
        "is fenced or starts over",
        "is refused, replays",
        "prunes",
        "lists, finds its own: acknowledged",
        "repair puts back",
    },
    Checkpoints: {
        "maker starts from the log",
        "maker starts on a checkpoint",
        "header lands",
        "header lands damaged",
        "prune deletes transactions",
        "prune deletes header",
        "prune deletes segment",
        "prune crashes or stops",
        "prune makes a copy segment",
        "prune makes a copy header",
        "prune misses its survivor, stops",
        "prune deletes copies of transactions",
        "prune deletes copy of a header",
        "prune deletes copy of a segment",
    },
    Mirror: {
        "lists again",
        "leaves its commit of unknown outcome",
        "exists, reads back its own",
        "is refused, replays",
        "copies, reply lost",
        "finds the copy",
        "closes",
        "the end is lost",
        "refuses to open: LostTail",
        "finds another's copy: LostTail",
    },
    Readers: {
        "reader lists again",
        "reader falls back",
        "reader gets by name",
        "reader has read",
        "prune deletes",
    },
    Grace: {"gc deletes", "loses and replays", "reads back its own"},
    Rebuilds: {
        "rebuild finds a commit, starts over",
        "rebuild finds another's, stops",
        "rebuild finds the seal",
        "rebuild crashes or stops",
        "rebuild switches",
        "rebuild copies",
        "the opening checkpoint is lost",
        "is fenced by a seal",
        "is doubled",
        "finds its double's rows, is fenced",
        "lists, finds its own: acknowledged",
    },
    Plain: {
        "lists, is not the single highest",
        "opens, raises ForkError",
        "is acknowledged",
        "prune deletes",
    },
}
