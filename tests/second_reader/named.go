package main

import (
	"bytes"
	"fmt"
	"slices"
)

// Logs that tombstones name, and up to where such a tombstone holds. Section 5.6.

// A logAt is a log at one of its revisions.
type logAt struct {
	writer        string
	logID         []byte
	incarnation   uint32
	revision      uint64
	transactionID []byte
	committedAt   int64
}

func decodeLogAt(message []byte) *logAt {
	at := &logAt{}
	each(message, func(f wireField) {
		switch {
		case f.is(1, wireBytes):
			at.writer = string(f.bytes)
		case f.is(2, wireBytes):
			at.logID = bytes.Clone(f.bytes)
		case f.is(3, wireVarint):
			at.incarnation = uint32(f.value)
		case f.is(4, wireVarint):
			at.revision = f.value
		case f.is(5, wireBytes):
			at.transactionID = bytes.Clone(f.bytes)
		case f.is(6, wireVarint):
			at.committedAt = zigzag(f.value)
		}
	})
	return at
}

// checkLogs holds the logs to the (E) rules.
func (t *tombstone) checkLogs() error {
	if len(t.logs) > 0 && len(t.paths) > 0 {
		return damage("Tombstone: paths and logs")
	}
	for i, at := range t.logs {
		switch {
		case i > 0 && bytes.Compare(t.logs[i-1].logID, at.logID) >= 0:
			return damage("Tombstone: logs out of order")
		case !folderID.MatchString(at.writer) || len(at.logID) != 16 || len(at.transactionID) != 16:
			return damage("Tombstone: a log of wrong names")
		case at.incarnation < 1 || at.incarnation > maxIncarnation || at.revision > maxRevision:
			return damage("Tombstone: a log at no revision that can be")
		case at.committedAt < 1 || at.committedAt > maxCommitTime:
			return damage("Tombstone: a log at no time that can be")
		}
	}
	return nil
}

func (at *logAt) said() string {
	return fmt.Sprintf("%s:%x:%d:%d:%x:%d", at.writer, at.logID, at.incarnation, at.revision, at.transactionID, at.committedAt)
}

// lastHeld gives the last revision of whose files a tombstone of this log holds in it; below 0, of none.
func (r *reader) lastHeld(t *tombstone, h *head) (int64, error) {
	if len(t.logs) == 0 {
		return t.revision - 1, nil
	}
	for _, at := range t.logs {
		if bytes.Equal(at.logID, h.logID[:]) {
			return r.lastNamed(at, h)
		}
	}
	return -1, nil
}

// lastNamed gives the revision of a state up to which its log is named.
func (r *reader) lastNamed(at *logAt, h *head) (int64, error) {
	if at.incarnation == r.bases.listing.incarnation && h.committedAt <= at.committedAt {
		return h.revision, nil
	}
	rows, err := r.history()
	if err != nil {
		return -1, err
	}
	of := func(found func(*historyRow) bool) int64 {
		for i := len(rows) - 1; i >= 0; i-- {
			if found(&rows[i]) {
				return rows[i].revision
			}
		}
		return -1
	}
	is := func(id []byte) bool { return bytes.Equal(id, at.transactionID) }
	if g := of(func(row *historyRow) bool { return slices.ContainsFunc(row.ids, is) }); g >= 0 {
		return g, nil
	}
	if g := of(func(row *historyRow) bool { return row.committedAt <= at.committedAt }); g >= 0 {
		return g, nil
	}
	first := rows[0].revision
	if first > 0 && at.incarnation != r.bases.listing.incarnation {
		return -1, damage("up to where a tombstone names this log can't be told")
	}
	return min(int64(at.revision), first-1), nil
}
