package main

import (
	"bytes"
	"encoding/hex"
	"slices"
)

// Segments: where their pieces lie, and what their rows must keep. Sections 6 to 6.3, 6.5 and 6.7.

const (
	segFiles = iota + 1
	segRowGroups
	segStatistics
	segRowGroupStatistics
	segSchemas
	segApplications
	segHistory
	segReferences
	segRowDeletes
	segDefinitions
	segTombstones
)

// knownSegment tells whether a kind is one of this version.
func knownSegment(kind int32) bool {
	return kind >= segFiles && kind <= segTombstones
}

var segmentNames = []string{"", "FILES", "ROW_GROUPS", "STATISTICS", "ROW_GROUP_STATISTICS", "SCHEMAS", "APPLICATIONS",
	"HISTORY", "REFERENCES", "ROW_DELETES", "DEFINITIONS", "TOMBSTONES"}

// A segmentFacts is the message Segment.
type segmentFacts struct {
	kind                                       int32
	rows                                       uint64
	firstTable, firstPath, lastTable, lastPath string
	minPartition, maxPartition                 string
	columns                                    []string // of STATISTICS and ROW_GROUP_STATISTICS
	firstRevision, lastRevision                uint64
	totalRows, totalBytes                      uint64
}

type segmentRef struct {
	segmentFacts
	offset, length uint64
	digest         []byte // nil or empty: inline
}

func decodeSegment(message []byte) (s segmentFacts) {
	texts := []*string{3: &s.firstTable, 4: &s.firstPath, 5: &s.lastTable, 6: &s.lastPath, 12: &s.minPartition,
		13: &s.maxPartition}
	numbers := []*uint64{2: &s.rows, 8: &s.firstRevision, 9: &s.lastRevision, 10: &s.totalRows, 11: &s.totalBytes}
	each(message, func(f wireField) {
		switch {
		case f.is(1, wireVarint):
			s.kind = int32(f.value)
		case f.wire == wireVarint && int(f.number) < len(numbers) && numbers[f.number] != nil:
			*numbers[f.number] = f.value
		case f.wire == wireBytes && int(f.number) < len(texts) && texts[f.number] != nil:
			*texts[f.number] = string(f.bytes)
		case f.is(7, wireBytes):
			s.columns = append(s.columns, string(f.bytes))
		}
	})
	return s
}

func (s *segmentFacts) equal(o *segmentFacts) bool {
	return s.kind == o.kind && s.rows == o.rows && s.firstTable == o.firstTable && s.firstPath == o.firstPath &&
		s.lastTable == o.lastTable && s.lastPath == o.lastPath && slices.Equal(s.columns, o.columns) &&
		s.firstRevision == o.firstRevision && s.lastRevision == o.lastRevision && s.totalRows == o.totalRows &&
		s.totalBytes == o.totalBytes && s.minPartition == o.minPartition && s.maxPartition == o.maxPartition
}

// columnsFit tells whether names of columns are there for statistics, and only for them, and ascend strictly.
func (s *segmentFacts) columnsFit() bool {
	for i, name := range s.columns {
		if name == "" || i > 0 && s.columns[i-1] >= name {
			return false
		}
	}
	return (len(s.columns) > 0) == (s.kind == segStatistics || s.kind == segRowGroupStatistics)
}

// rangeFits tells whether no range is inverted.
func (s *segmentFacts) rangeFits() bool {
	switch s.kind {
	case segFiles:
		return !lessPair(s.lastTable, s.lastPath, s.firstTable, s.firstPath) && s.minPartition <= s.maxPartition
	case segSchemas, segRowDeletes, segTombstones:
		return s.firstTable <= s.lastTable
	case segHistory:
		return s.firstRevision <= s.lastRevision
	}
	return true
}

func decodeSegmentRef(message []byte) (r segmentRef) {
	var segment joined
	each(message, func(f wireField) {
		switch {
		case f.is(1, wireBytes):
			segment.add(f.bytes)
		case f.is(2, wireVarint):
			r.offset = f.value
		case f.is(3, wireVarint):
			r.length = f.value
		case f.is(4, wireBytes):
			r.digest = f.bytes
		}
	})
	r.segmentFacts = decodeSegment(segment.bytes)
	return r
}

// A source is where the pieces of one checkpoint or transaction lie.
type source struct {
	folder      string
	attachments []byte
	logID       [16]byte
	incarnation uint32
	revision    int64 // rows of FILES have at most this revision, or exactly it
	exact       bool
	budget      *budget
}

// piece gives the bytes of an Arrow IPC file. That inline pieces lie within the attachments was checked.
func (s *source) piece(r *segmentRef) ([]byte, error) {
	if len(r.digest) == 0 {
		return s.attachments[r.offset : r.offset+r.length], nil
	}
	name := "segments/" + hex.EncodeToString(r.digest) + ".segment"
	f, err := openFrame(s.folder+"/"+name, kindSegment, anyIncarnation)
	if err != nil {
		return nil, in(name, err)
	}
	switch {
	case !bytes.Equal(f.digest[:], r.digest):
		return nil, damage("%s: has another digest than its name", name)
	case f.size != r.length:
		return nil, damage("%s: has another length than its reference says", name)
	case f.logID != s.logID:
		return nil, damage("%s: belongs to another log", name)
	case f.incarnation > s.incarnation:
		return nil, damage("%s: belongs to a later incarnation", name)
	}
	if own := decodeSegment(f.message); !own.equal(&r.segmentFacts) {
		return nil, damage("%s: is not what its reference says", name)
	}
	return f.attachments, s.budget.take(int64(f.size))
}

// open gives a segment with all its columns loaded.
func (s *source) open(r *segmentRef, specs []columnSpec) (*batch, error) {
	piece, err := s.piece(r)
	if err != nil {
		return nil, err
	}
	b, err := openBatch(piece, r.rows, r.kind, s.budget)
	if err == nil {
		err = b.load(specs...)
	}
	return b, in(segmentNames[r.kind], err)
}

func inRange(n int64) bool { return n >= 0 && n <= maxNumber }

var filesColumns = []columnSpec{
	{"table", "string", false}, {"path", "string", false}, {"partition", "string", false}, {"size_bytes", "int64", false},
	{"row_count", "int64", false}, {"revision", "int64", false}, {"schema_fingerprint", "fixed_size_binary[16]", false},
	{"first_clock", "int64", false}, {"last_clock", "int64", false}, {"footer_bytes", "int64", false},
	{"footer_digest", "fixed_size_binary[8]", false}, {"row_groups", "int32", false},
	{"original_revision", "int64", true},
}

// A liveFile is a file of a table, from an Add or from a row of FILES.
type liveFile struct {
	path, partition       string
	size, rows, revision  int64
	fingerprint           [16]byte
	firstClock, lastClock int64
	footerBytes           int64
	footerDigest          [8]byte
	groups                int
	original              *int64   // the revision that first added it, if it was added again
	messages              [][]byte // of an Add: its row groups
	part                  *part    // of a row of FILES: where its statistics are
	row                   int32
}

// readFiles calls with each row of a FILES segment that is not dead, after all rows were checked.
func (s *source) readFiles(r *reference, p *part, call func(table string, file *liveFile)) error {
	b, err := s.open(&r.segmentRef, filesColumns)
	if err != nil {
		return err
	}
	if err := s.checkFiles(b, r); err != nil {
		return in("FILES", err)
	}
	if err := s.budget.take(int64(b.rows) * 300); err != nil {
		return err
	}
	tables, paths, partitions := b.columns["table"], b.columns["path"], b.columns["partition"]
	groups := b.columns["row_groups"]
	p.groups = make([]int32, b.rows)
	for i := range b.rows {
		p.groups[i] = groups.int32(i)
		if r.isDead(i) {
			continue
		}
		f := &liveFile{path: paths.text(i), partition: partitions.text(i), size: b.columns["size_bytes"].int64(i),
			rows: b.columns["row_count"].int64(i), revision: b.columns["revision"].int64(i),
			firstClock: b.columns["first_clock"].int64(i), lastClock: b.columns["last_clock"].int64(i),
			footerBytes: b.columns["footer_bytes"].int64(i), groups: int(groups.int32(i)), part: p, row: int32(i)}
		copy(f.fingerprint[:], b.columns["schema_fingerprint"].fixed(i))
		copy(f.footerDigest[:], b.columns["footer_digest"].fixed(i))
		if original := b.columns["original_revision"]; !original.null(i) {
			f.original = new(int64)
			*f.original = original.int64(i)
		}
		call(tables.text(i), f)
	}
	return nil
}

func (s *source) checkFiles(b *batch, r *reference) error {
	tables, paths, partitions := b.columns["table"], b.columns["path"], b.columns["partition"]
	var totalRows, totalBytes uint64
	var least, greatest string
	for i := range b.rows {
		table, path := tables.text(i), paths.text(i)
		partition := partitions.text(i)
		if !tableFits(table) || !pathFits(path) || !nameFits(partition) {
			return damage("row %d: wrong table, partition or path", i)
		}
		if i > 0 && !lessPair(tables.text(i-1), paths.text(i-1), table, path) {
			return damage("row %d: is not above the one before it", i)
		}
		size, rows, revision := b.columns["size_bytes"].int64(i), b.columns["row_count"].int64(i), b.columns["revision"].int64(i)
		if !inRange(size) || !inRange(rows) || !inRange(b.columns["footer_bytes"].int64(i)) ||
			b.columns["row_groups"].int32(i) < 0 {
			return damage("row %d: a number out of range", i)
		}
		if revision < 0 || revision > s.revision || s.exact && revision != s.revision {
			return damage("row %d: wrong revision", i)
		}
		totalRows, totalBytes = saturated(totalRows, uint64(rows)), saturated(totalBytes, uint64(size))
		if i == 0 {
			least, greatest = partition, partition
		}
		least, greatest = min(least, partition), max(greatest, partition)
	}
	last := b.rows - 1
	if tables.text(0) != r.firstTable || paths.text(0) != r.firstPath || tables.text(last) != r.lastTable ||
		paths.text(last) != r.lastPath {
		return damage("another range than its reference says")
	}
	if least != r.minPartition || greatest != r.maxPartition {
		return damage("other partitions than its reference says")
	}
	if totalRows != r.totalRows || totalBytes != r.totalBytes {
		return damage("other totals than its reference says")
	}
	return nil
}

// saturated adds numbers up to 2^62 - 1.
func saturated(a, b uint64) uint64 { return min(a+min(b, maxNumber), maxNumber) }

var schemasColumns = []columnSpec{
	{"table", "string", false}, {"fingerprint", "fixed_size_binary[16]", false}, {"arrow_schema", "binary", false},
	{"key", "list of string", true}, {"sort_order", "list of string", true}, {"revision", "int64", false},
}

// readSchemas calls with each row of a SCHEMAS segment, after all were checked.
func (s *source) readSchemas(r *reference, call func(table string, fingerprint []byte, schema *schemaInfo)) error {
	b, err := s.open(&r.segmentRef, schemasColumns)
	if err != nil {
		return err
	}
	cost := 300 * b.rows
	for _, list := range []string{"key", "sort_order"} {
		cost += 40 * b.columns[list].child.rows
	}
	if err := s.budget.take(int64(cost)); err != nil {
		return err
	}
	tables, fingerprints := b.columns["table"], b.columns["fingerprint"]
	schemas := make([]*schemaInfo, b.rows)
	for i := range b.rows {
		info := &schemaInfo{revision: b.columns["revision"].int64(i)}
		info.arrow = b.columns["arrow_schema"].bytes(i)
		info.key, info.sort = b.columns["key"].texts(i), b.columns["sort_order"].texts(i)
		if err := info.check(fingerprints.fixed(i)); err != nil {
			return damage("SCHEMAS: row %d: %s", i, err)
		}
		if !tableFits(tables.text(i)) || info.revision < 0 || info.revision > s.revision {
			return damage("SCHEMAS: row %d: wrong table or revision", i)
		}
		if i > 0 && !lessPair(tables.text(i-1), string(fingerprints.fixed(i-1)), tables.text(i), string(fingerprints.fixed(i))) {
			return damage("SCHEMAS: row %d: is not above the one before it", i)
		}
		schemas[i] = info
	}
	if err := r.tablesFit(b); err != nil {
		return err
	}
	for i, info := range schemas {
		call(tables.text(i), fingerprints.fixed(i), info)
	}
	return nil
}

var applicationsColumns = []columnSpec{
	{"app_id", "string", false}, {"app_version", "int64", false}, {"committed_at_us", "int64", false},
}

type application struct{ version, time int64 }

func (s *source) readApplications(r *reference, into map[string]application) error {
	b, err := s.open(&r.segmentRef, applicationsColumns)
	if err != nil {
		return err
	}
	if err := s.budget.take(int64(b.rows) * 150); err != nil {
		return err
	}
	ids := b.columns["app_id"]
	for i := range b.rows {
		id, a := ids.text(i), application{b.columns["app_version"].int64(i), b.columns["committed_at_us"].int64(i)}
		if id == "" || len(id) > maxAppID || !inRange(a.version) || a.time < 1 || a.time > maxCommitTime {
			return damage("APPLICATIONS: row %d: out of range", i)
		}
		if i > 0 && ids.text(i-1) >= id {
			return damage("APPLICATIONS: row %d: is not above the one before it", i)
		}
		known, there := into[id]
		if !there || a.version > known.version || a.version == known.version && a.time > known.time {
			into[id] = a
		}
	}
	return nil
}

var historyColumns = []columnSpec{
	{"revision", "int64", false}, {"uuid", "fixed_size_binary[16]", false}, {"digest", "fixed_size_binary[32]", false},
	{"committed_at", "timestamp[us, tz=UTC]", false}, {"epoch", "int64", false}, {"guest", "bool", false},
	{"operation", "string", false}, {"transaction_ids", "list of fixed_size_binary[16]", false},
	{"files_added", "int64", false}, {"files_removed", "int64", false}, {"rows_added", "int64", false},
	{"bytes_added", "int64", false}, {"summary_keys", "list of string", false}, {"summary_values", "list of string", false},
}

type historyRow struct {
	revision     int64
	uuid, digest []byte
	committedAt  int64
	epoch        uint64
	guest        bool
	operation    string
	ids          [][]byte
	filesAdded   uint64
	filesRemoved uint64
	rowsAdded    uint64
	bytesAdded   uint64
	summary      []string // key=value
}

// readHistory gives the rows of one HISTORY segment.
func (s *source) readHistory(r *reference) ([]historyRow, error) {
	b, err := s.open(&r.segmentRef, historyColumns)
	if err != nil {
		return nil, err
	}
	ids, keys, values := b.columns["transaction_ids"], b.columns["summary_keys"], b.columns["summary_values"]
	if err := s.budget.take(int64(b.rows)*200 + int64(ids.child.rows)*24 + int64(keys.child.rows+values.child.rows)*40); err != nil {
		return nil, err
	}
	rows := make([]historyRow, b.rows)
	for i := range rows {
		number := func(name string) int64 { return b.columns[name].int64(i) }
		row := historyRow{revision: number("revision"), uuid: b.columns["uuid"].fixed(i), digest: b.columns["digest"].fixed(i),
			committedAt: number("committed_at"), epoch: uint64(number("epoch")), guest: b.columns["guest"].bool(i),
			operation: b.columns["operation"].text(i), filesAdded: uint64(number("files_added")),
			filesRemoved: uint64(number("files_removed")), rowsAdded: uint64(number("rows_added")),
			bytesAdded: uint64(number("bytes_added"))}
		for from, to := ids.span(i); from < to; from++ {
			row.ids = append(row.ids, ids.child.fixed(from))
		}
		said, of := keys.texts(i), values.texts(i)
		if len(said) != len(of) {
			return nil, damage("HISTORY: row %d: keys without values", i)
		}
		for at, key := range said {
			row.summary = append(row.summary, key+"="+of[at])
		}
		switch {
		case row.revision < 0 || row.revision > s.revision || i > 0 && row.revision != rows[i-1].revision+1:
			return nil, damage("HISTORY: row %d: wrong revision", i)
		case row.committedAt < 1 || row.committedAt > maxCommitTime || i > 0 && row.committedAt <= rows[i-1].committedAt:
			return nil, damage("HISTORY: row %d: wrong commit time", i)
		case row.epoch < 1 || row.epoch > maxNumber:
			return nil, damage("HISTORY: row %d: epoch out of range", i)
		case max(row.filesAdded, row.filesRemoved, row.rowsAdded, row.bytesAdded) > maxNumber:
			return nil, damage("HISTORY: row %d: a number out of range", i)
		}
		rows[i] = row
	}
	if rows[0].revision != int64(r.firstRevision) || rows[len(rows)-1].revision != int64(r.lastRevision) {
		return nil, damage("HISTORY: another range than its reference says")
	}
	return rows, nil
}
