package main

import (
	"bytes"
	"encoding/binary"
	"os"
	"testing"
)

// Places of the format's text that were open once.

func TestFailingTransactionAboveABase(t *testing.T) { // section 4.3
	l, segments, _ := sample(t)
	l.checkpoint(3, segments, false)
	path := l.commit(nil)
	whole, _ := os.ReadFile(path)
	damageByte(t, path, -1)
	l.expect(damaged, "998-999999999995-4")
	l.put(path, whole)
	remove(path)
	l.put(l.name(5, slotUUID(5), "transaction"), whole)
	l.expect(missing, "transaction 4 is missing")
	if l.at(6) != missing || l.at(3) != "ok" {
		t.Fatal(l.at(6), l.at(3))
	}
	os.Mkdir(path, 0o777) // nothing can be read there
	remove(l.name(5, slotUUID(5), "transaction"))
	if l.at(4) != missing {
		t.Fatal(l.at(4))
	}
	// Where no base serves, forks do not matter.
	gap := newLog(t)
	for _, uuid := range [][]byte{slotUUID(1), slotUUID(2)} {
		gap.put(gap.name(7, uuid, "transaction"), nil)
	}
	gap.expect(missing, "transaction 6 is missing")
}

func TestWhatEndsAPartsFallingBack(t *testing.T) { // section 4.7
	damagedBase := func() (*testLog, string) {
		l, segments, paths := sample(t)
		segments[0].byReference = true
		l.checkpoint(3, segments, false)
		damageByte(t, l.segmentPath(segments[0]), -1)
		return l, paths[1]
	}
	l, _ := damagedBase()
	l.put(l.name(2, slotUUID(99), "transaction"), nil)
	if v := l.expect("ok", ""); v.Tables["t"].Files != damaged {
		t.Fatal(canonical(v))
	}
	l, one := damagedBase()
	data, _ := os.ReadFile(one)
	data[4] = 2
	l.put(one, sealFrame(data))
	if v := l.expect("ok", ""); v.Tables["t"].Files != tooNew || v.History == tooNew {
		t.Fatal(canonical(v))
	}
	l, one = damagedBase()
	damageByte(t, one, -1)
	if v := l.expect("ok", ""); v.Tables["t"].Files != damaged {
		t.Fatal(canonical(v))
	}
	// A lower base counts, but not one of another chain.
	for _, digest := range [][]byte{nil, bytes.Repeat([]byte{7}, 32)} {
		l, segments, paths := sample(t)
		own := l.digest
		if digest != nil {
			l.digest = digest
		}
		l.checkpoint(3, segments, false)
		l.digest = own
		l.commit(nil)
		segments[7].byReference = true
		segments[8] = l.historySegment(0, 4, 1, 0, 2, 0, 1, 1, 1, 1, 0, 0)
		remove(paths...)
		l.checkpoint(3, segments, false)
		l.expect("ok", "")
		remove(l.segmentPath(segments[7]))
		if v := l.expect("ok", ""); (v.Applications == damaged) != (digest != nil) {
			t.Fatal(canonical(v))
		}
	}
}

func TestTooNewBeforeDamagedAmongSegments(t *testing.T) { // section 4.7
	for _, newerOne := range []int{0, 6} {
		l, segments, _ := sample(t)
		segments[0].byReference, segments[6].byReference = true, true
		l.checkpoint(3, segments, false)
		for _, i := range []int{0, 6} {
			path := l.segmentPath(segments[i])
			data, _ := os.ReadFile(path)
			data[4] = 2
			if i == newerOne {
				sealFrame(data)
			}
			l.put(path, data)
		}
		if v := l.judge(); v.Verdict != "ok" || newerOne == 0 && l.tableFiles("t") != tooNew || newerOne == 6 && len(v.Tables) != 0 {
			t.Fatal(newerOne, canonical(v))
		}
	}
}

func (l *testLog) tableFiles(name string) string { return l.judge().Tables[name].Files }

func TestReferences(t *testing.T) { // section 6.6
	for what, c := range map[string]struct {
		change func([]*testSegment)
		sound  bool
	}{
		"nothing":               {func([]*testSegment) {}, true},
		"inverted tables":       {func(s []*testSegment) { s[6].firstTable, s[6].lastTable = "u", "t" }, false},
		"inverted paths":        {func(s []*testSegment) { s[1].firstTable, s[1].firstPath = "u", "data/e" }, false},
		"inverted revisions":    {func(s []*testSegment) { s[8].firstRevision, s[8].lastRevision = 3, 0 }, false},
		"statistics of none":    {func(s []*testSegment) { s[3].part = -1 }, false},
		"schemas of a part":     {func(s []*testSegment) { s[6].part = 0 }, false},
		"schemas of a run":      {func(s []*testSegment) { s[6].run = 0 }, false},
		"dead schemas":          {func(s []*testSegment) { s[6].dead = []byte{0} }, false},
		"columns of schemas":    {func(s []*testSegment) { s[6].columns = []string{"a"} }, false},
		"statistics of nothing": {func(s []*testSegment) { s[3].columns = nil }, false},
		"columns twice":         {func(s []*testSegment) { s[5].columns = []string{"a", "a"} }, false},
		"negative total":        {func(s []*testSegment) { s[6].totalRows = 1 << 63 }, false},
		"paths of schemas":      {func(s []*testSegment) { s[6].firstPath = "z" }, true},
		"offset by reference":   {func(s []*testSegment) { s[7].byReference, s[7].offset = true, 1<<62-1 }, true},
		"offset too high":       {func(s []*testSegment) { s[7].byReference, s[7].offset = true, 1<<62 }, false},
	} {
		l, segments, paths := sample(t)
		c.change(segments)
		l.checkpoint(3, segments, false)
		remove(paths...)
		v := l.expect("ok", "")
		if sound := v.Applications != damaged; sound != c.sound {
			t.Errorf("%s: %s", what, canonical(v))
		}
		c.change(segments)
		segments = append(segments, &testSegment{segmentFacts: segmentFacts{kind: 12, rows: 1}, part: 7})
		l.checkpoint(3, segments, false)
		if v := l.expect("ok", ""); v.Applications != tooNew {
			t.Errorf("%s: %s", what, canonical(v))
		}
	}
}

func TestIgnoredActionsCountNowhere(t *testing.T) { // section 5
	optional := message{}.bytes(13, nil).number(15, 1)
	l := newLog(t)
	l.commitWith(nil, func(m message) message {
		before := bytes.Index(m, message{}.bytes(7, identity()))
		return append(append(bytes.Clone(m[:before]), message{}.bytes(7, optional)...), m[before:]...)
	})
	l.expect("ok", "")
	l.commit(nil, optional, message{}.bytes(8, message{}.number(1, 2).bytes(2, slotUUID(9))))
	if v := judge(l.folder, new(uint64(1))); v.SealedFor != 2 {
		t.Fatal(canonical(v))
	}
}

func TestForgetThatDoesNotFitForgets(t *testing.T) { // section 5.1
	l, _, _ := sample(t)
	l.commit(nil, message{}.bytes(9, message{}.text(2, "t")), schemaOf("u"))
	v := l.expect("ok", "")
	if _, there := v.Tables["t"]; there || len(v.Tables) != 1 {
		t.Fatal(canonical(v))
	}
	l.commit(nil, schemaOf("t"))
	if l.tableFiles("t") != damaged {
		t.Fatal(l.tableFiles("t"))
	}
}

func TestBatchOfInvertedRange(t *testing.T) { // section 5.1
	l, _, _ := sample(t)
	s := filesSegment(-1, -1, nil, filesRow("t", "data/x", 4, 0))
	s.firstPath = "data/y"
	attachments := l.store(s, nil)
	l.commit(attachments, message{}.bytes(5, message{}.bytes(1, s.ref())))
	l.expect(damaged, "inverted")
}

func TestArrow(t *testing.T) { // section 6.4
	specs := []columnSpec{{"n", "int64", true}, {"l", "list of string", true}}
	rows := [][]any{{int64(1), []any{"a"}}, {nil, nil}, {int64(3), []any{"b", "c"}}}
	open := func(data []byte, more ...columnSpec) error {
		b, err := openBatch(data, 3, segFiles, &budget{left: memory})
		if err == nil {
			err = b.load(append(specs, more...)...)
		}
		return err
	}
	sound := piece(specs, rows, false)
	twoNumbers := func(a, b uint64) []byte {
		return binary.LittleEndian.AppendUint64(binary.LittleEndian.AppendUint64(nil, a), b)
	}
	changed := func(from, to []byte) []byte {
		if !bytes.Contains(sound, from) {
			t.Fatalf("%x", from)
		}
		return bytes.Replace(bytes.Clone(sound), from, to, 1)
	}
	footer := len(sound) - 10 - int(binary.LittleEndian.Uint32(sound[len(sound)-10:]))
	block := bytes.Clone(sound)
	at := footer + bytes.LastIndex(sound[footer:], append([]byte{1, 0, 0, 0}, binary.LittleEndian.AppendUint64(nil, 8)...)) + 4
	block[at+16] ^= 0xff // length of the body
	broken := piece(append([]columnSpec{{"x", "string", true}}, specs...), [][]any{
		append([]any{"\xff"}, rows[0]...), append([]any{"\xfe"}, rows[1]...), append([]any{nil}, rows[2]...)}, true)
	for what, c := range map[string]struct {
		data []byte
		ok   bool
	}{
		"as it is":               {sound, true},
		"more nulls":             {changed(twoNumbers(3, 1), twoNumbers(3, 2)), false},
		"negative nulls":         {changed(twoNumbers(3, 1), twoNumbers(3, 1<<64-1)), false},
		"no nulls":               {changed(twoNumbers(3, 1), twoNumbers(3, 0)), true},
		"length in the Block":    {block, false},
		"buffer not aligned":     {changed(twoNumbers(8, 24), twoNumbers(9, 24)), false},
		"broken, and not listed": {broken, true},
	} {
		if err := open(c.data); (err == nil) != c.ok {
			t.Errorf("%s: %v", what, err)
		}
	}
	if open(broken, columnSpec{"x", "string", true}) == nil {
		t.Error("text that is not UTF-8 was taken")
	}
	frame := []byte{0x28, 0xb5, 0x2f, 0xfd, 0x20, 3, 0x19, 0, 0, 'a', 'b', 'c'}
	if out, err := unzstd(append(bytes.Clone(frame), frame...), 6); err != nil || string(out) != "abcabc" {
		t.Error(err)
	}
}
