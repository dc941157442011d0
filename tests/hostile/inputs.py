"""Hostile inputs of every kind: sound objects spoiled somewhere, with right digests.
See `fuzz.py`."""

from __future__ import annotations

import hashlib
import zlib
from base64 import urlsafe_b64decode, urlsafe_b64encode
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
from corpus import Corpus, Seed, bitmap, build_corpus
from forms import forms_of, odd_fields
from hand_bitmap import ODD, change_bitmap
from hand_objects import Form, ipc
from hand_tables import change_table, value
from lakelog.catalog.ambient import SYSTEM
from lakelog.catalog.data.hidden import Bitmap, Bitmaps
from lakelog.catalog.format.cut import Cut, Position, parse_token
from lakelog.catalog.format.deletes import bitmap_rows, encode_deletes
from lakelog.catalog.format.footer import FooterMetadata
from lakelog.catalog.format.frame import FrameKind, decode_frame, encode_frame
from lakelog.catalog.format.objects import decode_checkpoint, decode_transaction
from lakelog.catalog.format.pieces import Attachments, open_segment
from lakelog.catalog.format.schema import encode_schema, fingerprint
from lakelog.catalog.format.segments import (
    COLUMNS,
    ROW_GROUP_STATISTICS,
    SCHEMAS,
    STATISTICS,
    decode_segment,
)
from lakelog.catalog.log.checkpoint_files import decode_describing
from lakelog.catalog.log.replay import apply
from lakelog.catalog.log.state import state_of_checkpoint
from lakelog.catalog.snapshot import Snapshot
from lakelog.catalog.wire import lakelog_segment_pb2 as segment_wire
from lakelog.catalog.wire import lakelog_transaction_pb2 as wire
from lakelog.errors import CorruptObject
from lakelog.store.memory import MemoryStore
from spoil import spoil_bytes, spoil_header, spoil_ipc, spoil_message
from using import STORE, check_rows, live_files, use

if TYPE_CHECKING:
    import random
    from collections.abc import Callable, Mapping

    from lakelog.catalog.format.pieces import Piece
    from loose import LoosePiece
    from using import Truth

Refused = set[str]
_META = FooterMetadata(
    writer="w", database="db", table="t", partition="", transaction_id=bytes(16), number=0,
    base_revision=1, base_transaction_id=bytes(16), epoch=1, first_clock=0, last_clock=0,
    schema=pa.schema([]), log_id=bytes(16), incarnation=1, slot_seed=bytes(16),
)  # fmt: skip


class Inputs:
    """Makes inputs and tries them; each returns what was refused of what it reads.

    A method is one kind of input. It takes all it decides from the source it is given.
    """

    def __init__(self) -> None:
        self.corpus: Corpus = build_corpus()
        self._parts = {
            seed.key: seed.parts()
            for seed in (
                self.corpus.adds, self.corpus.batch, self.corpus.inline, self.corpus.spilled,
            )
        }  # fmt: skip
        self._plain = [piece.table() for piece in self.corpus.loose.pieces]
        self._forms = [forms_of(table) for table in self._plain]
        snapshot = Snapshot(STORE, "db", [self.corpus.state], SYSTEM)
        self._truth = {name: live_files(snapshot, name) for name in snapshot.tables()}
        self._schemas = [encode_schema(pa.schema([field])).message for field in odd_fields()]
        self._attached = [*self._schemas, *(forms[0] for forms in self._forms)]

    def kinds(self) -> list[Callable[[random.Random], Refused]]:
        """The kinds of inputs, those more often that cost less."""
        dear = [
            self.transaction, self.batch, self.schema, self.checkpoint, self.references,
            self.pieces, self.rows,
        ]  # fmt: skip
        cheap = [self.segment, self.segment, self.segment, self.header, self.segment_object]
        # In all an odd number: the fuzzer runs in four parts, each of which tries every kind.
        cheap_too = [self.token, self.token, self.row_deletes, self.row_deletes]
        return [*cheap, *dear, self.transaction, *cheap, *cheap_too, *cheap]

    # --- Inputs -----------------------------------------------------------------------------------

    def transaction(self, source: random.Random) -> Refused:
        """Fields of a transaction."""
        seed = source.choice((self.corpus.adds, self.corpus.adds, self.corpus.batch))
        message, attachments = self._parts[seed.key]
        return self._apply(
            seed, spoil_message(message, source, self._attached), attachments, source
        )

    def batch(self, source: random.Random) -> Refused:
        """The Arrow bytes of a batch, or lies about them."""
        seed = self.corpus.batch
        data, attached = self._parts[seed.key]
        message = wire.Transaction.FromString(data)
        batch = next(a.add_batch for a in message.actions if a.WhichOneof("kind") == "add_batch")
        victim = source.randrange(len(batch.segments))
        pieces = Attachments()
        for number, ref in enumerate(batch.segments):
            piece = attached[ref.offset : ref.offset + ref.length]
            if number == victim:
                piece = self._ipc(piece, ref.segment.kind - 1, source)
            ref.offset, ref.length = pieces.add(piece), len(piece)
        if source.random() < 0.3:
            ref = source.choice(batch.segments)
            ref.ParseFromString(spoil_message(ref.SerializeToString(), source, [], strict=True))
        kind = batch.segments[victim].segment.kind
        return self._apply(seed, message.SerializeToString(), pieces.joined(), source, kind)

    def schema(self, source: random.Random) -> Refused:
        """An Arrow schema message under its right fingerprint."""
        data, attachments = self._parts[self.corpus.adds.key]
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
        seed = self.corpus.adds
        return self._apply(seed, message.SerializeToString(), attachments, source, SCHEMAS)

    def checkpoint(self, source: random.Random) -> Refused:
        """Fields of a checkpoint."""
        seed = source.choice((self.corpus.inline, self.corpus.spilled))
        message, attachments = self._parts[seed.key]
        spoiled = spoil_message(message, source, self._attached)
        objects = {name: held.body for name, held in self.corpus.segments.items()}
        body = seed.signed(spoiled, attachments)
        return self._load(body, objects, source, truth=self._truth)

    def references(self, source: random.Random) -> Refused:
        """Lies in single references: counts, sums, digests, places, ranges, columns, dead rows."""
        loose = self.corpus.loose.copy()

        def lie(rows: list[dict[str, Any]]) -> None:
            if source.random() < 0.2:  # another piece than is said
                one, two = source.choice(rows), source.choice(rows)
                places = [(r["digest"], r["offset"], r["length"]) for r in (two, one)]
                for row, place in zip((one, two), places, strict=True):
                    row["digest"], row["offset"], row["length"] = place
            if source.random() < 0.1:
                source.shuffle(rows)

        told = []

        def spoil(table: pa.Table) -> pa.Table:
            for _ in range(source.choice((1, 1, 2))):
                try:
                    table, what = value(source, table, Form())
                except (pa.ArrowException, OverflowError):
                    continue  # no such value in this column
                told.append(what)
            return table

        body, objects = loose.build(spill=source.random() < 0.5, lie=lie, table=spoil)
        # Which rows are dead is said nowhere else; a piece whose range leaves a table out is not
        # read for it (docs/format.md, section 4.7). Nothing else may change what is live.
        believed = ("dead", "first_table", "last_table")
        truth = None if any(what.endswith(believed) for what in told) else self._truth
        return self._load(body, objects, source, truth=truth)

    def pieces(self, source: random.Random) -> Refused:
        """The Arrow bytes of one piece; that of the references too."""
        loose = self.corpus.loose.copy()
        number = source.randrange(len(loose.pieces))
        piece = loose.pieces[number]
        piece.data = self._ipc(piece.data, number, source)
        body, objects = loose.build(spill=source.random() < 0.5)
        return self._load(body, objects, source, piece.row["kind"])

    def rows(self, source: random.Random) -> Refused:
        """Sound Arrow with other rows than it should have; its reference may tell of them."""
        loose = self.corpus.loose.copy()
        piece = source.choice(loose.pieces)
        form = Form(source.choice([None, "zstd"]))
        table, _ = change_table(source, piece.row["kind"], piece.table(), form)
        self._put(piece, table, form, tell=source.random() < 0.7)
        body, objects = loose.build(spill=source.random() < 0.5)
        return self._load(body, objects, source, piece.row["kind"])

    def segment(self, source: random.Random) -> Refused:
        """The Arrow bytes of a segment, alone."""
        number = source.randrange(len(self.corpus.loose.pieces))
        piece = self.corpus.loose.pieces[number]
        kind, rows = piece.row["kind"], piece.row["row_count"]
        if source.random() < 0.4:
            form = Form(source.choice([None, "zstd"]))
            table, _ = change_table(source, kind, self._plain[number], form)
            data, rows = ipc(table, form), max(1, table.num_rows)
        else:
            data = self._ipc(piece.data, number, source)
        if kind in (STATISTICS, ROW_GROUP_STATISTICS):
            said = self.corpus.pieces[number]
            said = replace(said, segment=_of_rows(said, rows))
            table = decode_describing(memoryview(data), said)
        else:
            table = decode_segment(data, kind, rows, "segment")
            assert table.schema.equals(COLUMNS[kind])
        assert table.num_rows == rows
        check_rows(kind, table)
        names = [name for name in table.schema.names if name != "committed_at"]
        table.select(names).to_pylist()
        return set()

    def segment_object(self, source: random.Random) -> Refused:
        """A segment object of another content than its reference says."""
        piece = source.choice(self.corpus.pieces)
        seed = self.corpus.segments[piece.name]
        message, attachments = seed.parts()
        body = seed.signed(spoil_message(message, source, []), attachments)
        found = open_segment(body, _operation_guard(piece, body), seed.log)
        assert bytes(found) == attachments
        return set()

    def header(self, source: random.Random) -> Refused:
        """The header of any object, with a digest that fits, and odd forms of zstd."""
        seeds = [self.corpus.adds, self.corpus.batch, self.corpus.inline, self.corpus.spilled]
        seed = source.choice([*seeds, *self.corpus.segments.values()])
        body = spoil_header(seed.body, source)
        if seed.kind == FrameKind.TRANSACTION:
            decode_transaction(body, seed.key)
        elif seed.kind == FrameKind.CHECKPOINT:
            decode_checkpoint(body, seed.key)
        else:
            piece = next(piece for piece in self.corpus.pieces if piece.where == seed.key)
            open_segment(body, _operation_guard(piece, body), seed.log)
        return set()

    def row_deletes(self, source: random.Random) -> Refused:
        """An object of row deletes, its bitmap, or lies about them."""
        data = source.choice([*map(bitmap, range(5)), *ODD])
        if data and source.random() < 0.5:
            data, _ = change_bitmap(source, data)
        meta = replace(_META, number=source.randrange(9))
        body = encode_deletes(meta, [(wire.RowDeletes(), data)])
        if source.random() < 0.3:
            found = decode_frame(body, FrameKind.DELETES, "x")
            message = spoil_message(found.message, source, [])
            body = encode_frame(FrameKind.DELETES, found.log, message, bytes(found.attachments))[0]
        elif source.random() < 0.2:
            body = spoil_header(body, source)
        store, count, rows = MemoryStore("deletes"), 1, source.choice([1, 9, 1 << 21, 1 << 33])
        store.put("x", body)
        with suppress(ValueError):
            count = len(bitmap_rows(data)) + source.choice([0, 0, 0, 0, 1, -1])
        said = Bitmap("x", 0, len(data), count, hashlib.sha256(data).digest())
        found_rows = Bitmaps(store).rows([said], rows)
        assert len(found_rows) == count
        assert np.all(np.diff(found_rows.astype(np.int64)) > 0)
        assert found_rows[-1] < rows
        return set()

    def token(self, source: random.Random) -> Refused:
        """A token with a right checksum."""
        places = {"EWR": Position(17, b"12345678", self.corpus.adds.log), "JFK": Position(3, b"")}
        text = Cut("weather", places).token[4:]
        message = _decoded(text)[:-4]
        spoiled = spoil_message(message, source, [])
        raw = spoiled + zlib.crc32(spoiled).to_bytes(4, "little")
        cut = parse_token("ll1-" + urlsafe_b64encode(raw).decode().rstrip("="))
        assert parse_token(cut.token) == cut
        return set()

    # --- Making -----------------------------------------------------------------------------------

    def _ipc(self, data: bytes, number: int, source: random.Random) -> bytes:
        choice = source.random()
        if choice < 0.45:
            return spoil_ipc(data, source)
        form = source.choice(self._forms[number % len(self._forms)])
        if choice < 0.9:
            return spoil_ipc(form, source)
        return form if choice < 0.94 else spoil_bytes(form, source)

    @staticmethod
    def _put(piece: LoosePiece, table: pa.Table, form: Form, *, tell: bool) -> None:
        try:
            piece.put(table, tell=tell)
        except (KeyError, TypeError, ValueError, IndexError, pa.ArrowException):
            piece.row["row_count"] = max(1, table.num_rows)  # nothing can be said of such rows
        piece.data = ipc(table, form)

    # --- What a reader does with them -------------------------------------------------------------

    def _apply(
        self, seed: Seed, message: bytes, attachments: bytes, source: random.Random, kind: int = 0
    ) -> Refused:
        decoded = decode_transaction(seed.signed(message, attachments), seed.key)
        assert seed.base is not None
        state = seed.base.copy()
        apply(state, decoded)
        return use(state, source, kind)

    def _load(
        self,
        body: bytes,
        objects: Mapping[str, bytes],
        source: random.Random,
        kind: int = 0,
        truth: Truth | None = None,
    ) -> Refused:
        """The state of a checkpoint, over a store of these segments."""
        state = state_of_checkpoint(decode_checkpoint(body, self.corpus.spilled.key), "w", "db")

        def fetch(pieces: list[Piece]) -> list[memoryview]:
            found = []
            for piece in pieces:
                if piece.name not in objects:
                    raise CorruptObject(f"{piece.where} is not there", key=piece.where)
                assert state.log is not None
                found.append(open_segment(objects[piece.name], piece, state.log))
            return found

        state.fetch = fetch
        return use(state, source, kind, truth)


def _of_rows(piece: Piece, rows: int) -> segment_wire.Segment:
    found = segment_wire.Segment()
    found.CopyFrom(piece.segment)
    found.row_count = rows
    return found


def _operation_guard(piece: Piece, body: bytes) -> Piece:
    """A reference to these very bytes."""
    return replace(piece, digest=body[48:80], length=len(body))


def _decoded(text: str) -> bytes:
    return urlsafe_b64decode(text + "=" * (-len(text) % 4))
