"""The kinds of segments, as plain numbers. Pure.

Source: proto/lakelog_segment.proto.
"""

from __future__ import annotations

from typing import Final

FILES: Final = 1
ROW_GROUPS: Final = 2
STATISTICS: Final = 3
ROW_GROUP_STATISTICS: Final = 4
SCHEMAS: Final = 5
APPLICATIONS: Final = 6
HISTORY: Final = 7
REFERENCES: Final = 8
DEFINITIONS: Final = 10
ROW_DELETES: Final = 9
TOMBSTONES: Final = 11

NAMES: Final[dict[int, str]] = {
    FILES: "FILES",
    ROW_GROUPS: "ROW_GROUPS",
    STATISTICS: "STATISTICS",
    ROW_GROUP_STATISTICS: "ROW_GROUP_STATISTICS",
    SCHEMAS: "SCHEMAS",
    APPLICATIONS: "APPLICATIONS",
    HISTORY: "HISTORY",
    REFERENCES: "REFERENCES",
    DEFINITIONS: "DEFINITIONS",
    ROW_DELETES: "ROW_DELETES",
    TOMBSTONES: "TOMBSTONES",
}
