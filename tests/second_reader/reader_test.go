package main

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"math/rand"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

func (l *testLog) judge() verdict { return judge(l.folder, nil) }

func (l *testLog) expect(kind, why string) verdict {
	l.t.Helper()
	v := l.judge()
	if v.Verdict != kind || !strings.Contains(v.Why, why) {
		l.t.Fatalf("%s (%s) instead of %s (%s)", v.Verdict, v.Why, kind, why)
	}
	return v
}

func (l *testLog) at(target uint64) string { return judge(l.folder, &target).Verdict }

func remove(paths ...string) {
	for _, path := range paths {
		os.Remove(path)
	}
}

func damageByte(t *testing.T, path string, at int) {
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	data[(at+len(data))%len(data)] ^= 1
	os.WriteFile(path, data, 0o666)
}

func canonical(v verdict) string { return compactJSON(v) }

// statisticsOf is a column of a row group.
func statisticsOf(column uint64, nulls uint64, low, high []byte) message {
	m := message{}.number(1, column).number(2, nulls)
	if low != nil {
		m = m.bytes(3, low).number(5, 1)
	}
	if high != nil {
		m = m.bytes(4, high)
	}
	return m
}

func groupOf(rows uint64, columns ...message) message {
	m := message{}.number(1, rows)
	for _, c := range columns {
		m = m.bytes(2, c)
	}
	return m
}

// sample writes a log of four revisions, and gives the segments of a checkpoint of the last of them.
func sample(t *testing.T) (*testLog, []*testSegment, []string) {
	l := newLog(t)
	one := groupOf(10, statisticsOf(0, 1, le(-7), le(7)), statisticsOf(1, 0, []byte("abc"), []byte("hamburg-altona")).
		number(7, 4).number(8, 64))
	two := []message{groupOf(4, statisticsOf(0, 4, nil, nil)), groupOf(6, statisticsOf(0, 1, le(3), le(9)))}
	paths := []string{
		l.commit(nil, schemaOf("t"), schemaOf("u"), addOf("t", "data/a", one)),
		l.commit(nil, addOf("t", "data/b", two...), addOf("u", "data/c")),
		l.commit(nil, removeOf("t", "data/a"), addOf("t", "data/a", one)),
		l.commit(nil, addOf("u", "data/d"), removeOf("u", "data/c")),
	}
	// Two runs; the first still has a row that is dead.
	altona, abc := int64(-1701958914524682451), int64(-2206092015806971904)
	segments := []*testSegment{
		filesSegment(0, 0, []byte{1 | 4}, filesRow("t", "data/a", 0, 1), filesRow("t", "data/b", 1, 2), filesRow("u", "data/c", 1, 0)),
		filesSegment(1, 1, nil, filesRow("t", "data/a", 2, 1), filesRow("u", "data/d", 3, 0)),
		{segmentFacts: segmentFacts{kind: segRowGroups, rows: 2}, part: 0, run: -1,
			piece: piece(rowGroupsColumns, [][]any{{int32(1), int32(0), int64(4)}, {int32(1), int32(1), int64(6)}}, false)},
		statisticsSegment(0, segStatistics, []any{"a", int32(1), int64(5), int64(3), int64(9), nil, nil, uint8(1), nil, nil}),
		statisticsSegment(0, segRowGroupStatistics,
			[]any{"a", int32(1), int64(4), nil, nil, nil, nil, uint8(3), nil, nil, int32(0)},
			[]any{"a", int32(1), int64(1), int64(3), int64(9), nil, nil, uint8(1), nil, nil, int32(1)}),
		statisticsSegment(1, segStatistics,
			[]any{"a", int32(0), int64(1), int64(-7), int64(7), nil, nil, uint8(1), nil, nil},
			[]any{"s", int32(0), int64(0), abc, altona, nil, []byte("hamburg-altona"), uint8(1), int64(4), int64(64)}),
		schemasSegment("t", "u"),
		applicationsSegment("app", 3, 1040),
		l.historySegment(0, 3, 1, 0, 2, 0, 1, 1, 1, 1),
	}
	return l, segments, paths
}

func TestCheckpointSaysWhatTransactionsSay(t *testing.T) {
	l, segments, paths := sample(t)
	without := l.expect("ok", "")
	if len(without.Tables) != 2 || without.Tables["t"].Statistics == hashLines(nil) ||
		without.Tables["t"].RowGroupStatistics == hashLines(nil) || without.Tables["t"].Files == damaged {
		t.Fatalf("%+v", without.found)
	}
	segments[0].byReference, segments[6].byReference = true, true
	for _, referencesToo := range []bool{false, true} {
		l.checkpoint(3, segments, referencesToo)
		if with := l.expect("ok", ""); canonical(with) != canonical(without) {
			t.Fatalf("%s\n%s", canonical(with), canonical(without))
		}
	}
	remove(paths...)
	alone := l.expect("ok", "")
	if canonical(alone) != canonical(without) {
		t.Fatalf("%s\n%s", canonical(alone), canonical(without))
	}
	if l.at(2) != pruned || l.at(4) != missing {
		t.Fatal(l.at(2), l.at(4))
	}
	l.commit(nil, addOf("t", "data/e"))
	if l.at(4) != "ok" {
		t.Fatal(l.at(4))
	}
}

func TestPartsFallBack(t *testing.T) {
	l, segments, paths := sample(t)
	want := canonical(l.judge())
	for i := range segments {
		segments[i].byReference = true
	}
	l.checkpoint(3, segments, true)
	for i, s := range segments {
		data, _ := os.ReadFile(l.segmentPath(s))
		damageByte(t, l.segmentPath(s), -1)
		if describesFiles(s.kind) {
			if v := l.expect("ok", ""); v.Tables["t"].Statistics == "damaged" || v.Tables["t"].Files == "damaged" {
				t.Fatal(i)
			}
		} else if got := canonical(l.expect("ok", "")); got != want {
			t.Fatalf("segment %d: %s\n%s", i, got, want)
		}
		l.put(l.segmentPath(s), data)
	}
	// Without a lower base the part is lost, and nothing else.
	remove(paths...)
	remove(l.segmentPath(segments[0]), l.segmentPath(segments[7]), l.segmentPath(segments[8]))
	v := l.expect("ok", "")
	if v.Tables["t"].Files != damaged || v.Tables["u"].Files != damaged || v.Applications != damaged || v.History != damaged {
		t.Fatalf("%s", canonical(v))
	}
	remove(l.segmentPath(segments[6]))
	if v = l.expect("ok", ""); len(v.Tables) != 0 || len(v.Unlistable) != 1 {
		t.Fatalf("%s", canonical(v))
	}
}

func TestTooNewSegmentsAreNotFallenBackFrom(t *testing.T) {
	l, segments, _ := sample(t)
	segments = append(segments, &testSegment{segmentFacts: segmentFacts{kind: 12, rows: 1}, piece: []byte("?")})
	l.checkpoint(3, segments, false)
	if v := l.expect("ok", ""); v.Applications != tooNew || v.History != tooNew || len(v.Unlistable) != 1 {
		t.Fatalf("%s", canonical(v))
	}
	l, segments, _ = sample(t)
	segments[0].byReference = true
	l.checkpoint(3, segments, false)
	data, _ := os.ReadFile(l.segmentPath(segments[0]))
	data[4] = 2
	l.put(l.segmentPath(segments[0]), sealFrame(data))
	if v := l.expect("ok", ""); v.Tables["t"].Files != tooNew || v.History == tooNew {
		t.Fatalf("%s", canonical(v))
	}
}

func TestBasesFallBack(t *testing.T) {
	l, segments, paths := sample(t)
	cp := l.checkpoint(3, segments, false)
	l.commit(nil, addOf("t", "data/e"))
	want := canonical(l.expect("ok", ""))
	whole, _ := os.ReadFile(cp)
	damageByte(t, cp, 60)
	if got := canonical(l.expect("ok", "")); got != want {
		t.Fatalf("%s\n%s", got, want)
	}
	// A checkpoint whose digest is not that of its transaction is found by the transaction above.
	other := bytes.Clone(whole)
	at := bytes.Index(other, slotUUID(4)) + 16 + 2
	other[at] ^= 1
	l.put(cp, sealFrame(other))
	if got := canonical(l.expect("ok", "")); got != want {
		t.Fatalf("%s\n%s", got, want)
	}
	remove(paths[1])
	l.expect(damaged, "transaction")
	l.put(cp, whole)
	l.expect("ok", "")
	remove(cp)
	l.expect(missing, "transaction 1 is missing")
	// Too new is not fallen back from.
	tooNewer := bytes.Clone(whole)
	tooNewer[4] = 2
	l.put(cp, sealFrame(tooNewer))
	l.expect(tooNew, "format version 2")
	tooNewer[90] ^= 1
	l.put(cp, tooNewer)
	l.expect(damaged, "digest")
}

func TestChain(t *testing.T) {
	for what, breakIt := range map[string]func(*testLog){
		"epoch":      func(l *testLog) { l.epoch = 0; l.commit(nil) },
		"lower":      func(l *testLog) { l.epoch = 7; l.commit(nil); l.epoch = 6; l.commit(nil) },
		"time":       func(l *testLog) { l.time -= 10; l.commit(nil) },
		"log":        func(l *testLog) { l.options.logID[0] = 9; l.commit(nil) },
		"uuid":       func(l *testLog) { l.uuid = slotUUID(77); l.commit(nil) },
		"digest":     func(l *testLog) { l.digest = make([]byte, 32); l.commit(nil) },
		"path":       func(l *testLog) { l.commit(nil, addOf("t", "data//x")) },
		"long table": func(l *testLog) { l.commit(nil, schemaOf(strings.Repeat("%", 86))) },
		"after a seal": func(l *testLog) {
			l.commit(nil, message{}.bytes(8, message{}.number(1, 2).bytes(2, slotUUID(9))))
			l.commit(nil)
		},
		"seal and more": func(l *testLog) {
			l.commit(nil, message{}.bytes(8, message{}.number(1, 2).bytes(2, slotUUID(9))), schemaOf("t"))
		},
		"other incarnation": func(l *testLog) {
			path := l.commit(nil)
			data, _ := os.ReadFile(path)
			data[40] = 2
			l.put(path, sealFrame(data))
		},
		"text": func(l *testLog) { l.commit(nil, message{}.bytes(10, nil).bytes(2, message{}.text(1, "\xff"))) },
	} {
		l := newLog(t)
		l.commit(nil)
		breakIt(l)
		if v := l.judge(); v.Verdict != damaged {
			t.Errorf("%s: %s", what, v.Verdict)
		}
		if l.at(0) != "ok" {
			t.Errorf("%s: revision 0 is %s", what, l.at(0))
		}
	}
}

func TestTooNewComesFirst(t *testing.T) {
	wrong := removeOf("", "nowhere")
	for what, c := range map[string]struct {
		actions []message
		verdict string
	}{
		"unknown kind":           {[]message{wrong, message{}.bytes(13, nil)}, tooNew},
		"no kind":                {[]message{{}}, tooNew},
		"optional":               {[]message{message{}.bytes(13, nil).number(15, 1)}, "ok"},
		"known with unknown":     {[]message{append(message{}.number(13, 3), schemaOf("t")...)}, "ok"},
		"wrong wire type":        {[]message{message{}.number(3, 3)}, tooNew},
		"no tombstone":           {[]message{message{}.bytes(6, nil).number(15, 1)}, damaged},
		"feature":                {[]message{wrong, message{}.bytes(4, message{}.text(1, "later"))}, tooNew},
		"known feature":          {[]message{message{}.bytes(4, message{}.text(1, "locations").text(1, "partition_columns"))}, "ok"},
		"location":               {[]message{message{}.bytes(10, message{}.text(1, "s3://b"))}, "ok"},
		"definition":             {[]message{definitionOf("t", "a")}, "ok"},
		"definition of nothing":  {[]message{message{}.bytes(11, message{}.text(1, "t").number(4, 7))}, "ok"},
		"definition of no table": {[]message{message{}.bytes(11, message{}.number(4, 7))}, damaged},
		"definition of twins":    {[]message{definitionOf("t", "a", "a")}, damaged},
		"key":                    {[]message{keyedBy("b", "a")}, "ok"},
		"key of a stranger":      {[]message{keyedBy("a", "c")}, damaged},
		"key of twins":           {[]message{keyedBy("a", "a")}, damaged},
		"wrong location":         {[]message{message{}.bytes(10, message{}.text(1, "s3://b/"))}, damaged},
		"writer feature":         {[]message{message{}.bytes(4, message{}.text(2, "x"))}, "ok"},
		"overridden tombstone":   {[]message{append(message{}.bytes(6, nil), schemaOf("t")...)}, "ok"},
		"kind of segment":        {[]message{message{}.bytes(5, message{}.bytes(1, message{}.bytes(1, message{}.number(1, 12))))}, tooNew},
		"references in a batch":  {[]message{message{}.bytes(5, message{}.bytes(1, message{}.bytes(1, message{}.number(1, 8))))}, damaged},
		"damaged only":           {[]message{wrong}, damaged},
		"merged singular fields": {[]message{append(message{}.bytes(2, message{}.text(1, "data/x")), message{}.bytes(2, message{}.text(2, "t"))...)}, "ok"},
	} {
		for _, codec := range []byte{0, 1} {
			l := newLog(t)
			l.options.codec = codec
			l.commit(nil)
			l.commit(nil, c.actions...)
			if v := l.judge(); v.Verdict != c.verdict {
				t.Errorf("%s: %s (%s) instead of %s", what, v.Verdict, v.Why, c.verdict)
			}
		}
	}
}

func TestWhatDoesNotFitCostsItsTableOnly(t *testing.T) {
	for what, actions := range map[string][]message{
		"live twice":         {addOf("t", "data/a")},
		"removed, not there": {removeOf("t", "data/x")},
		"table forgotten":    {message{}.bytes(9, message{}.text(2, "t"))},
		"schema forgotten": {message{}.bytes(9, message{}.bytes(3, message{}.text(1, "t").bytes(2, testFingerprint()))),
			schemaOf("t")},
	} {
		l, _, _ := sample(t)
		before := l.judge()
		l.commit(nil, actions...)
		v := l.expect("ok", "")
		if got, there := v.Tables["t"]; there && got.Files != damaged || v.Tables["u"] != before.Tables["u"] {
			t.Errorf("%s: %s", what, canonical(v))
		}
		if l.at(3) != "ok" {
			t.Error(what)
		}
	}
}

func TestAddBatch(t *testing.T) {
	l, _, _ := sample(t)
	two := []message{groupOf(4, statisticsOf(0, 4, nil, nil)), groupOf(6, statisticsOf(0, 1, le(3), le(9)))}
	one := newLog(t)
	*one = *l
	one.commit(nil, addOf("t", "data/x"), addOf("t", "data/y", two...), addOf("u", "data/z"))
	want := one.judge()

	files := filesSegment(-1, -1, nil, filesRow("t", "data/x", 4, 0), filesRow("t", "data/y", 4, 2), filesRow("u", "data/z", 4, 0))
	groups := &testSegment{segmentFacts: segmentFacts{kind: segRowGroups, rows: 2},
		piece: piece(rowGroupsColumns, [][]any{{int32(1), int32(0), int64(4)}, {int32(1), int32(1), int64(6)}}, true)}
	ofFiles := statisticsSegment(-1, segStatistics, []any{"a", int32(1), int64(5), int64(3), int64(9), nil, nil, uint8(1), nil, nil})
	ofGroups := statisticsSegment(-1, segRowGroupStatistics,
		[]any{"a", int32(1), int64(4), nil, nil, nil, nil, uint8(3), nil, nil, int32(0)},
		[]any{"a", int32(1), int64(1), int64(3), int64(9), nil, nil, uint8(1), nil, nil, int32(1)})
	write := func() verdict {
		two := *l
		var attachments []byte
		batch := message{}
		for _, s := range []*testSegment{files, groups, ofFiles, ofGroups} {
			attachments = two.store(s, attachments)
			batch = batch.bytes(1, s.ref())
		}
		two.commit(attachments, message{}.bytes(5, batch))
		return two.expect("ok", "")
	}
	got := write()
	if compactJSON(got.Tables) != compactJSON(want.Tables) {
		t.Fatalf("%s\n%s", canonical(got), canonical(want))
	}
	files.lastTable = "t"
	if got = write(); got.Tables["t"].Files != damaged || got.Tables["u"].Files == damaged {
		t.Fatalf("%s", canonical(got))
	}
}

func TestForksIncarnationsAndNames(t *testing.T) {
	l, segments, _ := sample(t)
	other := slotUUID(99)
	l.put(l.name(2, other, "transaction"), nil)
	l.expect(forked, "on revision 2")
	if l.at(1) != "ok" {
		t.Fatal(l.at(1))
	}
	cp := l.checkpoint(3, segments, false)
	l.expect("ok", "") // the fork is below the base
	remove(cp)
	remove(l.name(2, other, "transaction"))

	l.put(filepath.Join(l.folder, "transactions", "998-999999999990-8.00000000.transaction"), nil) // numbers do not fit
	l.put(filepath.Join(l.folder, "transactions", "999-999999999999-0.00000000.checkpoint"), nil)  // incarnation 0
	l.expect("ok", "")
	l.put(l.name(maxRevision, other, "transaction"), nil)
	l.expect(missing, "999999999998")
	remove(l.name(maxRevision, other, "transaction"))

	l.options.incarnation = 3
	l.put(l.name(5, other, "transaction"), nil) // in use, whatever is left of it
	l.expect(missing, "transaction 4")
	l.put(l.name(5, other, "checkpoint"), nil)
	l.expect(damaged, "no frame")
	remove(l.name(5, other, "transaction"), l.name(5, other, "checkpoint"))
	one := l.name(0, other, "transaction")
	empty := newLog(t)
	empty.expect("empty", "")
	empty.options.incarnation = 2
	empty.put(filepath.Join(empty.folder, "transactions", filepath.Base(one)), nil)
	empty.expect(damaged, "no frame")
}

func TestSealAndIdentity(t *testing.T) {
	l := newLog(t)
	l.commit(nil)
	l.commit(nil, message{}.bytes(7, message{}.text(1, "NEW").text(2, "db")))
	l.commit(nil, message{}.bytes(8, message{}.number(1, 5).bytes(2, slotUUID(9))))
	l.expect(damaged, "sealed")
	if v := judge(l.folder, new(uint64(2))); v.SealedFor != 5 || v.Named[0] != "NEW" || v.Applications.(map[string]int64)["app"] != 2 {
		t.Fatal(canonical(v))
	}
}

func TestKeys(t *testing.T) { // the table of section 6.5
	ten22 := make([]byte, 16)
	copy(ten22, "\x00\x00\x40\xb2\xba\xc9\xe0\x19\x1e\x02")
	for _, c := range []struct {
		kind  int
		key   int64
		bytes []byte
		whole bool
	}{
		{boundInt64, -5, le(-5), false},
		{boundUint64, -9223372036854775801, le(7), false},
		{boundUint64, 0, le(-1 << 63), false},
		{boundDouble, 4609434218613702656, le(0x3ff8000000000000), false},
		{boundDouble, -4609434218613702657, le(-0x4008000000000000), false},
		{boundDouble, -1, le(-1 << 63), false},
		{boundDouble, 0, le(0), false},
		{boundBool, 1, []byte{1}, false},
		{boundString, -9223372036854775808, []byte{}, false},
		{boundString, -2206092015806971904, []byte("abc"), false},
		{boundString, -2683093753402267648, []byte("Zürich"), false},
		{boundString, -1701958914524682451, []byte("hamburg-altona"), true},
		{boundBinary, -2233785415175766016, []byte("a\x00"), true},
		{boundDecimal, -1234, append(le(-1234), le(-1)...), false},
		{boundDecimal, 9223372036854775807, ten22, true},
	} {
		kind := boundType{kind: c.kind}
		if got := kind.key(c.bytes); got != c.key || !kind.valid(c.bytes) {
			t.Errorf("%v: key %d", c, got)
		}
		if back := kind.fromKey(c.key); bytes.Equal(back, c.bytes) == c.whole {
			t.Errorf("%v: back %x", c, back)
		}
	}
}

func TestArrowOfAnotherWriter(t *testing.T) { // testdata/ was written by pyarrow, with columns that are not ours among ours
	for _, name := range []string{"plain", "zstd"} {
		data, err := os.ReadFile("testdata/history-" + name + ".arrow")
		if err != nil {
			t.Fatal(err)
		}
		from := &source{attachments: data, revision: 30, budget: &budget{left: memory}}
		r := &reference{segmentRef: segmentRef{segmentFacts: segmentFacts{kind: segHistory, rows: 30, lastRevision: 29},
			length: uint64(len(data))}}
		rows, err := from.readHistory(r)
		if err != nil {
			t.Fatal(name, err)
		}
		if last := rows[29]; last.committedAt != 30 || len(last.ids) != 2 || last.ids[1][15] != 29 || last.guest ||
			!rows[27].guest || strings.Join(rows[28].summary, ",") != "ä=b" {
			t.Errorf("%+v", last)
		}
		r.rows = 29
		if _, err := from.readHistory(r); err == nil {
			t.Error("wrong number of rows was taken")
		}
	}
	data, _ := os.ReadFile("testdata/schema.arrow")
	columns, err := decodeArrowSchema(data)
	if err != nil {
		t.Fatal(err)
	}
	kinds := []int{boundBool, boundInt64, boundUint64, boundDouble, 0, boundString, boundBinary, boundDecimal, 0, boundTimestamp,
		boundTimestamp, boundDate, 0, boundTime, boundTime, boundString, 0, 0, 0, 0, 0, 0, 0, 0}
	for i, c := range columns {
		if c.bound.kind != kinds[i] {
			t.Errorf("%s: %d", c.name, c.bound.kind)
		}
	}
	if len(columns) != len(kinds) {
		t.Error(len(columns))
	}
	for _, wrong := range [][]byte{data[4:], append(bytes.Clone(data), 0), data[:len(data)-1], append(bytes.Clone(data), make([]byte, 8)...)} {
		if _, err := decodeArrowSchema(wrong); err == nil {
			t.Error("a wrong form was taken")
		}
	}
}

func TestStatisticsOfAnotherWriter(t *testing.T) { // written by testdata/make_statistics.py
	columns := []arrowField{{name: "s", bound: boundType{kind: boundString}}, {name: "n", bound: boundType{kind: boundInt64}}}
	for _, name := range []string{"plain", "zstd"} {
		p := &part{budget: &budget{left: memory}, groups: make([]int32, 40)}
		for i := range p.groups {
			p.groups[i] = int32(i % 2) // 0: unknown
		}
		p.groups[1], p.groups[39] = 2, 2
		read := func(file string, kind int32, rows uint64, names ...string) int {
			data, err := os.ReadFile("testdata/" + file + "-" + name + ".arrow")
			if err != nil {
				t.Fatal(err)
			}
			before := len(p.entries)
			p.describe(&source{attachments: data, budget: p.budget}, &reference{segmentRef: segmentRef{
				segmentFacts: segmentFacts{kind: kind, rows: rows, columns: names}, length: uint64(len(data))}})
			p.sorted = false
			return len(p.entries) - before
		}
		for what, got := range map[string]int{
			"a name less":  read("statistics", segStatistics, 54, "n"),
			"a name more":  read("statistics", segStatistics, 54, "n", "s", "t"),
			"a row less":   read("statistics", segStatistics, 53, "n", "s"),
			"without rows": read("group-statistics", segStatistics, 4, "n"),
			"other kind":   read("statistics", segRowGroupStatistics, 54, "n", "s"),
		} {
			if got != 0 {
				t.Errorf("%s: %s was taken", name, what)
			}
		}
		if a, b := read("statistics", segStatistics, 54, "n", "s"), read("group-statistics", segRowGroupStatistics, 4, "n"); a != 54 || b != 4 {
			t.Fatal(name, a, b)
		}
		for i := range 2 {
			p.numbers = append(p.numbers, entry{1, int32(i), 0, 0}, entry{39, int32(i), 0, 0})
		}
		lines := func(row int32) string {
			a, b := (&liveFile{part: p, row: row, groups: int(p.groups[row]), path: "f"}).lines(columns)
			slices.Sort(a)
			return strings.Join(append(a, b...), " ")
		}
		n := func(low, high int) string {
			return hex.EncodeToString(le(int64(low))) + "|" + hex.EncodeToString(le(int64(high)))
		}
		end := func(letter string) string { return hex.EncodeToString([]byte("hamburg-" + letter)) }
		for row, want := range map[int32]string{
			1:  "f|n|1|" + n(1, 1001) + "|1|0|0|-|- f|0|n|1|" + n(1, 1001) + "|1|0|0|-|- f|1|n|1|" + n(1, 1001) + "|1|0|0|-|-",
			2:  "f|n|2|" + n(2, 1002) + "|0|1|0|-|-",
			3:  "f|n|3|" + n(3, 1003) + "|1|1|0|-|- f|s|-||" + end("d") + "|1|1|0|3|64",
			30: "f|n|30|" + n(30, 1030) + "|0|1|0|-|- f|s|-||" + end("e") + "|0|1|0|-|-", // of no row groups: no bloom filter
		} {
			if got := lines(row); got != want {
				t.Errorf("%s: %d: %s instead of %s", name, row, got, want)
			}
		}
		if got := lines(39); !strings.Contains(got, "f|1|n|39|") || !strings.Contains(got, "f|s|") {
			t.Error(name, got)
		}
	}
}

func TestZstdForm(t *testing.T) {
	for what, c := range map[string]struct {
		change func([]byte) []byte
	}{
		"twice":      {func(b []byte) []byte { return append(bytes.Clone(b), b...) }},
		"behind":     {func(b []byte) []byte { return append(bytes.Clone(b), 0) }},
		"cut":        {func(b []byte) []byte { return b[:len(b)-1] }},
		"dictionary": {func(b []byte) []byte { b = append(append(bytes.Clone(b[:5]), 7), b[5:]...); b[4] |= 1; return b }},
		"nothing":    {func(b []byte) []byte { return nil }},
	} {
		l := newLog(t)
		l.options.codec = 1
		path := l.commit(nil)
		data, _ := os.ReadFile(path)
		stored := c.change(data[80:])
		data = append(bytes.Clone(data[:80]), stored...)
		binary.LittleEndian.PutUint32(data[8:], uint32(len(stored)))
		l.put(path, sealFrame(data))
		if v := l.judge(); v.Verdict != damaged || !strings.Contains(v.Why, "zstd") {
			t.Error(what, v.Verdict, v.Why)
		}
	}
	zero := []byte{0x28, 0xb5, 0x2f, 0xfd, 0x21, 0, 3, 0x19, 0, 0, 'a', 'b', 'c'} // Dictionary_ID 0 is none
	if out, err := unzstd(zero, 3); err != nil || string(out) != "abc" {
		t.Error(err)
	}
}

// TestHostile changes bytes behind right digests and asks only that nothing panics.
func TestHostile(t *testing.T) {
	rounds, seed := 300, int64(1)
	if text := os.Getenv("HOSTILE_ROUNDS"); text != "" {
		rounds, _ = strconv.Atoi(text)
		seed = int64(rounds)
	}
	random := rand.New(rand.NewSource(seed))
	l, segments, paths := sample(t)
	for _, s := range segments[:6] {
		s.piece = bytes.Clone(s.piece)
	}
	cp := l.checkpoint(3, segments, false)
	remove(paths...)
	data, _ := os.ReadFile(cp)
	first, _ := os.ReadFile(l.commit(nil, schemaOf("v"), addOf("v", "data/q", groupOf(4, statisticsOf(0, 4, le(1), nil)))))
	next := l.name(4, slotUUID(4), "transaction")
	oks := 0
	for range rounds {
		for path, whole := range map[string][]byte{cp: data, next: first} {
			changed := bytes.Clone(whole)
			for range 1 + random.Intn(4) {
				at := 80 + random.Intn(len(changed)-80)
				switch random.Intn(4) {
				case 0:
					changed[at] = byte(random.Intn(256))
				case 1:
					changed[at] ^= 1 << random.Intn(8)
				case 2:
					copy(changed[at:], []byte{255, 255, 255, 127})
				case 3:
					copy(changed[at:], changed[80+random.Intn(len(changed)-80):][:1])
				}
			}
			l.put(path, sealFrame(changed))
			v := l.judge()
			if strings.HasPrefix(v.Why, "panic") {
				t.Fatalf("%s: %x", v.Why, changed)
			}
			three := judge(l.folder, new(uint64(3)))
			if strings.HasPrefix(three.Why, "panic") {
				t.Fatal(three.Why)
			}
			if three.Verdict == "ok" {
				oks++
			}
			l.put(path, whole)
		}
	}
	if oks < rounds/2 {
		t.Error("most changes should have passed the head of the checkpoint:", oks)
	}
}

func TestVerdictIsJSON(t *testing.T) {
	l, _, _ := sample(t)
	var any map[string]any
	if err := json.Unmarshal([]byte(canonical(l.judge())), &any); err != nil || len(any) != 18 {
		t.Fatal(err, len(any), canonical(l.judge()))
	}
}
