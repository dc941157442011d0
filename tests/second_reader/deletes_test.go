package main

import (
	"crypto/sha256"
	"encoding/binary"
	"slices"
	"testing"
)

// numbersOf lists the numbers of a bitmap; nil if it is refused.
func numbersOf(data []byte) (found []uint32) {
	spans, err := decodeBitmap(data)
	if err != nil {
		return nil
	}
	for _, s := range spans {
		for n := uint64(s.first); n <= uint64(s.last) && len(found) < 10; n++ {
			found = append(found, uint32(n))
		}
	}
	return found
}

func u16s(numbers ...uint16) (found []byte) {
	for _, n := range numbers {
		found = binary.LittleEndian.AppendUint16(found, n)
	}
	return found
}

func bitmap(cookie uint32, rest ...[]byte) []byte {
	return slices.Concat(append([][]byte{u32(int(cookie))}, rest...)...)
}

func TestBitmaps(t *testing.T) {
	bits := make([]byte, bitsetBytes)
	for i := range 513 {
		bits[i] = 255
	}
	listed := bitmap(cookiePlain, u32(1), u16s(2, 1), u32(16), u16s(3, 7))
	runs := bitmap(cookieRuns, []byte{1}, u16s(1, 4), u16s(2, 0, 1, 9, 2))
	for what, c := range map[string]struct {
		data  []byte
		first []uint32
	}{
		"listed":       {listed, []uint32{2<<16 | 3, 2<<16 | 7}},
		"runs":         {runs, []uint32{1 << 16, 1<<16 | 1, 1<<16 | 9, 1<<16 | 10, 1<<16 | 11}},
		"bits":         {bitmap(cookiePlain, u32(1), u16s(0, 4103), u32(16), bits), []uint32{0, 1, 2, 3, 4, 5, 6, 7, 8, 9}},
		"nothing":      {nil, nil},
		"cut short":    {listed[:len(listed)-1], nil},
		"of none":      {bitmap(cookiePlain, u32(0)), nil},
		"of very many": {bitmap(cookiePlain, u32(1<<31)), nil},
	} {
		if found := numbersOf(c.data); !slices.Equal(found, c.first) {
			t.Errorf("%s: %v", what, found)
		}
	}
}

func TestDeletesOfALog(t *testing.T) {
	l := newLog(t)
	l.commit(nil, schemaOf("t"), addOf("t", "data/a"))
	rows := bitmap(cookiePlain, u32(1), u16s(0, 0), u32(16), u16s(0))
	object := "data/_/t/3-0123456789abcdef0123456789abcdef-0.deletes"
	digest := sha256.Sum256(rows)
	strike := func(path string, below int) message {
		return message{}.bytes(12, message{}.text(1, "t").text(2, path).text(3, object).number(5, uint64(len(rows))).
			number(6, 1).bytes(7, digest[:]).number(8, uint64(below)))
	}
	bury := message{}.bytes(6, message{}.text(1, "t").text(2, "a > 1"))
	l.commit(nil, bury, strike("data/a", 0))
	v := l.judge()
	if v.Verdict != "ok" || v.Deletes == hashLines(nil) || v.Tables["t"].Deleted == hashLines(nil) {
		t.Fatal(canonical(v))
	}
	before := v.Deletes
	l.commit(nil, strike("data/a", 99))
	if v = l.judge(); v.Deletes == before {
		t.Fatal("the newer one takes the place of the older one")
	}
	l.commit(nil, removeOf("t", "data/a"), message{}.bytes(9, message{}.text(2, "t")))
	if v = l.judge(); v.Deletes != hashLines(nil) {
		t.Fatal("what is removed and forgotten ends its deletes")
	}
	l.commit(nil, schemaOf("t"))
	l.commit(nil, strike("data/never", 0))
	if v = l.judge(); v.Tables["t"].Files != damaged {
		t.Fatal(canonical(v))
	}
}
