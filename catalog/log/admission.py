"""Which of the waiting intents fit the state they would be committed onto. Pure.

Each is judged by itself: one that doesn't fit gets its error and holds up nobody else.

Source: docs/format.md, section 10.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from ...errors import (
    DuplicateFile,
    FileNotLive,
    LakelogError,
    UnknownSchema,
    UnsupportedFeature,
    UsageError,
)
from ..format.objects import READER_FEATURES, WRITER_FEATURES
from .again import check_again
from .column_ids import refuse_changed_columns
from .conflicts import has_to_wait, refuse_conflict, told_by_whom
from .operations import check_rows
from .outcomes import CommitInfo, epoch_changed_error, expired_error, foreign_error, outdated_error
from .replay import validate

if TYPE_CHECKING:
    from collections.abc import Sequence

    from .build import Intent, Moment
    from .state import State


Results = dict[bytes, CommitInfo | LakelogError]

# What the state says against an intent, so that a newer one may say otherwise.
_OF_THE_STATE: Final = (DuplicateFile, FileNotLive, UnknownSchema, UsageError)


@dataclass(frozen=True, slots=True)
class AdmissionLimits:
    """What an intent must satisfy beside the state.

    Attributes:
        folder: Of the log, for errors.
        guest_epoch: The epoch that a guest's files must carry; None for an owner.
        now: This moment.
        file_age_limit_s: Files of a transaction begun longer ago are no longer committed.
    """

    folder: str
    guest_epoch: int | None
    now: Moment
    file_age_limit_s: float


def admit(
    state: State, pending: Sequence[Intent], results: Results, limits: AdmissionLimits
) -> list[Intent]:
    """The intents that fit the state, one after the other. The others get their error in
    `results`, or wait until it is known what becomes of another one: of their application, or one
    that changes what they rely on.

    Raises:
        UnsupportedFeature: Nobody may write to this log with this lakelog.
    """
    check_writer_features(state)
    pending = _refuse_foreign(state, pending, results)
    candidates: list[Intent] = []
    claimed: dict[str, int] = {}
    for intent in pending:
        if intent.app_id:
            if state.applications.version(intent.app_id) >= intent.app_version:
                results[intent.transaction_id] = _skipped(state, intent)
                continue
            if claimed.get(intent.app_id, -1) >= intent.app_version:
                continue
        if has_to_wait(intent, candidates):
            continue
        if intent.app_id:
            claimed[intent.app_id] = intent.app_version
        candidates.append(intent)
    try:
        _check_fit(state, candidates, limits)
        return candidates
    except LakelogError:
        return _each_that_fits(state, candidates, results, limits)


def withdraw_stale(pending: Sequence[Intent], results: Results) -> bool:
    """Take back the errors that a newer state may not have; whether there were any."""
    ids = [intent.transaction_id for intent in pending]
    stale = [one for one in ids if isinstance(results.get(one), _OF_THE_STATE)]
    for one in stale:
        del results[one]
    return bool(stale)


def _refuse_foreign(state: State, pending: Sequence[Intent], results: Results) -> list[Intent]:
    """Only its new name may be committed to a log that was copied or renamed."""
    if not state.is_foreign:
        return list(pending)
    for intent in pending:
        if [action.WhichOneof("kind") for action in intent.actions] != ["identity"]:
            results[intent.transaction_id] = foreign_error(state)
    return [intent for intent in pending if intent.transaction_id not in results][:1]


def _each_that_fits(
    state: State, candidates: Sequence[Intent], results: Results, limits: AdmissionLimits
) -> list[Intent]:
    fitting: list[Intent] = []
    for intent in candidates:
        try:
            _check_fit(state, [*fitting, intent], limits)
            fitting.append(intent)
        except FileNotLive as error:
            results[intent.transaction_id] = told_by_whom(state, intent, error)
        except LakelogError as error:
            results[intent.transaction_id] = error
    return fitting


def _check_fit(state: State, intents: Sequence[Intent], limits: AdmissionLimits) -> None:
    for intent in intents:
        if intent.onto and intent.onto != state.digest:
            raise outdated_error(state)
        if limits.guest_epoch is not None and intent.epoch != limits.guest_epoch:
            raise epoch_changed_error(state.writer, state.database, limits.folder)
        age_s = intent.begun.age_s(limits.now) if intent.begun else 0.0
        if intent.adds and age_s > limits.file_age_limit_s:
            raise expired_error(intent.transaction_id, age_s)
        refuse_conflict(state, intent)
    refuse_changed_columns(state, intents)
    own = {intent.transaction_id for intent in intents}
    folds = any(intent.folds_names for intent in intents)
    actions = [action for intent in intents for action in intent.actions]
    validate(state, actions, own, folds_names=folds)
    for intent in intents:
        hidden = intent.hidden if intent.asked == {"rewrite"} else ()
        check_rows(state, intent.said_operation, intent.actions, hidden=hidden)
        if intent.again:
            check_again(state, intent)


def _skipped(state: State, intent: Intent) -> CommitInfo:
    return CommitInfo(
        state.revision,
        state.uuid.hex(),
        intent.transaction_id.hex(),
        state.committed_at_us,
        skipped=True,
    )


def check_writer_features(state: State) -> None:
    """Raises `UnsupportedFeature` if writing to a log requires what this lakelog doesn't know."""
    unknown = (state.reader_features - READER_FEATURES) | (state.writer_features - WRITER_FEATURES)
    if unknown:
        where = f"{state.writer}/{state.database}"
        raise UnsupportedFeature(
            f"The log of {where} requires {', '.join(sorted(unknown))}",
            key=where,
            hint="Upgrade lakelog, or read a point in time before the feature came in",
        )
