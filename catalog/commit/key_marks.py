"""Files of a table with a key, as a transaction writes them: those that hold each key once are
marked so, and need not be looked into where no other file has such keys.

Source: docs/format.md, section 5.5.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa

from ..data.key_types import is_key_type
from ..data.parquet import encode_files
from ..format import compute as pc
from ..format.schema import encode_schema, plain

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from ..data.parquet import EncodedFile
    from ..format.footer import FooterMetadata
    from ..format.schema import EncodedSchema


class KeyMarks:
    """Writes the files of one table.

    Args:
        key: Of the table; empty if it has none.
        schema: Of the files, with the ids of columns.
        encoded: The same as the log keeps it.

    Attributes:
        used: The schemas of the files written so far, each once.
    """

    def __init__(self, key: Sequence[str], schema: pa.Schema, encoded: EncodedSchema) -> None:
        kinds = [schema.field(name).type for name in key if name in schema.names]
        known = len(kinds) == len(key) and all(map(is_key_type, kinds))
        self._key = list(key) if known else []
        self._encoded = encoded
        self._marked = encode_schema(schema, once=key) if self._key else encoded
        self._schema = schema
        self._seen: list[pa.Table] = []
        self.used: dict[bytes, EncodedSchema] = {}

    def files(
        self, rows: Iterator[pa.RecordBatch], meta: FooterMetadata, **options: Any
    ) -> Iterator[EncodedFile]:
        """`encode_files`, and the facts of each file name its schema with the mark, or without."""
        see = self._see if self._key else None
        for file in encode_files(
            rows, self._schema, meta, encoded=self._encoded, see=see, **options
        ):
            schema = self._marked if self._key and self._is_once() else self._encoded
            file.facts.schema_fingerprint = schema.fingerprint
            self.used[schema.fingerprint] = schema
            self._seen.clear()
            yield file

    def _see(self, rows: pa.Table) -> None:
        self._seen.append(rows.select(self._key))

    def _is_once(self) -> bool:
        """Whether no two rows seen have one key."""
        return not has_twice(pa.concat_tables(self._seen))


def has_twice(keys: pa.Table) -> bool:
    """Whether two rows are the same, those with nulls aside."""
    held = keys
    for name in keys.schema.names:
        if held.column(name).null_count:
            held = held.filter(pc.is_valid(held.column(name)))
    forms = pa.schema([(field.name, plain(field.type)) for field in held.schema])
    held = held.cast(forms)  # dictionaries of several chunks may name one value twice
    distinct: pa.Table = held.group_by(forms.names).aggregate([])
    return bool(distinct.num_rows < held.num_rows)
