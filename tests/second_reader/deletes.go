package main

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// Deletes: tombstones, and rows of files by their numbers. Sections 5.6, 5.7 and 6.8.

const (
	maxPredicate   = 65_536
	maxBitmap      = 1 << 30
	maxCardinality = 1 << 32
)

type fileKey struct{ table, path string }

// A spot is where in a log something was said.
type spot struct {
	revision int64
	number   int
}

func (a spot) compare(b spot) int {
	return cmp.Or(cmp.Compare(a.revision, b.revision), cmp.Compare(a.number, b.number))
}

type tombstone struct {
	spot
	table, predicate string
	columns          *definition // nil: it names none
	paths            []string
}

type rowDeletes struct {
	spot
	fileKey
	object                      string
	offset, length, cardinality uint64
	digest                      []byte
	coversBelow                 uint64 // of actions
}

func decodeTombstone(message []byte) *tombstone {
	t := &tombstone{}
	var columns joined
	each(message, func(f wireField) {
		switch {
		case f.is(1, wireBytes):
			t.table = string(f.bytes)
		case f.is(2, wireBytes):
			t.predicate = string(f.bytes)
		case f.is(3, wireBytes):
			columns.add(f.bytes)
		case f.is(4, wireBytes):
			t.paths = append(t.paths, string(f.bytes))
		}
	})
	if columns.there {
		t.columns = decodeDefinition(columns.bytes).kept(0)
	}
	return t
}

func decodeRowDeletes(message []byte) *rowDeletes {
	r := &rowDeletes{}
	each(message, func(f wireField) {
		switch {
		case f.is(1, wireBytes):
			r.table = string(f.bytes)
		case f.is(2, wireBytes):
			r.path = string(f.bytes)
		case f.is(3, wireBytes):
			r.object = string(f.bytes)
		case f.is(4, wireVarint):
			r.offset = f.value
		case f.is(5, wireVarint):
			r.length = f.value
		case f.is(6, wireVarint):
			r.cardinality = f.value
		case f.is(7, wireBytes):
			r.digest = bytes.Clone(f.bytes)
		case f.is(8, wireVarint):
			r.coversBelow = f.value
		}
	})
	return r
}

// check holds it to the (E) rules of section 5.6.
func (t *tombstone) check() error {
	switch {
	case !tableFits(t.table):
		return damage("Tombstone: wrong table")
	case len(t.predicate) < 1 || len(t.predicate) > maxPredicate:
		return damage("Tombstone: length of its predicate")
	case t.columns != nil && (t.columns.table != t.table || len(t.columns.columns) == 0):
		return damage("Tombstone: columns of another table, or none")
	}
	for i, path := range t.paths {
		if !pathFits(path) || i > 0 && t.paths[i-1] >= path {
			return damage("Tombstone: wrong paths")
		}
	}
	if t.columns != nil {
		return t.columns.check()
	}
	return nil
}

var deletesName = regexp.MustCompile(`^([1-9][0-9]{0,18})-[0-9a-f]{32}-[0-9]{1,9}\.deletes$`)

// check holds it to the (E) rules of section 5.7.
func (r *rowDeletes) check() error {
	if !tableFits(r.table) || !pathFits(r.path) || !pathFits(r.object) || !strings.HasPrefix(r.object, "data/") {
		return damage("RowDeletes: wrong table or path")
	}
	named := deletesName.FindStringSubmatch(r.object[strings.LastIndexByte(r.object, '/')+1:])
	if named == nil {
		return damage("RowDeletes: wrong name of its object")
	}
	if epoch, err := strconv.ParseUint(named[1], 10, 64); err != nil || epoch > maxNumber {
		return damage("RowDeletes: wrong name of its object")
	}
	if max(r.offset, r.coversBelow) > maxNumber || r.length < 1 || r.length > maxBitmap || r.cardinality < 1 ||
		r.cardinality > maxCardinality || len(r.digest) != 32 {
		return damage("RowDeletes: a bitmap that can't be")
	}
	return nil
}

// deletes are all that a log holds, as far as they hold.
type deletes struct {
	tombstones map[string][]*tombstone
	rows       map[fileKey][]*rowDeletes
}

func newDeletes() *deletes {
	return &deletes{map[string][]*tombstone{}, map[fileKey][]*rowDeletes{}}
}

func (d *deletes) bury(t *tombstone) { d.tombstones[t.table] = append(d.tombstones[t.table], t) }

// forget ends what tombstones say of a table.
func (d *deletes) forget(table string) { delete(d.tombstones, table) }

func (d *deletes) strike(r *rowDeletes) {
	below := int64(min(r.coversBelow, uint64(r.revision)))
	kept := slices.DeleteFunc(d.rows[r.fileKey], func(other *rowDeletes) bool { return other.revision < below })
	d.rows[r.fileKey] = append(kept, r)
}

// onlyOnce tells whether no action stands in two rows.
func (d *deletes) onlyOnce() error {
	seen := map[any]bool{}
	know := func(key any) bool {
		known := seen[key]
		seen[key] = true
		return !known
	}
	type of struct {
		fileKey
		spot
	}
	for table, found := range d.tombstones {
		for _, t := range found {
			if !know(of{fileKey{table: table}, t.spot}) {
				return damage("TOMBSTONES: two rows of one action")
			}
		}
	}
	for key, found := range d.rows {
		for _, r := range found {
			if !know(of{key, r.spot}) {
				return damage("ROW_DELETES: two rows of one action")
			}
		}
	}
	return nil
}

func (d *deletes) lines() (lines []string) {
	for _, found := range d.tombstones {
		for _, t := range found {
			columns := ""
			if t.columns != nil {
				columns = t.columns.said()
			}
			lines = append(lines, fmt.Sprintf("tombstone|%s|%d|%d|%x|%s|%s", t.table, t.revision, t.number,
				sha256.Sum256([]byte(t.predicate)), columns, strings.Join(t.paths, ",")))
		}
	}
	for key, found := range d.rows {
		for _, r := range found {
			lines = append(lines, fmt.Sprintf("rows|%s|%s|%d|%d|%s|%d|%d|%d|%s", key.table, key.path, r.revision, r.number,
				r.object, r.offset, r.length, r.cardinality, hex.EncodeToString(r.digest)))
		}
	}
	slices.Sort(lines)
	return slices.Compact(lines)
}

// holds tells whether a tombstone may delete rows of a file.
func (t *tombstone) holds(f *liveFile) bool {
	return f.revision < t.revision && (len(t.paths) == 0 || slices.Contains(t.paths, f.path))
}

// deletedLines says of each file of a table of which a delete holds, what is deleted.
func (r *reader) deletedLines(name string, files *table, d *deletes) (lines []string) {
	folder := r.bases.listing.folder
	for _, path := range slices.Sorted(maps.Keys(files.live)) {
		file := files.live[path]
		var held []spot
		for _, t := range d.tombstones[name] {
			if t.holds(file) {
				held = append(held, t.spot)
			}
		}
		said := d.rows[fileKey{name, path}]
		if len(held) == 0 && len(said) == 0 {
			continue
		}
		slices.SortFunc(held, spot.compare)
		var numbers []string
		for _, at := range slices.Compact(held) {
			numbers = append(numbers, fmt.Sprintf("%d.%d", at.revision, at.number))
		}
		rows := ""
		if ranges, err := deletedRows(folder, said, file.rows); err != nil {
			rows = refusal(err)
		} else {
			rows = rangesText(ranges)
		}
		lines = append(lines, fmt.Sprintf("%s|%s|%s", path, strings.Join(numbers, ","), rows))
	}
	slices.Sort(lines)
	return lines
}

func rangesText(ranges []span) string {
	var texts []string
	for _, s := range ranges {
		texts = append(texts, fmt.Sprintf("%d-%d", s.first, s.last))
	}
	return strings.Join(texts, ",")
}

// deletedRows gives the rows that all bitmaps of a file delete together.
func deletedRows(folder string, said []*rowDeletes, rows int64) (found []span, err error) {
	for _, r := range said {
		own, problem := r.read(folder, rows)
		if problem != nil {
			err = worse(err, in(r.object, problem))
		}
		found = append(found, own...)
	}
	slices.SortFunc(found, func(a, b span) int { return cmp.Compare(a.first, b.first) })
	return joinSpans(found), err
}

func (r *rowDeletes) read(folder string, rows int64) ([]span, error) {
	f, err := openFrame(folder+"/"+r.object, kindDeletes, anyIncarnation)
	if err != nil {
		return nil, err
	}
	if attached := uint64(len(f.attachments)); r.offset > attached || r.length > attached-r.offset {
		return nil, damage("a bitmap beyond the attachments")
	}
	raw := f.attachments[r.offset : r.offset+r.length]
	if digest := sha256.Sum256(raw); !bytes.Equal(digest[:], r.digest) {
		return nil, damage("another bitmap than the log names")
	}
	found, err := decodeBitmap(raw)
	if err != nil {
		return nil, err
	}
	count := uint64(0)
	for _, s := range found {
		count += uint64(s.last-s.first) + 1
	}
	if count != r.cardinality || int64(found[len(found)-1].last) >= rows {
		return nil, damage("another number of rows, or rows beyond the file")
	}
	return found, nil
}

var rowDeletesColumns = []columnSpec{
	{"table", "string", false}, {"path", "string", false}, {"revision", "int64", false}, {"number", "int32", false},
	{"object", "string", false}, {"offset", "int64", false}, {"length", "int64", false}, {"cardinality", "int64", false},
	{"digest", "fixed_size_binary[32]", false},
}

// readRowDeletes takes in the rows of a ROW_DELETES segment.
func (s *source) readRowDeletes(r *reference, into *deletes) error {
	b, err := s.open(&r.segmentRef, rowDeletesColumns)
	if err != nil {
		return err
	}
	if err := s.budget.take(int64(b.rows) * 400); err != nil {
		return err
	}
	var last *rowDeletes
	for i := range b.rows {
		number := func(name string) uint64 { return uint64(b.columns[name].int64(i)) }
		d := &rowDeletes{fileKey: fileKey{b.columns["table"].text(i), b.columns["path"].text(i)},
			object: b.columns["object"].text(i), offset: number("offset"), length: number("length"),
			cardinality: number("cardinality"), digest: b.columns["digest"].fixed(i)}
		d.spot = spot{b.columns["revision"].int64(i), int(b.columns["number"].int32(i))}
		if err := d.check(); err != nil {
			return damage("ROW_DELETES: row %d: %s", i, err)
		}
		if err := s.spotFits(d.spot); err != nil {
			return damage("ROW_DELETES: row %d: %s", i, err)
		}
		if last != nil && cmp.Or(cmp.Compare(last.table, d.table), cmp.Compare(last.path, d.path), last.compare(d.spot)) >= 0 {
			return damage("ROW_DELETES: row %d: is not above the one before it", i)
		}
		into.rows[d.fileKey] = append(into.rows[d.fileKey], d)
		last = d
	}
	return r.tablesFit(b)
}

func (s *source) spotFits(at spot) error {
	if at.revision < 0 || at.revision > s.revision || at.number < 0 {
		return damage("wrong revision or number")
	}
	return nil
}

// tablesFit compares the first and the last table with the reference.
func (r *reference) tablesFit(b *batch) error {
	tables := b.columns["table"]
	if tables.text(0) != r.firstTable || tables.text(b.rows-1) != r.lastTable {
		return damage("%s: another range than its reference says", segmentNames[r.kind])
	}
	return nil
}

var tombstonesColumns = []columnSpec{
	{"table", "string", false}, {"revision", "int64", false}, {"number", "int32", false}, {"tombstone", "binary", false},
}

// readTombstones takes in the rows of a TOMBSTONES segment.
func (s *source) readTombstones(r *reference, into *deletes) error {
	b, err := s.open(&r.segmentRef, tombstonesColumns)
	if err != nil {
		return err
	}
	var last *tombstone
	for i := range b.rows {
		message := b.columns["tombstone"].bytes(i)
		if err := checkWire(wireTombstone, message); err != nil {
			return damage("TOMBSTONES: row %d: %s", i, err)
		}
		if err := s.budget.take(int64(400 + 4*len(message))); err != nil {
			return err
		}
		t := decodeTombstone(message)
		t.spot = spot{b.columns["revision"].int64(i), int(b.columns["number"].int32(i))}
		if err := t.check(); err != nil {
			return damage("TOMBSTONES: row %d: %s", i, err)
		}
		if err := s.spotFits(t.spot); err != nil || t.table != b.columns["table"].text(i) {
			return damage("TOMBSTONES: row %d: wrong table, revision or number", i)
		}
		if last != nil && cmp.Or(cmp.Compare(last.table, t.table), last.compare(t.spot)) >= 0 {
			return damage("TOMBSTONES: row %d: is not above the one before it", i)
		}
		into.bury(t)
		last = t
	}
	return r.tablesFit(b)
}
