package main

import "encoding/binary"

// Bitmaps of 32-bit numbers in Roaring's portable form, as its format specification has it, and section 5.7.

const (
	cookieRuns  = 12_347
	cookiePlain = 12_346
	mostListed  = 4_096
	bitsetBytes = 8_192
	fewNoStarts = 4 // with containers of runs, fewer than this say not where they begin
)

// A span is a range of numbers, both ends included.
type span struct{ first, last uint32 }

// joinSpans makes one of spans that overlap or touch; they ascend by their first number.
func joinSpans(spans []span) (found []span) {
	for _, s := range spans {
		if n := len(found); n > 0 && uint64(s.first) <= uint64(found[n-1].last)+1 {
			found[n-1].last = max(found[n-1].last, s.last)
		} else {
			found = append(found, s)
		}
	}
	return found
}

// A taker hands out the bytes of a bitmap; what is not there is remembered in short.
type taker struct {
	data  []byte
	at    int
	short bool
}

func (t *taker) bytes(n int) []byte {
	if n > len(t.data)-t.at {
		t.short = true
		return make([]byte, min(n, bitsetBytes))
	}
	t.at += n
	return t.data[t.at-n : t.at]
}

func (t *taker) u16() int    { return int(binary.LittleEndian.Uint16(t.bytes(2))) }
func (t *taker) u32() uint32 { return binary.LittleEndian.Uint32(t.bytes(4)) }

// decodeBitmap gives the numbers of a bitmap, ascending, as spans that do not touch.
func decodeBitmap(data []byte) ([]span, error) {
	t := &taker{data: data}
	count, flags, err := t.header()
	if err != nil {
		return nil, err
	}
	heads := make([][2]int, count)
	for i := range heads {
		heads[i] = [2]int{t.u16(), t.u16() + 1}
	}
	if flags == nil || count >= fewNoStarts {
		t.bytes(4 * count) // where each container begins, which follows from their sizes
	}
	var found []span
	for i, head := range heads {
		key := uint32(head[0]) << 16
		for _, s := range t.container(flags != nil && flags[i/8]>>(i%8)&1 == 1, head[1]) {
			found = append(found, span{key | s.first, key | s.last})
		}
		if t.short {
			return nil, damage("bitmap: ends early")
		}
	}
	return joinSpans(found), nil
}

// header gives the number of containers, and which of them hold runs; nil: none does.
func (t *taker) header() (count int, flags []byte, err error) {
	cookie := t.u32()
	if cookie&0xffff == cookieRuns {
		count = int(cookie>>16) + 1
		return count, t.bytes((count + 7) / 8), nil
	}
	many := t.u32()
	if t.short || cookie != cookiePlain || many > 1<<16 {
		return 0, nil, damage("bitmap: no header of one")
	}
	return int(many), nil, nil
}

func (t *taker) container(isRuns bool, size int) []span {
	switch {
	case isRuns:
		return t.runs()
	case size <= mostListed:
		return t.list(size)
	}
	return t.bitset()
}

func (t *taker) runs() (found []span) {
	for range t.u16() {
		first := t.u16()
		found = append(found, span{uint32(first), uint32(min(first+t.u16(), 0xffff))})
	}
	return found
}

func (t *taker) list(size int) (found []span) {
	raw := t.bytes(2 * size)
	for i := range size {
		number := uint32(binary.LittleEndian.Uint16(raw[2*i:]))
		found = append(found, span{number, number})
	}
	return found
}

func (t *taker) bitset() (found []span) {
	for i, b := range t.bytes(bitsetBytes) {
		for bit := range 8 {
			if b>>bit&1 == 1 {
				number := uint32(8*i + bit)
				found = append(found, span{number, number})
			}
		}
	}
	return found
}
