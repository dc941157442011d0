"""Fuzzes the decoding of log objects behind their digests: what a hostile writer can send.

    python tests/hostile/fuzz.py --inputs 50000000 --seed 7

Each input is a sound object spoiled from (seed, number) alone and framed with a right digest. It is
decoded, applied or made a state, and what came out is used as a reader would. Whatever happens must
be sound or an error of lakelog, in bounded memory. An input that breaks this is printed by number;
`--only NUMBER` runs it alone. The number under way is kept in the file of `--progress`, so that a
crash of the process can be blamed on its input.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import resource
import sys
import time
import traceback
import warnings
from pathlib import Path
from typing import Any

import pyarrow as pa
from corpus import Corpus, Seed, build_corpus
from forms import forms_of
from lakelog.catalog.data.unify import FileSchema, unify
from lakelog.catalog.format.frame import FrameKind, encode_frame
from lakelog.catalog.format.objects import decode_checkpoint, decode_transaction, open_segment
from lakelog.catalog.format.schema import encode_schema, fingerprint
from lakelog.catalog.format.segment_bytes import REQUIRED, decode_segment
from lakelog.catalog.log.checkpoint import decode_state, encode_state, referenced
from lakelog.catalog.log.replay import apply
from lakelog.catalog.log.state import State
from lakelog.catalog.wire import lakelog_checkpoint_pb2 as checkpoint_wire
from lakelog.catalog.wire import lakelog_transaction_pb2 as wire
from lakelog.errors import LakelogError
from spoil import spoil_bytes, spoil_ipc, spoil_message

LIMIT_MIB = 256
# Addresses, not memory: the libraries map much that they never touch.
ADDRESS_BYTES = 3 << 30


class Fuzzer:
    """Makes and tries inputs of one seed.

    Attributes:
        outcomes: How often each way of ending came.
        findings: Number, kind and trace of each input that broke the rule.
    """

    def __init__(self, seed: int) -> None:
        self.seed = seed
        self.corpus: Corpus = build_corpus()
        self.outcomes: dict[str, int] = {}
        self.findings: list[dict[str, Any]] = []
        self._parts = {
            id(seed): seed.parts() for seed in (
                self.corpus.adds, self.corpus.batch, self.corpus.inline, self.corpus.spilled,
                *self.corpus.segments,
            )
        }  # fmt: skip
        decoded = decode_checkpoint(self.corpus.spilled.body, self.corpus.spilled.key)
        self._refs = list(decoded.message.segments)
        self._plain = [
            decode_segment(self._parts[id(item)][1], ref.kind, ref.row_count, item.key)
            for item, ref in zip(self.corpus.segments, self._refs, strict=True)
        ]
        self._forms = [forms_of(table) for table in self._plain]
        self._schemas = [encode_schema(pa.schema([field]))[1] for field in _odd_fields()]
        self._attached = [*self._schemas, *(forms[0] for forms in self._forms)]
        self._tries = (
            self.transaction, self.batch, self.schema, self.schema, self.checkpoint,
            self.checkpoint_pieces, self.spilled, self.segment, self.segment, self.segment,
            self.segment,
        )  # fmt: skip

    def run(self, number: int) -> None:
        """Try one input."""
        source = random.Random(self.seed << 32 | number)
        what = self._tries[number % len(self._tries)]
        try:
            what(source)
            outcome = "sound"
        except LakelogError as error:
            outcome = type(error).__name__
            str(error)
        except (Exception, RecursionError) as error:
            outcome = f"FINDING {type(error).__name__}"
            self._found(number, what.__name__, error)
        name = f"{what.__name__}: {outcome}"
        self.outcomes[name] = self.outcomes.get(name, 0) + 1

    def _found(self, number: int, name: str, error: BaseException) -> None:
        """Keep one finding for each place in the code."""
        frames = traceback.extract_tb(error.__traceback__)[-6:]
        where = [f"{Path(frame.filename).name}:{frame.lineno} {frame.name}" for frame in frames]
        if all(where != found["where"] for found in self.findings):
            what = f"{type(error).__name__}: {str(error)[:300]}"
            self.findings.append({"number": number, "input": name, "what": what, "where": where})

    # --- Inputs -----------------------------------------------------------------------------------

    def transaction(self, source: random.Random) -> None:
        """Fields of a transaction."""
        seed = source.choice((self.corpus.adds, self.corpus.adds, self.corpus.batch))
        message, attachments = self._parts[id(seed)]
        self._apply(seed, spoil_message(message, source, self._attached), attachments)

    def batch(self, source: random.Random) -> None:
        """The Arrow bytes of a batch, with the places in the message as they were."""
        seed = self.corpus.batch
        data, attachments = self._parts[id(seed)]
        message = wire.Transaction.FromString(data)
        batch = next(a.add_batch for a in message.actions if a.WhichOneof("kind") == "add_batch")
        files = _cut(attachments, batch.files)
        groups = _cut(attachments, batch.row_groups)
        if source.random() < 0.5:
            files = self._ipc(files, 0, source)
        else:
            groups = self._ipc(groups, 1, source)
        pad = b"\0" * (-len(files) % 64)
        batch.files.offset, batch.files.length = 0, len(files)
        batch.row_groups.offset, batch.row_groups.length = len(files) + len(pad), len(groups)
        self._apply(seed, message.SerializeToString(), files + pad + groups)

    def schema(self, source: random.Random) -> None:
        """An Arrow schema message under its right fingerprint."""
        data, attachments = self._parts[id(self.corpus.adds)]
        message = wire.Transaction.FromString(data)
        action = next(a.schema for a in message.actions if a.WhichOneof("kind") == "schema")
        old = action.fingerprint
        start = source.choice([action.arrow_schema, *self._schemas])
        spoiled = spoil_ipc if source.random() < 0.5 else spoil_bytes
        action.arrow_schema = spoiled(start, source)
        action.fingerprint = fingerprint(action.arrow_schema)
        for item in message.actions:
            if item.WhichOneof("kind") == "add" and item.add.schema_fingerprint == old:
                item.add.schema_fingerprint = action.fingerprint
        self._apply(self.corpus.adds, message.SerializeToString(), attachments)

    def checkpoint(self, source: random.Random) -> None:
        """Fields of a checkpoint."""
        message, attachments = self._parts[id(self.corpus.inline)]
        self._load(self.corpus.inline, spoil_message(message, source, self._attached), attachments)

    def checkpoint_pieces(self, source: random.Random) -> None:
        """The Arrow bytes of one inline segment."""
        data, attachments = self._parts[id(self.corpus.inline)]
        message = checkpoint_wire.Checkpoint.FromString(data)
        victim = source.randrange(len(message.segments))
        pieces = bytearray()
        for number, ref in enumerate(message.segments):
            piece = _cut(attachments, ref)
            if number == victim:
                piece = self._ipc(piece, number, source)
            pieces += b"\0" * (-len(pieces) % 64)
            ref.offset, ref.length = len(pieces), len(piece)
            pieces += piece
        self._load(self.corpus.inline, message.SerializeToString(), bytes(pieces))

    def spilled(self, source: random.Random) -> None:
        """A checkpoint by reference: its fields, or the bytes of one of its segments."""
        seed = self.corpus.spilled
        data, attachments = self._parts[id(seed)]
        objects = {item.key.rsplit("/", 1)[-1]: item for item in self.corpus.segments}
        bodies = {name: item.body for name, item in objects.items()}
        if source.random() < 0.4:
            data = spoil_message(data, source, self._attached)
        else:
            message = checkpoint_wire.Checkpoint.FromString(data)
            number = source.randrange(len(message.segments))
            ref = message.segments[number]
            raw = self._ipc(self._parts[id(objects[ref.name])][1], number, source)
            bodies[ref.name], ref.digest = encode_frame(FrameKind.SEGMENT, b"", raw)
            ref.length = len(bodies[ref.name])
            data = message.SerializeToString()
        self._load(seed, data, attachments, bodies)

    def segment(self, source: random.Random) -> None:
        """The Arrow bytes of a segment, alone."""
        number = source.randrange(len(self._refs))
        ref = self._refs[number]
        data = self._ipc(self._parts[id(self.corpus.segments[number])][1], number, source)
        table = decode_segment(data, ref.kind, ref.row_count, "segment")
        assert table.num_rows == ref.row_count
        names = [name for name in REQUIRED[ref.kind].names if name != "committed_at"]
        table.select(names).to_pylist()

    def _ipc(self, data: bytes, number: int, source: random.Random) -> bytes:
        choice = source.random()
        if choice < 0.45:
            return spoil_ipc(data, source)
        form = source.choice(self._forms[number % len(self._forms)])
        if choice < 0.9:
            return spoil_ipc(form, source)
        return form if choice < 0.94 else spoil_bytes(form, source)

    # --- What a reader does with them -------------------------------------------------------------

    def _apply(self, seed: Seed, message: bytes, attachments: bytes) -> None:
        body, _ = encode_frame(FrameKind.TRANSACTION, message, attachments)
        decoded = decode_transaction(body, seed.key)
        assert seed.base is not None
        state = seed.base.copy()
        apply(state, decoded)
        use(state)

    def _load(
        self,
        seed: Seed,
        message: bytes,
        attachments: bytes,
        objects: dict[str, bytes] | None = None,
    ) -> None:
        body, _ = encode_frame(FrameKind.CHECKPOINT, message, attachments)
        decoded = decode_checkpoint(body, seed.key)
        fetched = {}
        for name, digest in referenced(decoded):
            if name not in (objects or {}):
                return  # the store has no such object
            fetched[name] = open_segment((objects or {})[name], digest, name)
        use(decode_state(decoded, fetched, "w", "db"))


def _cut(data: bytes, piece: Any) -> bytes:
    return data[piece.offset : piece.offset + piece.length]


def _odd_fields() -> list[pa.Field]:
    kinds = [
        pa.null(), pa.float16(), pa.decimal256(70, 3), pa.duration("ns"),
        pa.month_day_nano_interval(),
        pa.dictionary(pa.int8(), pa.string()), pa.map_(pa.string(), pa.list_(pa.int8())),
        pa.run_end_encoded(pa.int32(), pa.string()), pa.sparse_union([pa.field("u", pa.int8())]),
        pa.timestamp("s", "Mars/Olympus"), pa.binary(3), pa.string_view(), pa.list_(pa.int8(), 3),
        pa.struct([]), pa.time64("ns"), pa.date64(), pa.bool_(),
    ]  # fmt: skip
    fields = [pa.field(f"c{number}", kind) for number, kind in enumerate(kinds)]
    extension = {"ARROW:extension:name": "arrow.uuid", "ARROW:extension:metadata": "\xff"}
    return [*fields, pa.field("x", pa.binary(16), metadata=extension)]


def use(state: State) -> None:
    """What readers, writers and the command line ask of a state."""
    for name, files in state.tables.items():
        schemas = state.arrow_schemas(name)
        files.table(schemas)
        files.row_groups_table(schemas)
        found = [FileSchema(schema, "w") for schema in schemas.values()]
        if found:
            str(unify(found, name))
        repr(schemas)
    state.history.table().to_pylist()
    state.history.revision_at(1_700_000_000_000_000)
    encode_state(state)


def main() -> int:
    """Run, and print what came of it as JSON."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--inputs", type=int, default=100_000)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--step", type=int, default=1)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", type=int)
    parser.add_argument("--progress", type=Path)
    args = parser.parse_args()
    warnings.simplefilter("ignore")
    fuzzer = Fuzzer(args.seed)
    for number in range(args.first, args.first + 200):
        fuzzer.run(number)  # what is loaded once is no growth
    fuzzer.outcomes.clear()
    fuzzer.findings.clear()
    resource.setrlimit(resource.RLIMIT_AS, (ADDRESS_BYTES, ADDRESS_BYTES))
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    begun = time.perf_counter()
    if args.only is not None:
        fuzzer.run(args.only)
    else:
        _loop(fuzzer, range(args.first, args.first + args.inputs * args.step, args.step), args)
    grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    print(
        json.dumps(
            {
                "inputs": sum(fuzzer.outcomes.values()),
                "seconds": round(time.perf_counter() - begun, 1),
                "cpu_seconds": round(time.process_time(), 1),
                "grown_mib": round(grown / 1024, 1),
                "outcomes": dict(sorted(fuzzer.outcomes.items())),
                "findings": fuzzer.findings[:20],
            },
            indent=1,
        )
    )
    return 1 if fuzzer.findings or grown > LIMIT_MIB << 10 else 0


def _loop(fuzzer: Fuzzer, numbers: range, args: argparse.Namespace) -> None:
    progress = os.open(args.progress, os.O_RDWR | os.O_CREAT) if args.progress else -1
    for number in numbers:
        if progress >= 0:
            os.pwrite(progress, b"%020d" % number, 0)
        fuzzer.run(number)


if __name__ == "__main__":
    sys.exit(main())
