package main

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/klauspost/compress/zstd"
)

// A small writer of logs, for the tests of the reader.

// Messages.

type message []byte

func (m message) number(field int, value uint64) message {
	m = binary.AppendUvarint(m, uint64(field)<<3)
	return binary.AppendUvarint(m, value)
}
func (m message) signed(field int, value int64) message {
	return m.number(field, uint64(value<<1)^uint64(value>>63))
}
func (m message) bytes(field int, value []byte) message {
	m = binary.AppendUvarint(m, uint64(field)<<3|2)
	m = binary.AppendUvarint(m, uint64(len(value)))
	return append(m, value...)
}
func (m message) text(field int, value string) message { return m.bytes(field, []byte(value)) }

// Frames.

var logID = [16]byte{1, 2, 3}

type frameOptions struct {
	version, codec byte
	incarnation    uint32
	logID          [16]byte
}

var encoder, _ = zstd.NewWriter(nil, zstd.WithSingleSegment(true), zstd.WithEncoderConcurrency(1))

func plain() frameOptions { return frameOptions{version: 1, incarnation: 1, logID: logID} }

func makeFrame(kind byte, m []byte, attachments []byte, o frameOptions) []byte {
	stored := m
	if o.codec == 1 {
		stored = encoder.EncodeAll(m, nil)
	}
	b := []byte{'L', 'K', 'L', 'G', o.version, kind, o.codec, 0}
	b = binary.LittleEndian.AppendUint32(b, uint32(len(stored)))
	b = binary.LittleEndian.AppendUint32(b, uint32(len(m)))
	b = binary.LittleEndian.AppendUint64(b, uint64(len(attachments)))
	b = append(b, o.logID[:]...)
	b = binary.LittleEndian.AppendUint32(b, o.incarnation)
	b = append(b, make([]byte, 4+32)...)
	return sealFrame(append(append(b, stored...), attachments...))
}

// sealFrame puts the right digest into a frame.
func sealFrame(b []byte) []byte {
	hash := sha256.New()
	hash.Write(b[:48])
	hash.Write(b[80:])
	copy(b[48:], hash.Sum(nil))
	return b
}

// Flatbuffers, written forwards: what a table refers to stands behind it. Nothing is aligned.

type slot struct {
	inline []byte
	child  func(*[]byte) int // writes what is referred to, and gives where it is
}

func putTable(b *[]byte, slots ...slot) int {
	vtable, size := len(*b), 4
	*b = binary.LittleEndian.AppendUint16(*b, uint16(4+2*len(slots)))
	*b = append(*b, 0, 0)
	for _, s := range slots {
		offset := 0
		switch {
		case s.child != nil:
			offset, size = size, size+4
		case s.inline != nil:
			offset, size = size, size+len(s.inline)
		}
		*b = binary.LittleEndian.AppendUint16(*b, uint16(offset))
	}
	at := len(*b)
	*b = binary.LittleEndian.AppendUint32(*b, uint32(at-vtable))
	var later []func()
	for _, s := range slots {
		if s.child == nil {
			*b = append(*b, s.inline...)
			continue
		}
		here := len(*b)
		*b = append(*b, 0, 0, 0, 0)
		later = append(later, func() { putOffset(b, here, s.child(b)) })
	}
	for _, write := range later {
		write()
	}
	return at
}

func putOffset(b *[]byte, here, to int) { binary.LittleEndian.PutUint32((*b)[here:], uint32(to-here)) }

func putVector(b *[]byte, n int, elements []byte) int {
	at := len(*b)
	*b = append(binary.LittleEndian.AppendUint32(*b, uint32(n)), elements...)
	return at
}

func child(slots ...slot) slot {
	return slot{child: func(b *[]byte) int { return putTable(b, slots...) }}
}
func vector(n int, elements []byte) slot {
	return slot{child: func(b *[]byte) int { return putVector(b, n, elements) }}
}
func name(text string) slot { return vector(len(text), []byte(text)) }
func short(n int) slot      { return slot{inline: binary.LittleEndian.AppendUint16(nil, uint16(n))} }
func word(n int) slot       { return slot{inline: u32(n)} }
func octet(n byte) slot     { return slot{inline: []byte{n}} }
func long(n int) slot       { return slot{inline: binary.LittleEndian.AppendUint64(nil, uint64(n))} }
func tables(list ...slot) slot {
	return slot{child: func(b *[]byte) int {
		at := putVector(b, len(list), make([]byte, 4*len(list)))
		for i, t := range list {
			putOffset(b, at+4+4*i, t.child(b))
		}
		return at
	}}
}
func root(slots ...slot) []byte {
	b := []byte{0, 0, 0, 0}
	putOffset(&b, 0, putTable(&b, slots...))
	return b
}

// Arrow.

func fieldOf(column, typeName string, metadata ...slot) slot {
	var id byte
	var kind slot
	var children slot
	number, binaryWidth, unit := 0, 0, ""
	switch {
	case typeName == "string":
		id, kind = typeUtf8, child()
	case typeName == "binary":
		id, kind = typeBinary, child()
	case typeName == "bool":
		id, kind = typeBool, child()
	case len(typeName) > 8 && typeName[:8] == "list of ":
		id, kind, children = typeList, child(), tables(fieldOf("item", typeName[8:]))
	case scan(typeName, "int%d", &number):
		id, kind = typeInt, child(word(number), octet(1))
	case scan(typeName, "uint%d", &number):
		id, kind = typeInt, child(word(number), octet(0))
	case typeName == "double":
		id, kind = typeFloat, child(short(2))
	case scan(typeName, "fixed_size_binary[%d]", &binaryWidth):
		id, kind = typeFixedBinary, child(word(binaryWidth))
	case typeName == "timestamp[us, tz=UTC]":
		id, kind = typeTimestamp, child(short(2), name("UTC"))
	default:
		panic(typeName + unit)
	}
	return child(append([]slot{name(column), octet(1), octet(id), kind, {}, children}, metadata...)...)
}

func scan(text, format string, into *int) bool { n, _ := fmt.Sscanf(text, format, into); return n == 1 }

// arrowSchema makes Schema.arrow_schema of pairs of names and types; the columns are numbered from 1 on.
func arrowSchema(pairs ...string) []byte {
	var fields []slot
	for i := 0; i < len(pairs); i += 2 {
		id := tables(child(name("PARQUET:field_id"), name(fmt.Sprint(1+i/2))))
		fields = append(fields, fieldOf(pairs[i], pairs[i+1], id))
	}
	meta := root(short(metadataV5), octet(headerSchema), child(slot{}, tables(fields...)))
	for len(meta)%8 != 0 {
		meta = append(meta, 0)
	}
	return append(append([]byte{255, 255, 255, 255}, u32(len(meta))...), meta...)
}

// A body collects the nodes and buffers of a record batch.
type body struct {
	nodes, buffers, bytes []byte
	buffersLen, nodesLen  int
	compress              bool
}

func (w *body) node(rows, nulls int) {
	w.nodes = binary.LittleEndian.AppendUint64(binary.LittleEndian.AppendUint64(w.nodes, uint64(rows)), uint64(nulls))
	w.nodesLen++
}

func (w *body) buffer(b []byte) {
	if w.compress && len(b) > 0 {
		b = encoder.EncodeAll(b, binary.LittleEndian.AppendUint64(nil, uint64(len(b))))
	}
	w.buffers = binary.LittleEndian.AppendUint64(binary.LittleEndian.AppendUint64(w.buffers, uint64(len(w.bytes))), uint64(len(b)))
	w.buffersLen++
	w.bytes = append(w.bytes, b...)
	for len(w.bytes)%8 != 0 {
		w.bytes = append(w.bytes, 0)
	}
}

// values writes a column; nil is a null.
func (w *body) values(typeName string, values []any) {
	nulls, bits := 0, make([]byte, (len(values)+7)/8)
	for i, v := range values {
		if v == nil {
			nulls++
		} else {
			bits[i/8] |= 1 << (i % 8)
		}
	}
	w.node(len(values), nulls)
	if nulls == 0 {
		bits = nil
	}
	w.buffer(bits)
	var offsets, data []byte
	var inner []any
	for i, v := range values {
		offsets = append(offsets, u32(max(len(data), len(inner)))...)
		switch v := v.(type) {
		case nil:
			switch width := 0; {
			case typeName == "int64":
				data = append(data, make([]byte, 8)...)
			case typeName == "int32":
				data = append(data, make([]byte, 4)...)
			case scan(typeName, "fixed_size_binary[%d]", &width):
				data = append(data, make([]byte, width)...)
			}
		case string:
			data = append(data, v...)
		case []byte:
			data = append(data, v...)
		case int64:
			data = binary.LittleEndian.AppendUint64(data, uint64(v))
		case int32:
			data = append(data, u32(int(v))...)
		case uint8:
			data = append(data, v)
		case bool:
			if i%8 == 0 {
				data = append(data, 0)
			}
			if v {
				data[i/8] |= 1 << (i % 8)
			}
		case []any:
			inner = append(inner, v...)
		}
	}
	offsets = append(offsets, u32(max(len(data), len(inner)))...)
	switch {
	case len(typeName) > 8 && typeName[:8] == "list of ":
		w.buffer(offsets)
		w.values(typeName[8:], inner)
		return
	case typeName == "string" || typeName == "binary":
		w.buffer(offsets)
	}
	w.buffer(data)
}

// piece makes an Arrow IPC file of rows.
func piece(specs []columnSpec, rows [][]any, compress bool) []byte {
	w := &body{compress: compress}
	var fields []slot
	for c, spec := range specs {
		fields = append(fields, fieldOf(spec.name, spec.typeName))
		values := make([]any, len(rows))
		for i := range rows {
			values[i] = rows[i][c]
		}
		w.values(spec.typeName, values)
	}
	compression := slot{}
	if compress {
		compression = child(octet(1), octet(0))
	}
	meta := root(short(metadataV5), octet(headerBatch),
		child(long(len(rows)), vector(w.nodesLen, w.nodes), vector(w.buffersLen, w.buffers), compression), long(len(w.bytes)))
	out := append([]byte("ARROW1\x00\x00\xff\xff\xff\xff"), u32(len(meta))...)
	out = append(append(out, meta...), w.bytes...)
	block := binary.LittleEndian.AppendUint64(nil, 8)
	block = append(append(block, u32(8+len(meta))...), 0, 0, 0, 0)
	block = binary.LittleEndian.AppendUint64(block, uint64(len(w.bytes)))
	footer := root(short(metadataV5), child(slot{}, tables(fields...)), slot{}, vector(1, block))
	return append(append(append(out, footer...), u32(len(footer))...), "ARROW1"...)
}

// Logs.

type testLog struct {
	t           *testing.T
	folder      string
	options     frameOptions
	revision    uint64
	uuid        []byte
	digest      []byte
	epoch       uint64
	time        int64
	transaction []byte // as written last
}

func newLog(t *testing.T) *testLog {
	folder := filepath.Join(t.TempDir(), "EWR", "weather")
	for _, sub := range []string{"transactions", "segments"} {
		if err := os.MkdirAll(filepath.Join(folder, sub), 0o777); err != nil {
			t.Fatal(err)
		}
	}
	return &testLog{t: t, folder: folder, options: plain(), epoch: 1, time: 1000}
}

func (l *testLog) name(revision uint64, uuid []byte, kind string) string {
	return filepath.Join(l.folder, "transactions", fmt.Sprintf("%03d-%012d-%d.%s.%s", 999-l.options.incarnation,
		maxRevision-revision, revision, hex.EncodeToString(uuid[:4]), kind))
}

func (l *testLog) put(path string, data []byte) {
	if err := os.WriteFile(path, data, 0o666); err != nil {
		l.t.Fatal(err)
	}
}

func slotUUID(revision uint64) []byte {
	sum := sha256.Sum256(fmt.Append(nil, "slot", revision))
	return sum[:16]
}

func identity() message { return message{}.bytes(7, message{}.text(1, "EWR").text(2, "weather")) }

// commit writes the next transaction, of these actions. Options change what is written.
func (l *testLog) commit(attachments []byte, actions ...message) string {
	return l.commitWith(attachments, func(m message) message { return m }, actions...)
}

func (l *testLog) commitWith(attachments []byte, more func(message) message, actions ...message) string {
	first := l.uuid == nil
	if !first {
		l.revision++
	}
	l.time += 10
	uuid := slotUUID(l.revision)
	m := message{}.number(1, l.revision).bytes(2, uuid)
	if first {
		actions = append([]message{identity()}, actions...)
	} else {
		m = m.bytes(3, l.uuid).bytes(4, l.digest)
	}
	m = m.number(5, l.epoch)
	for _, a := range actions {
		m = m.bytes(7, a)
	}
	member := message{}.bytes(1, slotUUID(l.revision+1000)).text(2, "append").text(3, "app").number(4, l.revision).
		bytes(5, message{}.text(1, "k").text(2, fmt.Sprint("<ä>", l.revision)))
	m = m.bytes(15, message{}.bytes(1, member).signed(2, l.time).bytes(3, slotUUID(l.revision+1)).bytes(4, slotUUID(5000)))
	l.transaction = makeFrame(kindTransaction, more(m), attachments, l.options)
	l.uuid, l.digest = uuid, l.transaction[48:80]
	path := l.name(l.revision, uuid, "transaction")
	l.put(path, l.transaction)
	return path
}

func fingerprintOf(arrow []byte) []byte {
	sum := sha256.Sum256(arrow)
	return sum[:16]
}

var testSchema = arrowSchema("a", "int64", "s", "string", "d", "double")

func schemaOf(table string) message {
	return message{}.bytes(3, message{}.text(1, table).bytes(2, fingerprintOf(testSchema)).bytes(3, testSchema).
		text(4, "a").text(5, "a").text(5, "s"))
}

func testFingerprint() []byte { return fingerprintOf(testSchema) }

func addOf(table, path string, rowGroups ...message) message {
	m := message{}.text(1, path).text(2, table).text(3, "p").number(4, 100).number(5, 10).bytes(6, testFingerprint()).
		signed(7, -5).signed(8, 5).number(9, 8)
	for _, g := range rowGroups {
		m = m.bytes(11, g)
	}
	return message{}.bytes(1, m)
}

func removeOf(table, path string) message {
	return message{}.bytes(2, message{}.text(1, path).text(2, table))
}

func le(n int64) []byte { return binary.LittleEndian.AppendUint64(nil, uint64(n)) }

// A segment to be written, with what its reference says.
type testSegment struct {
	segmentFacts
	part, run   int32
	piece       []byte
	dead        []byte
	byReference bool
	digest      []byte
	offset      int
	length      int
}

func (s *testSegment) facts() message {
	m := message{}.number(1, uint64(s.kind)).number(2, s.rows)
	for i, text := range []string{s.firstTable, s.firstPath, s.lastTable, s.lastPath} {
		m = m.text(3+i, text)
	}
	for _, column := range s.columns {
		m = m.text(7, column)
	}
	m = m.number(8, s.firstRevision).number(9, s.lastRevision).number(10, s.totalRows).number(11, s.totalBytes)
	return m.text(12, s.minPartition).text(13, s.maxPartition)
}

func (s *testSegment) ref() message {
	m := message{}.bytes(1, s.facts()).number(2, uint64(s.offset)).number(3, uint64(s.length))
	if s.byReference {
		m = m.bytes(4, s.digest)
	}
	return m
}

// store puts a segment into attachments, or into an object of its own.
func (l *testLog) store(s *testSegment, attachments []byte) []byte {
	if !s.byReference {
		s.offset, s.length = len(attachments), len(s.piece)
		return append(attachments, s.piece...)
	}
	data := makeFrame(kindSegment, s.facts(), s.piece, l.options)
	s.digest, s.length = data[48:80], len(data)
	l.put(l.segmentPath(s), data)
	return attachments
}

func (l *testLog) segmentPath(s *testSegment) string {
	return filepath.Join(l.folder, "segments", hex.EncodeToString(s.digest)+".segment")
}

// checkpoint writes one of the head.
func (l *testLog) checkpoint(files uint64, segments []*testSegment, referencesToo bool) string {
	var attachments []byte
	var rows [][]any
	for _, s := range segments {
		attachments = l.store(s, attachments)
		var digest, dead any
		columns := []any{}
		for _, column := range s.columns {
			columns = append(columns, column)
		}
		if s.byReference {
			digest = s.digest
		}
		if s.dead != nil {
			dead = s.dead
		}
		rows = append(rows, []any{uint8(s.kind), s.part, s.run, digest, int64(s.offset), int64(s.length), int64(s.rows),
			int64(s.totalRows), int64(s.totalBytes), s.firstTable, s.firstPath, s.lastTable, s.lastPath, s.minPartition,
			s.maxPartition, columns,
			int64(s.firstRevision), int64(s.lastRevision), dead})
	}
	references := &testSegment{segmentFacts: segmentFacts{kind: segReferences, rows: uint64(len(rows))},
		piece: piece(referenceColumns, rows, false), byReference: referencesToo}
	attachments = l.store(references, attachments)
	m := message{}.number(1, l.revision).bytes(2, l.uuid).bytes(3, slotUUID(l.revision+1)).bytes(4, l.digest).number(5, l.epoch).
		signed(6, l.time).bytes(7, slotUUID(l.revision+1000)).text(10, "EWR").text(11, "weather").
		bytes(12, message{}.number(1, files)).bytes(13, references.ref()).number(14, 1).signed(15, 1)
	path := l.name(l.revision, l.uuid, "checkpoint")
	l.put(path, makeFrame(kindCheckpoint, m, attachments, l.options))
	return path
}

func filesRow(table, path string, revision int64, groups int32) []any {
	return []any{table, path, "p", int64(100), int64(10), revision, testFingerprint(), int64(-5), int64(5), int64(8),
		make([]byte, 8), groups, nil}
}

func filesSegment(part, run int32, dead []byte, rows ...[]any) *testSegment {
	first, last := rows[0], rows[len(rows)-1]
	return &testSegment{segmentFacts: segmentFacts{kind: segFiles, rows: uint64(len(rows)), firstTable: first[0].(string),
		firstPath: first[1].(string), lastTable: last[0].(string), lastPath: last[1].(string), minPartition: "p",
		maxPartition: "p",
		totalRows:    uint64(10 * len(rows)), totalBytes: uint64(100 * len(rows))}, part: part, run: run, dead: dead,
		piece: piece(filesColumns, rows, true)}
}

func schemasSegment(tables ...string) *testSegment {
	var rows [][]any
	for _, table := range tables {
		rows = append(rows, []any{table, testFingerprint(), testSchema, []any{"a"}, []any{"a", "s"}, int64(0)})
	}
	return &testSegment{segmentFacts: segmentFacts{kind: segSchemas, rows: uint64(len(rows)), firstTable: tables[0],
		lastTable: tables[len(tables)-1]}, part: -1, run: -1, piece: piece(schemasColumns, rows, false)}
}

// statisticsSegment takes rows of a column's name, a row, and the rest. Rows ascend.
func statisticsSegment(part int32, kind int32, rows ...[]any) *testSegment {
	var columns []string
	var packed [][]any
	last := int32(0)
	for _, row := range rows {
		row = slices.Clone(row)
		if name := row[0].(string); len(columns) == 0 || columns[len(columns)-1] != name {
			columns, last = append(columns, name), 0
		}
		row[0], row[1], last = int32(len(columns)-1), row[1].(int32)-last, row[1].(int32)
		packed = append(packed, row)
	}
	specs := statisticsColumns
	if kind == segRowGroupStatistics {
		specs = groupStatisticsColumns
	}
	return &testSegment{segmentFacts: segmentFacts{kind: kind, rows: uint64(len(rows)), columns: columns}, part: part,
		run: -1, piece: piece(specs, packed, true)}
}

// historySegment says what commit has written.
func (l *testLog) historySegment(from, to uint64, added ...int64) *testSegment {
	var rows [][]any
	for r := from; r <= to; r++ {
		data, err := os.ReadFile(l.name(r, slotUUID(r), "transaction"))
		if err != nil {
			l.t.Fatal(err)
		}
		n := added[2*(r-from)]
		rows = append(rows, []any{int64(r), slotUUID(r), data[48:80], 1010 + 10*int64(r), int64(1), false, "append",
			[]any{slotUUID(r + 1000)}, n, added[2*(r-from)+1], 10 * n, 100 * n, []any{"k"}, []any{fmt.Sprintf("<ä>%d", r)}})
	}
	return &testSegment{segmentFacts: segmentFacts{kind: segHistory, rows: uint64(len(rows)), firstRevision: from,
		lastRevision: to}, part: -1, run: -1, piece: piece(historyColumns, rows, true)}
}

func applicationsSegment(id string, version, time int64) *testSegment {
	return &testSegment{segmentFacts: segmentFacts{kind: segApplications, rows: 1}, part: -1, run: -1,
		piece: piece(applicationsColumns, [][]any{{id, version, time}}, false)}
}

// definitionOf declares columns, with ids from 1 on.
func definitionOf(table string, columns ...string) message {
	return message{}.bytes(11, declared(table, columns...))
}

// keyedBy declares the columns a and b of a table with a key.
func keyedBy(key ...string) message {
	m := declared("t", "a", "b")
	for _, name := range key {
		m = m.text(5, name)
	}
	return message{}.bytes(11, m)
}

func declared(table string, columns ...string) message {
	m := message{}.text(1, table).bytes(2, testSchema).number(4, uint64(len(columns)))
	for i, name := range columns {
		m = m.bytes(3, message{}.number(1, uint64(i+1)).text(2, name).bytes(3, []byte("x")))
	}
	return m
}
