"""The state of one log at one revision. Pure: no store, no clock; what reads segments is handed in.

A state is the head (where the chain goes on) and four parts: files, schemas, applications, history.
The head is enough to append; a part is read when it is asked for: the pieces of the checkpoint
that the state is based on, then what the transactions since say of it.

Source: docs/format.md, sections 4.2 and 4.7.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Any, Final, TypeVar

from ...errors import CorruptError, UnsupportedFeature
from ..format.names import Places, first_slot_uuid, segments_folder
from ..format.pieces import check_live_rows, decode_references
from ..format.segments import APPLICATIONS, DEFINITIONS, FILES, HISTORY, SCHEMAS
from .applications import Applications, load_applications
from .definitions import Definitions, load_definitions
from .deletes import KINDS, Deletes, load_deletes
from .files import Files
from .history import History, check_history
from .known_schemas import KnownSchemas, decode_schemas
from .part import Part, dead_rows, read_parts

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from ..format.frame import LogIdentity
    from ..format.objects import DecodedCheckpoint, DecodedTransaction
    from ..format.pieces import Piece

    Fetch = Callable[[Sequence[Piece]], list[memoryview]]
    Tail = list[DecodedTransaction]
    _Place = tuple[str, int]


@dataclass(slots=True)
class LookedUp:
    """What was read of a state so far.

    Attributes:
        base: The checkpoint it was read from.
        parts: Pieces of it by their places, with the rows that are dead in the checkpoint; nobody
            asks them for what describes their rows.
        files: Of these pieces and all transactions since; None: not asked yet. It knows nothing
            but the paths that the pieces were chosen for.
        schemas: Of the tables asked for; others may be missing.
        tables: Those asked for.
    """

    base: DecodedCheckpoint | None = None
    parts: dict[tuple[str, int], Part] = field(default_factory=dict)
    files: Files | None = None
    schemas: KnownSchemas = field(default_factory=KnownSchemas)
    tables: set[str] = field(default_factory=set)

    def copy(self) -> LookedUp:
        """An independent copy; rows are shared, being immutable."""
        return LookedUp(
            self.base,
            dict(self.parts),
            self.files and self.files.copy(),
            self.schemas.copy(),
            set(self.tables),
        )

    def rebased(self, base: DecodedCheckpoint, pieces: Iterable[Piece]) -> LookedUp:
        """What holds after the next checkpoint, too: rows of segments that it refers to again. A
        committer that writes one every few commits would read them anew each time."""
        kept = {
            piece.place: Part(self.parts[piece.place].run, (), dead_rows(piece), piece.run)
            for piece in pieces
            if piece.kind == FILES and piece.place in self.parts
        }
        return LookedUp(base, kept)

    def apply(self, transaction: DecodedTransaction) -> None:
        """Take in what one more transaction says."""
        if self.files is not None:
            self.files.apply(transaction)
        self.schemas.apply(transaction)


_T = TypeVar("_T")
SMALL_BYTES: Final = 64 << 10  # what is worked on sooner than threads begin


if TYPE_CHECKING:
    LoadedPart = LookedUp | Files | KnownSchemas | Definitions | Applications | History | Deletes


@dataclass(slots=True)
class State:
    """All that a log says at one revision. -1 is the state before the first commit.

    Attributes:
        writer, database: The folder that the log is read from.
        named: The writer and database that the log says it is; empty before revision 0.
        log: Its id and incarnation; None before revision 0.
        transaction_id: Of the last member of the head; empty before revision 0.
        first_epoch, begun_at_us: The epoch of the incarnation's revision 0, and when it was begun.
        locations: URLs below which files may lie that are outside of the writer's prefix.
        sealed_for: The incarnation that a rebuild begins; 0 if the log isn't sealed.
        base: The checkpoint that the state is based on; None: the beginning of the log.
        tail: The transactions since the base.
        fetch: Reads the Arrow IPC bytes of pieces.
        newer: Segments that were read, by copies too, and hold fields of a later version.
        older: Asked for another base and tail of this same revision when a piece is damaged.
        looked_up: What was asked of it path by path and table by table.
        map_large: Applies a function to large pieces; several at a time where the caller has
            threads.
    """

    writer: str
    database: str
    named: tuple[str, str] = ("", "")
    log: LogIdentity | None = None
    revision: int = -1
    uuid: bytes = b""
    successor_uuid: bytes = b""
    digest: bytes = b""
    epoch: int = 0
    committed_at_us: int = 0
    transaction_id: bytes = b""
    first_epoch: int = 0
    begun_at_us: int = 0
    reader_features: frozenset[str] = frozenset()
    writer_features: frozenset[str] = frozenset()
    locations: frozenset[str] = frozenset()
    sealed_for: int = 0
    base: DecodedCheckpoint | None = None
    tail: Tail = field(default_factory=list)
    fetch: Fetch | None = None
    newer: list[str] = field(default_factory=list)
    older: Callable[[State, CorruptError], tuple[DecodedCheckpoint | None, Tail]] | None = None
    map_large: Any = map
    looked_up: LookedUp = field(default_factory=LookedUp)
    _pieces: tuple[Piece, ...] | None = None
    _files: Files | None = None
    _schemas: KnownSchemas | None = None
    _definitions: Definitions | None = None
    _applications: Applications | None = None
    _history: History | None = None
    _deletes: Deletes | None = None
    _schema_rows: dict[_Place, Any] = field(default_factory=dict)  # of the base's SCHEMAS pieces

    def copy(self) -> State:
        """An independent copy. Costs what lies over the pieces, not the pieces."""
        return replace(
            self,
            tail=list(self.tail),
            looked_up=self.looked_up.copy(),
            _files=self._files and self._files.copy(),
            _schemas=self._schemas and self._schemas.copy(),
            _definitions=self._definitions and self._definitions.copy(),
            _applications=self._applications and self._applications.copy(),
            _history=self._history and self._history.copy(),
            _deletes=self._deletes and self._deletes.copy(),
        )

    @property
    def next_uuid(self) -> bytes:
        """The slot uuid that the next transaction has, agreed in advance."""
        return self.successor_uuid or first_slot_uuid(self.writer, self.database)

    @property
    def places(self) -> Places:
        """Where files are that lie elsewhere."""
        return Places(self.locations, f"{self.writer}/{self.database}")

    @property
    def is_foreign(self) -> bool:
        """Whether the log says that it is another one than its folder says."""
        return self.revision >= 0 and self.named != (self.writer, self.database)

    @property
    def loaded_files(self) -> Files | None:
        """All live files, if they were read already."""
        return self._files

    def loaded_parts(self) -> list[LoadedPart]:
        """The parts that were read already, each of which `apply` keeps current."""
        parts = (self.looked_up, self._files, self._schemas, self._definitions, self._deletes)
        return [part for part in (*parts, self._applications, self._history) if part is not None]

    @property
    def files(self) -> Files:
        """The live files of all tables, read when first asked for. Raises `CorruptObject` if a
        piece is damaged, and no older checkpoint serves."""
        if self._files is None:
            self._files = self.sound(self._load_files, stay=True)
        return self._files

    def table_of(self, table: str, partition: str | None = None) -> tuple[Files, KnownSchemas]:
        """Returns the live files of one table, or of one partition of it, and its schemas, perhaps
        with those of others; both from one base. Reads only what may hold them, and keeps nothing.
        Raises `CorruptObject` if no base serves."""
        base, only = self.base, frozenset({table})

        def load() -> tuple[Files, KnownSchemas]:
            held = (self._files, self._schemas) if self.base is base else (None, None)
            files = self._load_files(only, partition) if held[0] is None else held[0]
            files.check(table)
            return files, self.load_schemas(only) if held[1] is None else held[1]

        return self.sound(load)

    @property
    def schemas(self) -> KnownSchemas:
        """All schemas that the log knows."""
        if self._schemas is None:
            self._schemas = self.sound(self.load_schemas)
        return self._schemas

    def schemas_of(self, table: str) -> KnownSchemas:
        """The schemas of one table, perhaps with those of others."""
        if self._schemas is not None:
            return self._schemas
        return self.sound(lambda: self.load_schemas(frozenset({table})))

    @property
    def definitions(self) -> Definitions:
        """What the columns of tables are."""
        if self._definitions is None:
            self._definitions = self.sound(self._load_definitions)
        return self._definitions

    @property
    def applications(self) -> Applications:
        """Application versions."""
        if self._applications is None:
            self._applications = self.sound(self._load_applications)
        return self._applications

    @property
    def history(self) -> History:
        """A row for each retained revision."""
        if self._history is None:
            self._history = self.sound(self.load_history)
        return self._history

    @property
    def deletes(self) -> Deletes:
        """Tombstones and row deletes of all tables."""
        if self._deletes is None:
            self._deletes = self.sound(self.load_deletes)
        return self._deletes

    @property
    def pieces(self) -> tuple[Piece, ...]:
        """The pieces of the checkpoint that the state is based on."""
        if self._pieces is None:
            self._pieces = self.sound(self._load_pieces, stay=True)
        return self._pieces

    def rebase(
        self, base: DecodedCheckpoint, pieces: tuple[Piece, ...], files: Files | None
    ) -> None:
        """From here on the state is based on this checkpoint, of its own revision or a lower one:
        what stands in it is taken from its pieces."""
        self.base, self._pieces, self._schema_rows = base, pieces, {}
        self.tail = [found for found in self.tail if found.message.revision > base.message.revision]
        self.older = self._history = None
        self.looked_up = self.looked_up.rebased(base, pieces)
        if files is not None:
            for transaction in self.tail:
                files.apply(transaction)
        self._files = files

    def sound(self, load: Callable[[], _T], *, stay: bool = False) -> _T:
        """Returns what `load` gives; from an older base, if the present one turns out to be
        damaged. Raises `CorruptError` as at the highest base.

        Args:
            stay: Base the state on the older one from here on. Otherwise the next part is looked
                for in the highest base again.
        """
        own = None  # what was read of the present base stays read; set once another one is tried
        first: CorruptError | None = None
        try:
            while True:
                try:
                    found = load()
                except UnsupportedFeature:
                    raise
                except CorruptError as error:
                    if first is None:
                        first = error
                        own = (self.base, self.tail, self._pieces, self._schema_rows)
                    self.fall_back(first)
                    continue
                if stay:
                    own = None
                return found
        finally:
            if own is not None:
                self.base, self.tail, self._pieces, self._schema_rows = own

    def fall_back(self, error: CorruptError) -> None:
        """Bases the state on an older checkpoint. Raises the given error if there is none."""
        if self.base is None or self.older is None:
            raise error
        base, tail = self.older(self, error)
        self.base, self.tail, self._pieces, self._schema_rows = base, tail, None, {}

    def start_from(self, base: DecodedCheckpoint | None, tail: Tail) -> None:
        """Base the state on another checkpoint and the transactions after it; all parts are read
        anew."""
        self.base, self.tail = base, tail
        self._pieces = self._files = self._schemas = self._applications = self._history = None
        self._definitions = self._deletes = None
        self._schema_rows = {}
        self.looked_up = LookedUp()

    def _load_pieces(self) -> tuple[Piece, ...]:
        if self.base is None:
            return ()
        references, key = self.base.references, self.base.key
        data = self.bytes_of([references])[0]
        folder = segments_folder(self.writer, self.database)
        # They keep their log: they may be read when the state stands on another base again.
        pieces = decode_references(
            data, references.rows, self.base.attachments, key, folder, self.base.log
        )
        check_live_rows(pieces, self.base.message.counts.files, key)
        return pieces

    def of_kind(self, kind: int) -> list[Piece]:
        """The base's pieces of a kind; to be called within `sound`."""
        if self._pieces is None:
            self._pieces = self._load_pieces()
        return [piece for piece in self._pieces if piece.kind == kind]

    def bytes_of(self, pieces: Sequence[Piece]) -> list[memoryview]:
        """Arrow IPC bytes of pieces; those by reference are read together."""
        wanted = [piece for piece in pieces if piece.inline is None]
        assert self.fetch is not None or not wanted, "a state with spilled pieces has a reader"
        read = iter(self.fetch(wanted) if wanted and self.fetch is not None else ())
        return [next(read) if piece.inline is None else piece.inline for piece in pieces]

    def _load_files(
        self, only: frozenset[str] | None = None, partition: str | None = None
    ) -> Files:
        wanted: list[Piece] = []
        left_out: list[Piece] = []
        for piece in self.of_kind(FILES):
            if only is None or any(map(piece.may_hold, only)):
                held = partition is None or piece.may_hold_partition(partition)
                (wanted if held else left_out).append(piece)
        known = self.base_schemas(only).fingerprints()
        files = Files(only, self.parts_of(wanted), known=known, left_out=tuple(left_out))
        for transaction in self.tail:
            files.apply(transaction)
        return files

    def parts_of(self, wanted: Sequence[Piece]) -> list[Part]:
        """Returns FILES pieces of the base, decoded. Raises `CorruptObject`."""
        newest = -1 if self.base is None else self.base.message.revision
        bodies = self.bytes_of(wanted)
        at_once = self.map_large if sum(map(len, bodies)) > SMALL_BYTES else map
        return read_parts(
            wanted, bodies, self._pieces or (), newest, fetch=self.bytes_of, at_once=at_once
        )

    def load_schemas(self, only: frozenset[str] | None = None) -> KnownSchemas:
        """The schemas (of some tables), read anew; to be called within `sound`."""
        schemas = self.base_schemas(only)
        for transaction in self.tail:
            schemas.apply(transaction)
        return schemas

    def base_schemas(self, only: frozenset[str] | None = None) -> KnownSchemas:
        """The schemas that the base knows (of some tables)."""
        schemas = KnownSchemas()
        wanted = [
            piece
            for piece in self.of_kind(SCHEMAS)
            if only is None or any(map(piece.may_hold, only))
        ]
        fresh = [piece for piece in wanted if piece.place not in self._schema_rows]
        for piece, data in zip(fresh, self.bytes_of(fresh), strict=True):
            assert self.base is not None
            rows = decode_schemas(data, piece, self.base.message.revision)
            self._schema_rows[piece.place] = rows
        for piece in wanted:
            schemas.load(self._schema_rows[piece.place], piece.where, only)
        return schemas

    def _load_definitions(self) -> Definitions:
        pieces, newest = self.of_kind(DEFINITIONS), self.base.message.revision if self.base else -1
        return load_definitions(pieces, self.bytes_of(pieces), newest, self.tail)

    def _load_applications(self) -> Applications:
        pieces = self.of_kind(APPLICATIONS)
        return load_applications(pieces, self.bytes_of(pieces), self.tail)

    def load_deletes(self, *, exact: bool = False) -> Deletes:
        """The deletes, read anew; to be called within `sound`."""
        pieces = [piece for kind in KINDS for piece in self.of_kind(kind)]
        newest = -1 if self.base is None else self.base.message.revision
        read = zip(pieces, self.bytes_of(pieces), strict=True)
        return load_deletes(read, self.tail, newest, exact=exact)

    def load_history(self) -> History:
        """The history, read anew; to be called within `sound`."""
        expected, pieces = None, self.of_kind(HISTORY)
        if self.base is not None:
            head = self.base.message
            expected = (head.revision, head.digest, head.committed_at_us)
            check_history(pieces, self.base.key)
        history = History(
            tuple(pieces),
            self.bytes_of,
            expected=expected,
            older=partial(replace(self, _history=None)._older_history, self.base),
        )
        for transaction in self.tail:
            history.apply(transaction)
        return history

    def _older_history(self, base: DecodedCheckpoint | None, error: CorruptError) -> History:
        """The history from an older base than the one at which it turned out to be damaged."""
        tail = [found for found in self.tail if found.message.revision <= self.revision]
        probe = replace(self, base=base, tail=tail, _history=None, _files=None)
        probe.fall_back(error)
        return probe.sound(probe.load_history, stay=True)


def empty_state(writer: str, database: str) -> State:
    """The state before the first commit."""
    return State(writer, database)


def state_of_checkpoint(decoded: DecodedCheckpoint, writer: str, database: str) -> State:
    """The state that a checkpoint holds; its pieces are read when they are asked for."""
    message = decoded.message
    return State(
        writer,
        database,
        named=(message.writer, message.database),
        log=decoded.log,
        revision=message.revision,
        uuid=message.uuid,
        successor_uuid=message.successor_uuid,
        digest=message.digest,
        epoch=message.epoch,
        committed_at_us=message.committed_at_us,
        transaction_id=message.transaction_id,
        first_epoch=message.first_epoch,
        begun_at_us=message.begun_at_us,
        reader_features=frozenset(message.required_reader_features),
        writer_features=frozenset(message.required_writer_features),
        locations=frozenset(message.locations),
        base=decoded,
    )
