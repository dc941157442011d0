package main

import (
	"encoding/binary"
	"math/bits"
)

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
		if t.short || i > 0 && heads[i-1][0] >= heads[i][0] {
			return nil, damage("bitmap: its containers don't ascend")
		}
	}
	starts := make([]uint32, 0, count)
	for flags == nil && len(starts) < count || flags != nil && count >= fewNoStarts && len(starts) < count {
		if starts = append(starts, t.u32()); t.short {
			return nil, damage("bitmap: ends early")
		}
	}
	var found []span
	for i, head := range heads {
		if len(starts) > 0 && uint64(starts[i]) != uint64(t.at) {
			return nil, damage("bitmap: container %d does not begin where it says", i)
		}
		isRuns := flags != nil && flags[i/8]>>(i%8)&1 == 1
		own, right := t.container(isRuns, head[1])
		if !right || t.short {
			return nil, damage("bitmap: container %d is wrong", i)
		}
		key := uint32(head[0]) << 16
		for _, s := range own {
			found = append(found, span{key | s.first, key | s.last})
		}
	}
	if t.at != len(data) {
		return nil, damage("bitmap: bytes behind it")
	}
	return joinSpans(found), nil
}

// header gives the number of containers, and which of them hold runs; nil: none does.
func (t *taker) header() (count int, flags []byte, err error) {
	cookie := t.u32()
	if cookie&0xffff != cookieRuns {
		many := t.u32()
		if t.short || cookie != cookiePlain || many < 1 || many > 1<<16 {
			return 0, nil, damage("bitmap: no header of one")
		}
		return int(many), nil, nil
	}
	count = int(cookie>>16) + 1
	flags = t.bytes((count + 7) / 8)
	some := 0
	for _, b := range flags {
		some |= int(b)
	}
	if t.short || some == 0 || count%8 != 0 && flags[len(flags)-1]>>(count%8) != 0 {
		return 0, nil, damage("bitmap: wrong flags of containers of runs")
	}
	return count, flags, nil
}

func (t *taker) container(isRuns bool, size int) ([]span, bool) {
	switch {
	case isRuns:
		return t.runs(size)
	case size <= mostListed:
		return t.list(size)
	}
	return t.bitset(size)
}

func (t *taker) runs(size int) (found []span, right bool) {
	count, sum := t.u16(), 0
	for range count {
		first, more := t.u16(), t.u16()
		last := first + more
		if t.short || last > 0xffff || len(found) > 0 && first <= int(found[len(found)-1].last)+1 {
			return nil, false
		}
		found = append(found, span{uint32(first), uint32(last)})
		sum += more + 1
	}
	return found, sum == size
}

func (t *taker) list(size int) (found []span, right bool) {
	raw := t.bytes(2 * size)
	for i := range size {
		number := uint32(binary.LittleEndian.Uint16(raw[2*i:]))
		if t.short || i > 0 && found[i-1].last >= number {
			return nil, false
		}
		found = append(found, span{number, number})
	}
	return found, true
}

func (t *taker) bitset(size int) (found []span, right bool) {
	raw, count := t.bytes(bitsetBytes), 0
	for i, b := range raw {
		count += bits.OnesCount8(b)
		for bit := range 8 {
			if b>>bit&1 == 1 {
				number := uint32(8*i + bit)
				found = append(found, span{number, number})
			}
		}
	}
	return found, count == size
}
