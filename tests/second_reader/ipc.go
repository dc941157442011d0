package main

import (
	"encoding/binary"
	"unicode/utf8"
)

// Arrow IPC files of the profile of section 6.4.

// A columnSpec is a row of a table of section 6.
type columnSpec struct {
	name     string
	typeName string
	nulls    bool
}

// A batch is the one record batch of a piece. Columns are loaded when asked for, from specs.
type batch struct {
	rows       int
	columns    map[string]*column
	fields     []arrowField
	body       []byte
	meta       flatTable // RecordBatch
	compressed bool
	nodes      int // where they are
	nodeCount  int
	buffers    int
	bufferLen  int
	budget     *budget
}

type column struct {
	rows    int
	valid   []byte // bitmap; nil: no nulls
	offsets []byte // of text, binary and lists
	data    []byte
	width   int // of values of fixed width
	child   *column
}

func (c *column) null(i int) bool { return c.valid != nil && c.valid[i/8]>>(i%8)&1 == 0 }
func (c *column) nulls() (n int) {
	for i := 0; c.valid != nil && i < c.rows; i++ {
		n += int(^c.valid[i/8] >> (i % 8) & 1)
	}
	return n
}
func (c *column) int64(i int) int64 {
	return int64(binary.LittleEndian.Uint64(c.data[8*i:]))
}
func (c *column) int32(i int) int32 { return int32(binary.LittleEndian.Uint32(c.data[4*i:])) }
func (c *column) bool(i int) bool   { return c.data[i/8]>>(i%8)&1 == 1 }
func (c *column) fixed(i int) []byte {
	return c.data[c.width*i : c.width*(i+1) : c.width*(i+1)]
}
func (c *column) span(i int) (from, to int) {
	return int(binary.LittleEndian.Uint32(c.offsets[4*i:])), int(binary.LittleEndian.Uint32(c.offsets[4*i+4:]))
}

// bytes gives a value of text or binary; that of a null is empty.
func (c *column) bytes(i int) []byte {
	if c.null(i) {
		return nil
	}
	from, to := c.span(i)
	return c.data[from:to:to]
}
func (c *column) text(i int) string { return string(c.bytes(i)) }

// texts gives a list of text; that of a null is empty.
func (c *column) texts(i int) []string {
	if c.null(i) {
		return nil
	}
	from, to := c.span(i)
	list := make([]string, 0, to-from)
	for ; from < to; from++ {
		list = append(list, c.child.text(from))
	}
	return list
}

// openBatch checks what can be told of a piece without decoding a column.
func openBatch(piece []byte, rows uint64, kind int32, b *budget) (*batch, error) {
	wrong := func(what string) (*batch, error) { return nil, damage("Arrow IPC: %s", what) }
	const magic = "ARROW1"
	if len(piece) < 8+4+6 || string(piece[:6]) != magic || string(piece[len(piece)-6:]) != magic {
		return wrong("no file")
	}
	end := len(piece) - 10
	length := int(int32(binary.LittleEndian.Uint32(piece[end:])))
	if length < 4 || length > end-8 {
		return wrong("wrong length of the footer")
	}
	footer := &flat{data: piece[end-length : end]}
	root := footer.root()
	schema, there := root.table(1)
	if footer.bad || !there || root.i16(0) != metadataV5 {
		return wrong("no footer of version 5")
	}
	if _, n := root.vector(2, 24); n != 0 {
		return wrong("dictionaries")
	}
	block, blocks := root.vector(3, 24)
	if footer.bad || blocks != 1 {
		return wrong("not exactly one record batch")
	}
	at, metaLength, blockLength := footer.i64(block), footer.i32(block+8), footer.i64(block+16)
	fields, err := readSchema(schema)
	if err != nil {
		return nil, err
	}
	for i := range fields {
		if fields[i].anyDictionary() {
			return wrong("a column is dictionary-encoded")
		}
	}
	size := int64(len(piece))
	if at < 0 || metaLength < 8 || at > size || int64(metaLength) > size-at {
		return wrong("the record batch lies outside of the piece")
	}
	header := piece[at : at+int64(metaLength)]
	inner := int(int32(binary.LittleEndian.Uint32(header[4:])))
	if binary.LittleEndian.Uint32(header) != 0xffffffff || inner < 4 || inner > len(header)-8 {
		return wrong("no message at the record batch")
	}
	message := (&flat{data: header[8 : 8+inner]}).root()
	meta, there := message.table(2)
	if message.f.bad || !there || message.i16(0) != metadataV5 || message.byte(1, 0) != headerBatch {
		return wrong("no record batch of version 5")
	}
	bodyLength := message.i64(3)
	if message.f.bad || bodyLength < 0 || bodyLength != blockLength || bodyLength > size-at-int64(metaLength) {
		return wrong("the record batch lies outside of the piece")
	}
	result := &batch{rows: int(rows), columns: map[string]*column{}, fields: fields, meta: meta, budget: b,
		body: piece[at+int64(metaLength) : at+int64(metaLength)+bodyLength]}
	if n := meta.i64(0); n < 0 || uint64(n) != rows || rows == 0 {
		return wrong("another number of rows than its reference says")
	}
	if compression, there := meta.table(3); there {
		if compression.byte(0, 0) != 1 || compression.byte(1, 0) != 0 {
			return wrong("another compression than zstd")
		}
		result.compressed = true
	}
	result.nodes, result.nodeCount = meta.vector(1, 16)
	for i := 0; i < result.nodeCount; i++ {
		if rows, nulls := meta.f.i64(result.nodes+16*i), meta.f.i64(result.nodes+16*i+8); nulls < 0 || nulls > rows {
			return wrong("a column with more nulls than rows, or less than none")
		}
	}
	result.buffers, result.bufferLen = meta.vector(2, 16)
	if meta.f.bad {
		return wrong("broken flatbuffer")
	}
	return result, result.checkSizes(rows, kind)
}

// checkSizes is the rule of section 6.4 against decompression bombs.
func (b *batch) checkSizes(rows uint64, kind int32) error {
	perRow := uint64(16 << 10)
	switch kind {
	case segSchemas, segDefinitions, segTombstones:
		perRow = 8 << 20
	case segHistory:
		perRow = 64 << 20
	case segReferences:
		perRow = 64 << 10
	}
	most := uint64(1<<20) + rows*(perRow+128*uint64(b.bufferLen))
	sum := uint64(0)
	for i := 0; i < b.bufferLen; i++ {
		_, decoded, err := b.buffer(i)
		if err != nil {
			return err
		}
		sum += uint64(decoded)
		if sum > 2<<30 || sum > most {
			return damage("Arrow IPC: would be too large when decoded")
		}
	}
	return nil
}

// buffer gives a buffer as it stands and how long it is when decoded. If the two lengths tell of compression is said by
// the first 8 bytes only, so decode looks again.
func (b *batch) buffer(i int) (stored []byte, decoded int64, err error) {
	at, length := b.meta.f.i64(b.buffers+16*i), b.meta.f.i64(b.buffers+16*i+8)
	if size := int64(len(b.body)); at < 0 || length < 0 || at > size || length > size-at {
		return nil, 0, damage("Arrow IPC: a buffer lies outside of the body")
	}
	if at%8 != 0 {
		return nil, 0, damage("Arrow IPC: a buffer that is not aligned")
	}
	stored = b.body[at : at+length]
	if !b.compressed || length == 0 {
		return stored, length, nil
	}
	if length < 8 {
		return nil, 0, damage("Arrow IPC: a compressed buffer without its length")
	}
	decoded = int64(binary.LittleEndian.Uint64(stored))
	if decoded == -1 {
		return stored, length - 8, nil
	}
	if decoded < 0 {
		return nil, 0, damage("Arrow IPC: a compressed buffer of negative length")
	}
	return stored, decoded, nil
}

func (b *batch) decode(i int) ([]byte, error) {
	stored, decoded, err := b.buffer(i)
	if err != nil {
		return nil, err
	}
	if err := b.budget.take(decoded); err != nil {
		return nil, err
	}
	if !b.compressed || len(stored) == 0 {
		return stored, nil
	}
	if int64(binary.LittleEndian.Uint64(stored)) == -1 {
		return stored[8:], nil
	}
	return unzstd(stored[8:], decoded)
}

// A place is where the next column's nodes, buffers and variadic counts begin.
type place struct{ node, buffer, variadic int }

// skip steps over a column and its children.
func (b *batch) skip(f *arrowField, p *place) error {
	p.node++
	switch f.id {
	case typeNull, typeRunEnd:
	case typeStruct, typeFixedList:
		p.buffer++
	case typeUtf8, typeBinary, typeLargeUtf8, typeLargeBinary, typeListView, typeLargeLView:
		p.buffer += 3
	case typeUtf8View, typeBinaryView:
		at, n := b.meta.vector(4, 8)
		if p.variadic >= n {
			return damage("Arrow IPC: number of buffers is not said")
		}
		more := b.meta.f.i64(at + 8*p.variadic)
		if more < 0 || more > int64(b.bufferLen) {
			return damage("Arrow IPC: wrong number of buffers")
		}
		p.variadic++
		p.buffer += 2 + int(more)
	case typeUnion:
		p.buffer++
		if f.dense {
			p.buffer++
		}
	default:
		p.buffer += 2
	}
	if p.node > b.nodeCount || p.buffer > b.bufferLen {
		return damage("Arrow IPC: fewer buffers than its columns need")
	}
	for i := range f.children {
		if err := b.skip(&f.children[i], p); err != nil {
			return err
		}
	}
	return nil
}

// load decodes the columns of the specs, and checks all that holds for columns.
func (b *batch) load(specs ...columnSpec) error {
	found := map[string]bool{}
	var p place
	for i := range b.fields {
		f := &b.fields[i]
		here := p
		if err := b.skip(f, &p); err != nil {
			return err
		}
		for _, spec := range specs {
			if spec.name != f.name {
				continue
			}
			if found[f.name] {
				return damage("column %s stands twice", f.name)
			}
			found[f.name] = true
			if f.typeName != spec.typeName {
				return damage("column %s is of another type", f.name)
			}
			c, err := b.column(f, &here)
			if err == nil && c.rows != b.rows {
				err = damage("another number of rows")
			}
			if err == nil {
				err = c.checkValues(f, spec.nulls)
			}
			if err != nil {
				return in("column "+f.name, err)
			}
			b.columns[f.name] = c
		}
	}
	for _, spec := range specs {
		if !found[spec.name] {
			return damage("column %s is missing", spec.name)
		}
	}
	return nil
}

// column decodes one column of a type that segments have; skip has checked that its nodes and buffers are there.
func (b *batch) column(f *arrowField, p *place) (*column, error) {
	rows, nulls := b.meta.f.i64(b.nodes+16*p.node), b.meta.f.i64(b.nodes+16*p.node+8)
	if rows < 0 || nulls < 0 || nulls > rows || rows > maxRows {
		return nil, damage("wrong number of rows")
	}
	c := &column{rows: int(rows), width: f.width}
	var err error
	take := func(need int) (data []byte) {
		if err == nil {
			data, err = b.decode(p.buffer)
		}
		if err == nil && len(data) < need {
			err = damage("a buffer is too short")
		}
		p.buffer++
		return data
	}
	p.node++
	if nulls != 0 {
		c.valid = take((c.rows + 7) / 8)
	} else {
		p.buffer++ // without nulls the bitmap says nothing
	}
	switch f.id {
	case typeUtf8, typeBinary, typeList:
		need := 4 * (c.rows + 1)
		if c.rows == 0 {
			need = 0 // an empty column may have no offsets at all
		}
		if c.offsets = take(need); len(c.offsets) < 4 {
			c.offsets = make([]byte, 4)
		}
	case typeBool:
		c.data = take((c.rows + 7) / 8)
	default:
		c.data = take(c.rows * c.width)
	}
	if err != nil {
		return nil, err
	}
	if int64(c.nulls()) != nulls {
		return nil, damage("another number of nulls than its bitmap says")
	}
	if c.offsets == nil {
		return c, nil
	}
	most := 0
	if f.id == typeList {
		if c.child, err = b.column(&f.children[0], p); err != nil {
			return nil, err
		}
		most = c.child.rows
	} else {
		c.data = take(0)
		most = len(c.data)
	}
	if err != nil {
		return nil, err
	}
	last := int32(0)
	for i := 0; i <= c.rows; i++ {
		offset := int32(binary.LittleEndian.Uint32(c.offsets[4*i:]))
		if offset < last || int(offset) > most {
			return nil, damage("offsets are wrong")
		}
		last = offset
	}
	return c, nil
}

// checkValues looks for nulls where none may be, in lists too, and for text that is not UTF-8.
func (c *column) checkValues(f *arrowField, nulls bool) error {
	for i := 0; i < c.rows; i++ {
		if err := c.checkValue(f, i, nulls); err != nil {
			return err
		}
	}
	return nil
}

func (c *column) checkValue(f *arrowField, i int, nulls bool) error {
	if c.null(i) {
		if nulls {
			return nil
		}
		return damage("null")
	}
	switch f.id {
	case typeUtf8:
		if !utf8.Valid(c.bytes(i)) {
			return damage("text that is not UTF-8")
		}
	case typeList:
		from, to := c.span(i)
		for ; from < to; from++ {
			if err := c.child.checkValue(&f.children[0], from, false); err != nil {
				return err
			}
		}
	}
	return nil
}
