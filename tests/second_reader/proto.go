package main

import (
	"encoding/binary"
	"unicode/utf8"
)

// The wire format of protobuf as section 3.2 has it. checkWire looks at a message at all depths once; after that each()
// cannot fail, and what it gives is taken apart by the functions that know the messages.

const (
	wireVarint   = 0
	wireFixed64  = 1
	wireBytes    = 2
	wireGroup    = 3
	wireGroupEnd = 4
	wireFixed32  = 5
)

type wireField struct {
	number uint32
	wire   byte
	value  uint64 // of a varint
	bytes  []byte // of a length-delimited field
}

// is tells whether a field is the known one of this number and wire type.
func (f wireField) is(number uint32, wire byte) bool { return f.number == number && f.wire == wire }

func varint(data []byte, most int) (value uint64, length int) {
	for i := 0; i < most && i < len(data); i++ {
		value |= uint64(data[i]&0x7f) << (7 * i) // bits from the 64th on fall out
		if data[i] < 0x80 {
			return value, i + 1
		}
	}
	return 0, 0
}

func nextField(data []byte) (f wireField, rest []byte, err error) {
	tag, n := varint(data, 5)
	if n == 0 {
		return f, nil, damage("protobuf: bad tag")
	}
	data = data[n:]
	if number := tag >> 3; number == 0 || number > 1<<29-1 {
		return f, nil, damage("protobuf: bad field number")
	}
	f.number, f.wire = uint32(tag>>3), byte(tag&7)
	length := 0
	switch f.wire {
	case wireVarint:
		if f.value, length = varint(data, 10); length == 0 {
			return f, nil, damage("protobuf: bad varint")
		}
		return f, data[length:], nil
	case wireFixed64:
		length = 8
	case wireFixed32:
		length = 4
	case wireBytes:
		size, n := varint(data, 5)
		if n == 0 {
			return f, nil, damage("protobuf: bad length")
		}
		data = data[n:]
		if size > uint64(len(data)) {
			return f, nil, damage("protobuf: a value ends beyond its message")
		}
		f.bytes = data[:size:size]
		return f, data[size:], nil
	case wireGroup:
		for inner := (wireField{}); inner.wire != wireGroupEnd; {
			if inner, data, err = nextField(data); err != nil {
				return f, nil, err
			}
			if inner.wire == wireGroupEnd && inner.number != f.number {
				return f, nil, damage("protobuf: the end of another group")
			}
		}
	case wireGroupEnd:
	default:
		return f, nil, damage("protobuf: wire type %d", f.wire)
	}
	if length > len(data) {
		return f, nil, damage("protobuf: a value ends beyond its message")
	}
	return f, data[length:], nil
}

// each calls with every field of a message that was checked.
func each(data []byte, call func(wireField)) {
	for len(data) > 0 {
		f, rest, err := nextField(data)
		if err != nil {
			return
		}
		call(f)
		data = rest
	}
}

// A wireMessage says which fields of a message have content to be looked into: text, and other messages. Of all other
// known fields nothing can be wrong on the wire.
type wireMessage struct {
	texts    []uint32
	messages map[uint32]*wireMessage
}

func checkWire(m *wireMessage, data []byte) error {
	for len(data) > 0 {
		f, rest, err := nextField(data)
		if err != nil {
			return err
		}
		data = rest
		if f.wire == wireGroupEnd {
			return damage("protobuf: the end of no group")
		}
		if f.wire != wireBytes {
			continue
		}
		for _, number := range m.texts {
			if number == f.number && !utf8.Valid(f.bytes) {
				return damage("protobuf: text that is not UTF-8")
			}
		}
		if inner := m.messages[f.number]; inner != nil {
			if err := checkWire(inner, f.bytes); err != nil {
				return err
			}
		}
	}
	return nil
}

// The messages of proto/.
var (
	wireNothing    = &wireMessage{}
	wireSegment    = &wireMessage{texts: []uint32{3, 4, 5, 6, 7}}
	wireSegmentRef = &wireMessage{messages: map[uint32]*wireMessage{1: wireSegment}}
	wireRowGroup   = &wireMessage{messages: map[uint32]*wireMessage{2: wireNothing}}
	wireAdd        = &wireMessage{texts: []uint32{1, 2, 3}, messages: map[uint32]*wireMessage{11: wireRowGroup}}
	wireAddBatch   = &wireMessage{messages: map[uint32]*wireMessage{1: wireSegmentRef}}
	wireTwoTexts   = &wireMessage{texts: []uint32{1, 2}} // Remove, Upgrade, Identity, entries of maps
	wireFirstText  = &wireMessage{texts: []uint32{1}}    // SchemaName, Location
	wireSchema     = &wireMessage{texts: []uint32{1, 4, 5}}
	wireForget     = &wireMessage{texts: []uint32{2}, messages: map[uint32]*wireMessage{3: wireFirstText}}
	wireAction     = &wireMessage{messages: map[uint32]*wireMessage{1: wireAdd, 2: wireTwoTexts, 3: wireSchema,
		4: wireTwoTexts, 5: wireAddBatch, 6: wireTombstone, 7: wireTwoTexts, 8: wireNothing, 9: wireForget,
		10: wireFirstText, 11: wireDefinition, 12: wireRowDeletes}}
	wireDefinedColumn = &wireMessage{texts: []uint32{2}}
	wireDefinition    = &wireMessage{texts: []uint32{1, 5}, messages: map[uint32]*wireMessage{3: wireDefinedColumn}}
	wireTombstone     = &wireMessage{texts: []uint32{1, 2, 4},
		messages: map[uint32]*wireMessage{3: wireDefinition}}
	wireRowDeletes  = &wireMessage{texts: []uint32{1, 2, 3}}
	wireDeletes     = &wireMessage{texts: []uint32{1, 2, 3, 11, 14}, messages: map[uint32]*wireMessage{10: wireRowDeletes}}
	wireMember      = &wireMessage{texts: []uint32{2, 3}, messages: map[uint32]*wireMessage{5: wireTwoTexts}}
	wireCommit      = &wireMessage{messages: map[uint32]*wireMessage{1: wireMember}}
	wireTransaction = &wireMessage{messages: map[uint32]*wireMessage{7: wireAction, 15: wireCommit}}
	wireCheckpoint  = &wireMessage{texts: []uint32{8, 9, 10, 11, 16},
		messages: map[uint32]*wireMessage{12: wireNothing, 13: wireSegmentRef}}

	frameMessages = map[byte]*wireMessage{kindTransaction: wireTransaction, kindCheckpoint: wireCheckpoint,
		kindSegment: wireSegment, kindDeletes: wireDeletes}
)

// A joined is a singular message: if it stands more than once it is merged, as if its bytes stood one behind the other.
type joined struct {
	there bool
	bytes []byte
}

func (j *joined) add(more []byte) {
	if !j.there || len(j.bytes) == 0 {
		j.there, j.bytes = true, more
		return
	}
	j.bytes = append(j.bytes[:len(j.bytes):len(j.bytes)], more...)
}

func zigzag(value uint64) int64 { return int64(value>>1) ^ -int64(value&1) }

func u32(n int) []byte { return binary.LittleEndian.AppendUint32(nil, uint32(n)) }
