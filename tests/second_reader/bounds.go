package main

import (
	"bytes"
	"encoding/binary"
	"math"
	"math/big"
	"unicode/utf8"
)

// Bound types, the bytes of bounds and their keys: sections 5.2 and 6.5.

const (
	boundNone = iota
	boundBool
	boundInt64
	boundUint64
	boundDouble
	boundString
	boundBinary
	boundDecimal
	boundTimestamp
	boundDate
	boundTime
)

type boundType struct {
	kind int
	unit string // of a time
}

var dayLength = map[string]int64{"s": 86_400, "ms": 86_400_000, "us": 86_400_000_000, "ns": 86_400_000_000_000}

var decimalLimit = new(big.Int).Exp(big.NewInt(10), big.NewInt(38), nil)

func number64(b []byte) int64 { return int64(binary.LittleEndian.Uint64(b)) }

func decimal(b []byte) *big.Int {
	reversed := make([]byte, 16)
	for i := range reversed {
		reversed[i] = b[15-i]
	}
	n := new(big.Int).SetBytes(reversed)
	if reversed[0] >= 0x80 {
		n.Sub(n, new(big.Int).Lsh(big.NewInt(1), 128))
	}
	return n
}

// valid tells whether bytes are a value of the bound type.
func (t boundType) valid(b []byte) bool {
	switch t.kind {
	case boundBool:
		return len(b) == 1 && b[0] <= 1
	case boundString:
		return utf8.Valid(b)
	case boundBinary:
		return true
	case boundDecimal:
		return len(b) == 16 && decimal(b).CmpAbs(decimalLimit) < 0
	case boundNone:
		return false
	}
	if len(b) != 8 {
		return false
	}
	switch n := number64(b); t.kind {
	case boundDouble:
		return !math.IsNaN(math.Float64frombits(uint64(n)))
	case boundDate:
		return n >= math.MinInt32 && n <= math.MaxInt32
	case boundTime:
		return n >= 0 && n < dayLength[t.unit]
	}
	return true
}

// compare gives the order of two valid values.
func (t boundType) compare(a, b []byte) int {
	switch t.kind {
	case boundBool, boundString, boundBinary:
		return bytes.Compare(a, b)
	case boundDecimal:
		return decimal(a).Cmp(decimal(b))
	case boundDouble:
		x, y := math.Float64frombits(uint64(number64(a))), math.Float64frombits(uint64(number64(b)))
		switch {
		case x < y:
			return -1
		case x > y:
			return 1
		}
		return 0
	}
	x, y := t.key(a), t.key(b)
	switch {
	case x < y:
		return -1
	case x > y:
		return 1
	}
	return 0
}

// key gives the key of a valid value.
func (t boundType) key(b []byte) int64 {
	switch t.kind {
	case boundBool:
		return int64(b[0])
	case boundUint64:
		return number64(b) ^ math.MinInt64
	case boundDouble:
		return flipped(number64(b))
	case boundDecimal:
		n := decimal(b)
		switch {
		case n.IsInt64():
			return n.Int64()
		case n.Sign() < 0:
			return math.MinInt64
		}
		return math.MaxInt64
	case boundString, boundBinary:
		var first [8]byte
		copy(first[:], b)
		return int64(binary.BigEndian.Uint64(first[:]) ^ 1<<63)
	}
	return number64(b)
}

// flipped is its own inverse.
func flipped(n int64) int64 {
	if n >= 0 {
		return n
	}
	return n ^ math.MaxInt64
}

// fromKey gives the value that a key gives back, which need not be valid.
func (t boundType) fromKey(key int64) []byte {
	switch t.kind {
	case boundBool:
		if key != 0 && key != 1 {
			return nil
		}
		return []byte{byte(key)}
	case boundUint64:
		key ^= math.MinInt64
	case boundDouble:
		key = flipped(key)
	case boundDecimal:
		b := binary.LittleEndian.AppendUint64(make([]byte, 0, 16), uint64(key))
		return binary.LittleEndian.AppendUint64(b, uint64(key>>63))
	case boundString, boundBinary:
		return bytes.TrimRight(binary.BigEndian.AppendUint64(make([]byte, 0, 8), uint64(key)^1<<63), "\x00")
	}
	return binary.LittleEndian.AppendUint64(nil, uint64(key))
}
