package main

import "encoding/binary"

// A walker of flatbuffers that may be hostile. What lies outside is read as 0 and remembered in bad, which whoever reads
// asks before believing anything. Every table that is entered is counted against the length of the buffer, so that tables
// that refer to each other cannot make a walk longer than the buffer is.

type flat struct {
	data   []byte
	bad    bool
	visits int
}

type flatTable struct {
	f      *flat
	at     int
	vtable int
	slots  int
}

func (f *flat) bytes(at, length int) []byte {
	if at < 0 || length < 0 || at > len(f.data) || length > len(f.data)-at {
		f.bad = true
		return make([]byte, min(max(length, 0), 8))
	}
	return f.data[at : at+length]
}

func (f *flat) u16(at int) int   { return int(binary.LittleEndian.Uint16(f.bytes(at, 2))) }
func (f *flat) i32(at int) int   { return int(int32(binary.LittleEndian.Uint32(f.bytes(at, 4)))) }
func (f *flat) u32(at int) int   { return int(binary.LittleEndian.Uint32(f.bytes(at, 4))) }
func (f *flat) i64(at int) int64 { return int64(binary.LittleEndian.Uint64(f.bytes(at, 8))) }

func (f *flat) table(at int) flatTable {
	f.visits++
	if f.visits > len(f.data)/4 {
		f.bad = true
	}
	if f.bad {
		return flatTable{f: f}
	}
	t := flatTable{f: f, at: at, vtable: at - f.i32(at)}
	t.slots = (f.u16(t.vtable) - 4) / 2
	f.bytes(t.vtable, 4+2*max(t.slots, 0))
	return t
}

func (f *flat) root() flatTable { return f.table(f.u32(0)) }

// slot gives where the value of a field is, 0 if it is absent.
func (t flatTable) slot(field int) int {
	if t.f.bad || field >= t.slots {
		return 0
	}
	offset := t.f.u16(t.vtable + 4 + 2*field)
	if offset == 0 {
		return 0
	}
	return t.at + offset
}

func (t flatTable) byte(field int, absent byte) byte {
	if at := t.slot(field); at != 0 {
		return t.f.bytes(at, 1)[0]
	}
	return absent
}

func (t flatTable) i16(field int) int {
	if at := t.slot(field); at != 0 {
		return int(int16(t.f.u16(at)))
	}
	return 0
}

func (t flatTable) i32(field, absent int) int {
	if at := t.slot(field); at != 0 {
		return t.f.i32(at)
	}
	return absent
}

func (t flatTable) i64(field int) int64 {
	if at := t.slot(field); at != 0 {
		return t.f.i64(at)
	}
	return 0
}

// table gives the table that a field refers to.
func (t flatTable) table(field int) (flatTable, bool) {
	at := t.slot(field)
	if at == 0 {
		return flatTable{f: t.f}, false
	}
	return t.f.table(at + t.f.u32(at)), true
}

// vector gives where the elements of a field begin, and how many there are.
func (t flatTable) vector(field, width int) (at, length int) {
	slot := t.slot(field)
	if slot == 0 {
		return 0, 0
	}
	at = slot + t.f.u32(slot)
	length = t.f.u32(at)
	t.f.bytes(at+4, length*width)
	if t.f.bad {
		return 0, 0
	}
	return at + 4, length
}

func (t flatTable) text(field int) string {
	at, length := t.vector(field, 1)
	return string(t.f.bytes(at, length))
}

// tables calls with each table of a vector of them.
func (t flatTable) tables(field int, call func(flatTable)) {
	at, length := t.vector(field, 4)
	for i := 0; i < length && !t.f.bad; i++ {
		call(t.f.table(at + 4*i + t.f.u32(at+4*i)))
	}
}
