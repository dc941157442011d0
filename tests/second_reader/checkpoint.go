package main

import (
	"encoding/hex"
	"math/bits"
	"slices"
)

// Checkpoints and the REFERENCES segment: sections 6, 6.6 and 6.7.

type checkpoint struct {
	frame          *frame
	name           logName
	revision       uint64
	uuid           []byte
	successor      []byte
	digest         []byte
	epoch          uint64
	committedAt    int64
	transactionID  []byte
	readerFeatures []string
	writerFeatures []string
	writer         string
	database       string
	files          uint64
	references     segmentRef
	firstEpoch     uint64
	begunAt        int64
	locations      []string
}

func decodeCheckpoint(message []byte) *checkpoint {
	c := &checkpoint{}
	var counts, references joined
	each(message, func(f wireField) {
		switch {
		case f.is(1, wireVarint):
			c.revision = f.value
		case f.is(2, wireBytes):
			c.uuid = f.bytes
		case f.is(3, wireBytes):
			c.successor = f.bytes
		case f.is(4, wireBytes):
			c.digest = f.bytes
		case f.is(5, wireVarint):
			c.epoch = f.value
		case f.is(6, wireVarint):
			c.committedAt = zigzag(f.value)
		case f.is(7, wireBytes):
			c.transactionID = f.bytes
		case f.is(8, wireBytes):
			c.readerFeatures = append(c.readerFeatures, string(f.bytes))
		case f.is(9, wireBytes):
			c.writerFeatures = append(c.writerFeatures, string(f.bytes))
		case f.is(10, wireBytes):
			c.writer = string(f.bytes)
		case f.is(11, wireBytes):
			c.database = string(f.bytes)
		case f.is(12, wireBytes):
			counts.add(f.bytes)
		case f.is(13, wireBytes):
			references.add(f.bytes)
		case f.is(14, wireVarint):
			c.firstEpoch = f.value
		case f.is(15, wireVarint):
			c.begunAt = zigzag(f.value)
		case f.is(16, wireBytes):
			c.locations = append(c.locations, string(f.bytes))
		}
	})
	each(counts.bytes, func(f wireField) {
		if f.is(1, wireVarint) {
			c.files = f.value
		}
	})
	c.references = decodeSegmentRef(references.bytes)
	return c
}

// openCheckpoint opens an object of a log by its name, and holds its message to the (E) rules.
func openCheckpoint(folder string, name logName) (*checkpoint, error) {
	f, err := openFrame(folder+"/transactions/"+name.name, kindCheckpoint, name.incarnation)
	if err != nil {
		return nil, in(name.name, err)
	}
	c := decodeCheckpoint(f.message)
	c.frame, c.name = f, name
	for _, feature := range c.readerFeatures {
		if !readable[feature] {
			return nil, in(name.name, newer("requires the reader feature %q", feature))
		}
	}
	if k := c.references.kind; !knownSegment(k) {
		return nil, in(name.name, newer("a segment of unknown kind %d", k))
	}
	return c, in(name.name, c.damaged())
}

func (c *checkpoint) damaged() error {
	r := &c.references
	attached := uint64(len(c.frame.attachments))
	switch {
	case c.revision != c.name.revision:
		return damage("its revision is not that of its name")
	case len(c.uuid) != 16 || hex.EncodeToString(c.uuid[:4]) != c.name.uuid8:
		return damage("its slot uuid is not that of its name")
	case len(c.successor) != 16 || len(c.digest) != 32 || len(c.transactionID) != 16:
		return damage("wrong length of an id or digest")
	case c.epoch < 1 || c.epoch > maxNumber || c.committedAt < 1 || c.committedAt > maxCommitTime:
		return damage("epoch or commit time out of range")
	case c.firstEpoch < 1 || c.firstEpoch > c.epoch || c.begunAt < 1 || c.begunAt > maxCommitTime:
		return damage("first epoch or beginning out of range")
	case !featuresFit(c.readerFeatures) || !featuresFit(c.writerFeatures):
		return damage("wrong features")
	case !locationsFit(c.locations):
		return damage("wrong locations")
	case !folderID.MatchString(c.writer) || !folderID.MatchString(c.database):
		return damage("wrong names")
	case r.kind != segReferences || r.rows < 1 || r.rows > maxReferences:
		return damage("wrong reference to REFERENCES")
	case len(r.digest) != 0 && len(r.digest) != 32:
		return damage("wrong digest of REFERENCES")
	case len(r.digest) == 0 && (r.offset > attached || r.length > attached-r.offset):
		return damage("REFERENCES is not within the attachments")
	}
	return nil
}

func featuresFit(names []string) bool {
	for i, name := range names {
		if !shortText(name) || i > 0 && names[i-1] >= name {
			return false
		}
	}
	return len(names) <= maxFeatures
}

func locationsFit(urls []string) bool {
	for i, url := range urls {
		if !locationFits(url) || i > 0 && urls[i-1] >= url {
			return false
		}
	}
	return len(urls) <= maxLocations
}

// A reference is a row of REFERENCES, or a SegmentRef of a message.
type reference struct {
	segmentRef
	part, run int32
	dead      []byte
}

func (r *reference) covers(table string) bool { return r.firstTable <= table && table <= r.lastTable }

func (r *reference) isDead(row int) bool { return r.dead != nil && r.dead[row/8]>>(row%8)&1 == 1 }

var referenceColumns = []columnSpec{
	{"kind", "uint8", false}, {"part", "int32", false}, {"run", "int32", false},
	{"digest", "fixed_size_binary[32]", true}, {"offset", "int64", false}, {"length", "int64", false},
	{"row_count", "int64", false}, {"total_rows", "int64", false}, {"total_bytes", "int64", false},
	{"first_table", "string", false}, {"first_path", "string", false}, {"last_table", "string", false},
	{"last_path", "string", false}, {"min_partition", "string", false}, {"max_partition", "string", false}, {"columns", "list of string", false},
	{"first_revision", "int64", false}, {"last_revision", "int64", false}, {"dead", "binary", true},
}

// readReferences reads the segment that names all others. What is too new is looked for as soon as the kinds can be read.
func (c *checkpoint) readReferences(s *source) ([]reference, error) {
	piece, err := s.piece(&c.references)
	if err != nil {
		return nil, err
	}
	b, err := openBatch(piece, c.references.rows, segReferences, s.budget)
	if err != nil {
		return nil, err
	}
	if err := b.load(referenceColumns[0]); err != nil {
		return nil, err
	}
	for i, kind := range b.columns["kind"].data[:b.rows] {
		if !knownSegment(int32(kind)) {
			return nil, newer("row %d: a segment of unknown kind %d", i, kind)
		}
	}
	if err := b.load(referenceColumns[1:]...); err != nil {
		return nil, err
	}
	if err := s.budget.take(int64(b.rows)*400 + int64(b.columns["columns"].child.rows)*40); err != nil {
		return nil, err
	}
	rows := make([]reference, b.rows)
	for i := range rows {
		if rows[i], err = referenceRow(b, i, uint64(len(s.attachments))); err != nil {
			return nil, in("REFERENCES", err)
		}
	}
	return rows, in("REFERENCES", c.checkReferences(rows))
}

func referenceRow(b *batch, i int, attached uint64) (r reference, err error) {
	number := func(name string) uint64 { return uint64(b.columns[name].int64(i)) }
	text := func(name string) string { return b.columns[name].text(i) }
	r.kind = int32(b.columns["kind"].data[i])
	r.part, r.run = b.columns["part"].int32(i), b.columns["run"].int32(i)
	r.offset, r.length, r.rows = number("offset"), number("length"), number("row_count")
	r.totalRows, r.totalBytes = number("total_rows"), number("total_bytes")
	r.firstTable, r.firstPath = text("first_table"), text("first_path")
	r.lastTable, r.lastPath = text("last_table"), text("last_path")
	r.minPartition, r.maxPartition = text("min_partition"), text("max_partition")
	r.columns = b.columns["columns"].texts(i)
	r.firstRevision, r.lastRevision = number("first_revision"), number("last_revision")
	if d := b.columns["digest"]; !d.null(i) {
		r.digest = d.fixed(i)
	}
	switch {
	case r.kind == segReferences:
		return r, damage("row %d: names a segment of kind REFERENCES", i)
	case max(r.offset, r.length, r.totalRows, r.totalBytes, r.firstRevision, r.lastRevision) > maxNumber:
		return r, damage("row %d: a number out of range", i)
	case r.rows < 1 || r.rows > maxRows:
		return r, damage("row %d: number of rows out of range", i)
	case !r.columnsFit():
		return r, damage("row %d: wrong names of columns", i)
	case !r.rangeFits():
		return r, damage("row %d: its range is inverted", i)
	case r.kind != segFiles && r.run != -1:
		return r, damage("row %d: is in a run", i)
	case r.digest == nil && (r.offset > attached || r.length > attached-r.offset):
		return r, damage("row %d: not within the attachments", i)
	}
	dead := b.columns["dead"]
	if dead.null(i) {
		return r, nil
	}
	r.dead = dead.bytes(i)
	if r.kind != segFiles || uint64(len(r.dead)) != (r.rows+7)/8 {
		return r, damage("row %d: wrong bitmap of dead rows", i)
	}
	if used := r.rows % 8; used != 0 && r.dead[len(r.dead)-1]>>used != 0 {
		return r, damage("row %d: bits beyond the last row are set", i)
	}
	return r, nil
}

func (c *checkpoint) checkReferences(rows []reference) error {
	parts := int32(0)
	for parts < int32(len(rows)) && rows[parts].kind == segFiles {
		parts++
	}
	live := uint64(0)
	for i := range rows {
		r := &rows[i]
		switch {
		case r.kind == segFiles && int32(i) >= parts:
			return damage("row %d: FILES that do not come first", i)
		case r.kind == segFiles:
			if r.part != int32(i) {
				return damage("row %d: wrong number of a part", i)
			}
			if i == 0 && r.run != 0 {
				return damage("the first run is not 0")
			}
			if i > 0 {
				before := &rows[i-1]
				if r.run != before.run && r.run != before.run+1 {
					return damage("row %d: wrong number of a run", i)
				}
				if r.run == before.run && !lessPair(before.lastTable, before.lastPath, r.firstTable, r.firstPath) {
					return damage("row %d: is not above the one before it in its run", i)
				}
			}
			live += r.rows - deadRows(r.dead)
		case describesFiles(r.kind):
			if r.part < 0 || r.part >= parts {
				return damage("row %d: describes a part that is not there", i)
			}
		case r.part != -1:
			return damage("row %d: describes a part, and is of another kind", i)
		}
	}
	if live != c.files {
		return damage("names %d files instead of %d", live, c.files)
	}
	return nil
}

func deadRows(bitmap []byte) (n uint64) {
	for _, b := range bitmap {
		n += uint64(bits.OnesCount8(b))
	}
	return n
}

func lessPair(a1, a2, b1, b2 string) bool { return a1 < b1 || a1 == b1 && a2 < b2 }

func describesFiles(kind int32) bool {
	return slices.Contains([]int32{segRowGroups, segStatistics, segRowGroupStatistics}, kind)
}
