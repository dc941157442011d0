package main

import (
	"encoding/binary"
	"fmt"
	"regexp"
	"strconv"
	"unicode/utf8"
)

// Schemas as Arrow's flatbuffers hold them: in the footer of a segment, and in Schema.arrow_schema.

const (
	metadataV5      = 4
	headerSchema    = 1
	headerBatch     = 3
	maxNesting      = 100
	typeNull        = 1
	typeInt         = 2
	typeFloat       = 3
	typeBinary      = 4
	typeUtf8        = 5
	typeBool        = 6
	typeDecimal     = 7
	typeDate        = 8
	typeTime        = 9
	typeTimestamp   = 10
	typeInterval    = 11
	typeList        = 12
	typeStruct      = 13
	typeUnion       = 14
	typeFixedBinary = 15
	typeFixedList   = 16
	typeMap         = 17
	typeDuration    = 18
	typeLargeBinary = 19
	typeLargeUtf8   = 20
	typeLargeList   = 21
	typeRunEnd      = 22
	typeBinaryView  = 23
	typeUtf8View    = 24
	typeListView    = 25
	typeLargeLView  = 26
)

const maxColumnID = 1<<31 - 1

var (
	units    = []string{"s", "ms", "us", "ns"}
	columnID = regexp.MustCompile("^[1-9][0-9]{0,9}$")
)

// An arrowField is a column, or a child of one.
type arrowField struct {
	name       string
	column     int64 // its id: the number in the metadata PARQUET:field_id, 0 if that is none
	id         byte
	typeName   string // as section 6 writes types; of other types only something that is none of those
	width      int    // bytes of a value of fixed width, for those types that segments have
	bound      boundType
	dictionary bool
	dense      bool // of a union
	children   []arrowField
}

// anyDictionary tells whether a field or a child of it is dictionary-encoded.
func (a *arrowField) anyDictionary() bool {
	for i := range a.children {
		if a.children[i].anyDictionary() {
			return true
		}
	}
	return a.dictionary
}

func readSchema(schema flatTable) ([]arrowField, error) {
	var fields []arrowField
	var wrong error
	if schema.i16(0) != 0 {
		return nil, damage("Arrow schema: not little-endian")
	}
	schema.tables(1, func(t flatTable) {
		if wrong == nil {
			var f arrowField
			f, wrong = readField(t, 0)
			fields = append(fields, f)
		}
	})
	if wrong != nil {
		return nil, wrong
	}
	if schema.f.bad {
		return nil, damage("Arrow schema: broken flatbuffer")
	}
	return fields, nil
}

func readField(t flatTable, depth int) (arrowField, error) {
	f := arrowField{name: t.text(0), id: t.byte(2, 0)}
	if depth > maxNesting {
		return f, damage("Arrow schema: nested too deeply")
	}
	if !utf8.ValidString(f.name) {
		return f, damage("Arrow schema: the name of a column is not UTF-8")
	}
	var wrong error
	t.tables(5, func(child flatTable) {
		if wrong == nil {
			var c arrowField
			c, wrong = readField(child, depth+1)
			f.children = append(f.children, c)
		}
	})
	if wrong != nil {
		return f, wrong
	}
	t.tables(6, func(pair flatTable) {
		if pair.text(0) == "PARQUET:field_id" && columnID.MatchString(pair.text(1)) {
			f.column, _ = strconv.ParseInt(pair.text(1), 10, 64)
		}
	})
	_, f.dictionary = t.table(4)
	kind, there := t.table(3)
	if !there {
		return f, damage("Arrow schema: a column without a type")
	}
	if err := f.setType(kind); err != nil {
		return f, err
	}
	if t.f.bad {
		return f, damage("Arrow schema: broken flatbuffer")
	}
	return f, nil
}

// setType reads the table of a type. What no Arrow library could take is an error.
func (a *arrowField) setType(t flatTable) error {
	unknown := damage("Arrow schema: a type that does not exist")
	childless := true
	unit := func(field, absent int) (string, bool) {
		u := absent
		if t.slot(field) != 0 {
			u = t.i16(field)
		}
		if u < 0 || u >= len(units) {
			return "", false
		}
		return units[u], true
	}
	switch a.id {
	case typeInt:
		bits, signed := t.i32(0, 0), t.byte(1, 0) != 0
		if bits != 8 && bits != 16 && bits != 32 && bits != 64 {
			return unknown
		}
		a.width, a.typeName, a.bound.kind = bits/8, fmt.Sprintf("uint%d", bits), boundUint64
		if signed {
			a.typeName, a.bound.kind = fmt.Sprintf("int%d", bits), boundInt64
		}
	case typeFloat:
		precision := t.i16(0)
		if precision < 0 || precision > 2 {
			return unknown
		}
		a.width, a.typeName = 2<<precision, fmt.Sprintf("float%d", 16<<precision)
		if precision > 0 {
			a.bound.kind = boundDouble
		}
	case typeUtf8, typeLargeUtf8, typeUtf8View:
		a.bound.kind, a.typeName = boundString, "other string"
		if a.id == typeUtf8 {
			a.typeName = "string"
		}
	case typeBinary, typeLargeBinary, typeBinaryView:
		a.bound.kind, a.typeName = boundBinary, "other binary"
		if a.id == typeBinary {
			a.typeName = "binary"
		}
	case typeBool:
		a.bound.kind, a.typeName = boundBool, "bool"
	case typeDecimal:
		precision, bits := t.i32(0, 0), t.i32(2, 128)
		most := map[int]int{32: 9, 64: 18, 128: 38, 256: 76}[bits]
		if precision < 1 || precision > most {
			return unknown
		}
		if bits == 128 {
			a.bound.kind = boundDecimal
		}
		a.width, a.typeName = bits/8, "decimal"
	case typeDate:
		a.typeName = "date"
		switch unit := t.i16(0); {
		case t.slot(0) == 0 || unit == 1: // milliseconds
		case unit == 0:
			a.bound.kind = boundDate
		default:
			return unknown
		}
	case typeTime:
		u, ok := unit(0, 1)
		bits := t.i32(1, 32)
		if !ok || bits != 32 && bits != 64 || (bits == 32) != (u == "s" || u == "ms") {
			return unknown
		}
		a.bound, a.typeName = boundType{boundTime, u}, "time"
	case typeTimestamp:
		u, ok := unit(0, 0)
		if !ok {
			return unknown
		}
		a.bound, a.width = boundType{boundTimestamp, u}, 8
		a.typeName = "timestamp[" + u + ", tz=" + t.text(1) + "]"
	case typeFixedBinary:
		if a.width = t.i32(0, 0); a.width < 0 {
			return unknown
		}
		a.typeName = fmt.Sprintf("fixed_size_binary[%d]", a.width)
	case typeNull, typeInterval, typeDuration:
		a.typeName = "other"
	case typeList:
		childless = false
		if len(a.children) == 1 {
			a.typeName = "list of " + a.children[0].typeName
		}
	case typeLargeList, typeFixedList, typeListView, typeLargeLView, typeMap:
		a.typeName, childless = "other list", false
	case typeRunEnd:
		if len(a.children) != 2 {
			return unknown
		}
		return nil
	case typeUnion:
		a.dense = t.i16(0) == 1
		return nil
	case typeStruct:
		return nil
	default:
		return unknown
	}
	if childless && len(a.children) != 0 || !childless && len(a.children) != 1 {
		return damage("Arrow schema: a type with the wrong number of children")
	}
	return nil
}

// decodeArrowSchema decodes Schema.arrow_schema: section 5.3.
func decodeArrowSchema(message []byte) ([]arrowField, error) {
	if len(message) < 8 || binary.LittleEndian.Uint32(message) != 0xffffffff {
		return nil, damage("Arrow schema: no continuation marker")
	}
	if length := int(int32(binary.LittleEndian.Uint32(message[4:]))); length != len(message)-8 || length%8 != 0 {
		return nil, damage("Arrow schema: wrong length")
	}
	f := &flat{data: message[8:]}
	root := f.root()
	if root.i16(0) != metadataV5 || root.byte(1, 0) != headerSchema {
		return nil, damage("Arrow schema: no schema of version 5")
	}
	schema, there := root.table(2)
	if !there {
		return nil, damage("Arrow schema: no schema")
	}
	fields, err := readSchema(schema)
	if err != nil {
		return nil, err
	}
	names, ids := map[string]bool{}, map[int64]bool{}
	for i := range fields {
		id := fields[i].column
		if names[fields[i].name] || ids[id] {
			return nil, damage("Arrow schema: two columns of one name or id")
		}
		if id < 1 || id > maxColumnID {
			return nil, damage("Arrow schema: a column without an id")
		}
		names[fields[i].name], ids[id] = true, true
	}
	return fields, nil
}
