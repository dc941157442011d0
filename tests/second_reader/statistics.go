package main

import (
	"cmp"
	"encoding/hex"
	"fmt"
	"slices"
	"sort"
)

// Statistics of files and row groups: sections 5.2, 6.2 and 6.5. What cannot be used is unknown, never an error.

// A columnStatistics is what is known of a column in a file or row group. Bounds are valid for the type of the column.
type columnStatistics struct {
	nulls               int64 // -1: unknown
	min, max            bound
	noNaN               bool  // false: unknown
	bloomAt, bloomBytes int64 // -1: unknown
}

type bound struct {
	known bool
	bytes []byte
	exact bool
}

var unknown = columnStatistics{nulls: -1, bloomAt: -1, bloomBytes: -1}

func (c *columnStatistics) setBloom(at, length int64) {
	if c.bloomAt, c.bloomBytes = -1, -1; inRange(at) && inRange(length) {
		c.bloomAt, c.bloomBytes = at, length
	}
}

// line is the canonical form; empty if nothing is known.
func (c *columnStatistics) line() string {
	if c.nulls < 0 && !c.min.known && !c.max.known && !c.noNaN && c.bloomAt < 0 {
		return ""
	}
	number := func(n int64) string {
		if n < 0 {
			return "-"
		}
		return fmt.Sprint(n)
	}
	value := func(b bound) string {
		if !b.known {
			return "-"
		}
		return hex.EncodeToString(b.bytes)
	}
	exact := func(b bound) string { return bit(b.known && b.exact) }
	return number(c.nulls) + "|" + value(c.min) + "|" + value(c.max) + "|" + exact(c.min) + "|" + exact(c.max) + "|" +
		bit(c.noNaN) + "|" + number(c.bloomAt) + "|" + number(c.bloomBytes)
}

func bit(b bool) string {
	if b {
		return "1"
	}
	return "0"
}

// lines gives the canonical lines of a file and of its row groups. Columns are those of the file's schema.
func (f *liveFile) lines(columns []arrowField) (ofFile, ofGroups []string) {
	file := func(column int, c columnStatistics) {
		if line := c.line(); line != "" {
			ofFile = append(ofFile, f.path+"|"+columns[column].name+"|"+line)
		}
	}
	group := func(group, column int, c columnStatistics) {
		if line := c.line(); line != "" {
			ofGroups = append(ofGroups, fmt.Sprintf("%s|%d|%s|%s", f.path, group, columns[column].name, line))
		}
	}
	if f.part == nil {
		f.ownLines(columns, file, group)
	} else {
		f.part.lines(f, columns, file, group)
	}
	return ofFile, ofGroups
}

// Statistics in an Add.

// A rowGroup is one of an Add: what is listed of columns, by position.
type rowGroup struct {
	rows    uint64
	columns map[int]columnStatistics
}

func (a *add) file(revision uint64) *liveFile {
	f := &liveFile{path: a.path, partition: a.partition, size: int64(a.size), rows: int64(a.rows), revision: int64(revision),
		firstClock: a.firstClock, lastClock: a.lastClock, footerBytes: int64(a.footerBytes), groups: len(a.rowGroups), original: a.original}
	copy(f.fingerprint[:], a.fingerprint)
	copy(f.footerDigest[:], a.footerDigest)
	for _, group := range a.rowGroups {
		f.messages = append(f.messages, slices.Clone(group)) // so that the transaction's message need not be kept
	}
	return f
}

func decodeRowGroup(message []byte, columns []arrowField) rowGroup {
	group := rowGroup{rows: rowGroupRows(message)}
	each(message, func(f wireField) {
		if !f.is(2, wireBytes) {
			return
		}
		position, c := decodeColumn(f.bytes, columns)
		if position < 0 {
			return
		}
		if _, twice := group.columns[position]; twice {
			c = unknown
		}
		if group.columns == nil {
			group.columns = map[int]columnStatistics{}
		}
		group.columns[position] = c
	})
	return group
}

func decodeColumn(message []byte, columns []arrowField) (position int, c columnStatistics) {
	c = unknown
	bloomAt, bloomBytes := int64(-1), int64(-1)
	column := uint32(0)
	each(message, func(f wireField) {
		switch {
		case f.is(1, wireVarint):
			column = uint32(f.value)
		case f.is(2, wireVarint):
			c.nulls = int64(f.value)
		case f.is(3, wireBytes):
			c.min.known, c.min.bytes = true, f.bytes
		case f.is(4, wireBytes):
			c.max.known, c.max.bytes = true, f.bytes
		case f.is(5, wireVarint):
			c.min.exact = f.value != 0
		case f.is(6, wireVarint):
			c.max.exact = f.value != 0
		case f.is(7, wireVarint):
			bloomAt = int64(f.value)
		case f.is(8, wireVarint):
			bloomBytes = int64(f.value)
		case f.is(9, wireVarint):
			c.noNaN = f.value != 0
		}
	})
	if uint64(column) >= uint64(len(columns)) {
		return -1, c
	}
	if !inRange(c.nulls) {
		c.nulls = -1
	}
	kind := columns[column].bound
	c.min.known = c.min.known && kind.valid(c.min.bytes)
	c.max.known = c.max.known && kind.valid(c.max.bytes)
	c.noNaN = c.noNaN && kind.kind == boundDouble
	c.setBloom(bloomAt, bloomBytes)
	return int(column), c
}

func (f *liveFile) ownLines(columns []arrowField, file func(int, columnStatistics), group func(int, int, columnStatistics)) {
	var groups []rowGroup
	for _, message := range f.messages {
		groups = append(groups, decodeRowGroup(message, columns))
	}
	if len(groups) == 0 {
		return
	}
	if len(groups) == 1 {
		for column, c := range groups[0].columns {
			file(column, c)
		}
		return
	}
	for i := range groups {
		for column, c := range groups[i].columns {
			group(i, column, c)
		}
	}
	for column := range groups[0].columns {
		if !slices.ContainsFunc(groups, func(g rowGroup) bool { _, there := g.columns[column]; return !there }) {
			file(column, merge(groups, column, columns[column].bound))
		}
	}
}

// merge makes the statistics of a file of several row groups.
func merge(groups []rowGroup, column int, kind boundType) columnStatistics {
	merged := unknown
	merged.nulls = 0
	merged.noNaN = kind.kind == boundDouble
	minKnown, maxKnown := true, true
	for _, g := range groups {
		c := g.columns[column]
		if c.nulls < 0 || merged.nulls < 0 || !inRange(merged.nulls+c.nulls) {
			merged.nulls = -1
		} else {
			merged.nulls += c.nulls
		}
		if c.nulls >= 0 && uint64(c.nulls) == g.rows {
			continue // no value is there to be bounded
		}
		merged.noNaN = merged.noNaN && c.noNaN
		minKnown = minKnown && c.min.known
		maxKnown = maxKnown && c.max.known
		if minKnown && (!merged.min.known || kind.compare(c.min.bytes, merged.min.bytes) < 0) {
			merged.min = c.min
		}
		if maxKnown && (!merged.max.known || kind.compare(c.max.bytes, merged.max.bytes) >= 0) {
			merged.max = c.max
		}
	}
	merged.min.known = merged.min.known && minKnown
	merged.max.known = merged.max.known && maxKnown
	return merged
}

// Statistics in segments.

// A part is what describes the rows of one FILES segment.
type part struct {
	budget  *budget
	groups  []int32 // number of row groups by row of FILES
	batches []*batch
	columns [][]string // names, by batch
	// Where the statistics of each row are: of files (group -1) and of row groups, and the numbers of row groups that
	// ROW_GROUPS has. Sorted when they are first asked for.
	entries []entry
	numbers []entry
	sorted  bool
}

type entry struct{ row, group, batch, at int32 }

var (
	rowGroupsColumns  = []columnSpec{{"row", "int32", false}, {"row_group", "int32", false}, {"row_count", "int64", false}}
	statisticsColumns = []columnSpec{{"column", "int32", false}, {"row_delta", "int32", false}, {"null_count", "int64", true},
		{"min", "int64", true}, {"max", "int64", true}, {"min_bytes", "binary", true}, {"max_bytes", "binary", true},
		{"exact", "uint8", false}, {"bloom_offset", "int64", true}, {"bloom_bytes", "int64", true}}
	groupStatisticsColumns = append(slices.Clone(statisticsColumns), columnSpec{"row_group", "int32", false})
)

// describe takes a segment of row groups or statistics in. If it is damaged, all in it is unknown.
func (p *part) describe(from *source, r *reference) {
	specs := map[int32][]columnSpec{segRowGroups: rowGroupsColumns, segStatistics: statisticsColumns,
		segRowGroupStatistics: groupStatisticsColumns}[r.kind]
	b, err := from.open(&r.segmentRef, specs)
	if err != nil || p.budget.take(int64(b.rows)*16+int64(len(r.columns))*40) != nil {
		return
	}
	rows, err := rowsOf(b, r)
	if err != nil {
		return
	}
	groups := b.columns["row_group"]
	for i, row := range rows {
		e := entry{row, -1, int32(len(p.batches)), int32(i)}
		if groups != nil {
			e.group = groups.int32(i)
		}
		switch {
		case int(e.row) >= len(p.groups):
		case r.kind == segRowGroups:
			p.numbers = append(p.numbers, e)
		default:
			p.entries = append(p.entries, e)
		}
	}
	p.batches, p.columns = append(p.batches, b), append(p.columns, r.columns)
}

// rowsOf gives the row of FILES that each row of a segment describes, or says why the segment is damaged.
func rowsOf(b *batch, r *reference) ([]int32, error) {
	groups, columns := b.columns["row_group"], b.columns["column"]
	rows := make([]int32, b.rows)
	for i := range rows {
		first, column, group, row := i == 0, int32(0), int32(0), int64(0)
		if groups != nil {
			group = groups.int32(i)
		}
		if columns == nil {
			row = int64(b.columns["row"].int32(i))
			if !inRange(b.columns["row_count"].int64(i)) {
				return nil, damage("row %d: a number out of range", i)
			}
		} else {
			column, row = columns.int32(i), int64(b.columns["row_delta"].int32(i))
			before := int32(-1)
			if i > 0 {
				before = columns.int32(i - 1)
			}
			if column != before && column != before+1 || first && column != 0 {
				return nil, damage("row %d: its column is not that before or the next", i)
			}
			if first = column != before; !first && row >= 0 {
				row += int64(rows[i-1])
			}
		}
		if row < 0 || row > maxRows || group < 0 {
			return nil, damage("row %d: a number out of range", i)
		}
		if !first && (row < int64(rows[i-1]) || row == int64(rows[i-1]) && (groups == nil || group <= groups.int32(i-1))) {
			return nil, damage("row %d is not above the one before it", i)
		}
		rows[i] = int32(row)
	}
	if columns != nil && int(columns.int32(b.rows-1)) != len(r.columns)-1 {
		return nil, damage("has not all columns that its reference says")
	}
	return rows, nil
}

func (p *part) columnOf(e entry) string {
	return p.columns[e.batch][p.batches[e.batch].columns["column"].int32(int(e.at))]
}

func (p *part) sort() {
	if p.sorted {
		return
	}
	p.sorted = true
	slices.SortFunc(p.numbers, func(a, b entry) int {
		return cmp.Or(cmp.Compare(a.row, b.row), cmp.Compare(a.group, b.group))
	})
	slices.SortFunc(p.entries, func(a, b entry) int {
		if c := cmp.Or(cmp.Compare(a.row, b.row), cmp.Compare(a.group, b.group)); c != 0 {
			return c
		}
		return cmp.Compare(p.columnOf(a), p.columnOf(b))
	})
}

// ofRow gives the entries of a row of FILES.
func ofRow(entries []entry, row int32) []entry {
	from := sort.Search(len(entries), func(i int) bool { return entries[i].row >= row })
	to := sort.Search(len(entries), func(i int) bool { return entries[i].row > row })
	return entries[from:to]
}

// groupsKnown tells whether the row groups of a file are exactly those that it says, each once.
func (p *part) groupsKnown(f *liveFile) bool {
	numbers := ofRow(p.numbers, f.row)
	for i, e := range numbers {
		if int(e.group) != i {
			return false
		}
	}
	return f.groups > 1 && len(numbers) == f.groups
}

func (p *part) lines(f *liveFile, columns []arrowField, file func(int, columnStatistics), group func(int, int, columnStatistics)) {
	p.sort()
	positions := map[string]int{}
	for i := range columns {
		positions[columns[i].name] = i
	}
	groupsKnown := p.groupsKnown(f)
	entries := ofRow(p.entries, f.row)
	same := func(i, j int) bool {
		return j >= 0 && j < len(entries) && entries[i].group == entries[j].group &&
			p.columnOf(entries[i]) == p.columnOf(entries[j])
	}
	for i, e := range entries {
		column, there := positions[p.columnOf(e)]
		if !there || same(i, i-1) || same(i, i+1) {
			continue
		}
		c := p.statistics(e, columns[column].bound)
		switch {
		case e.group < 0:
			if f.groups != 1 {
				c.setBloom(-1, -1)
			}
			file(column, c)
		case groupsKnown && int(e.group) < f.groups:
			group(int(e.group), column, c)
		}
	}
}

// statistics reads a row of a segment.
func (p *part) statistics(e entry, kind boundType) columnStatistics {
	columns, i := p.batches[e.batch].columns, int(e.at)
	number := func(name string) int64 {
		if c := columns[name]; !c.null(i) && inRange(c.int64(i)) {
			return c.int64(i)
		}
		return -1
	}
	side := func(name string, flag byte) (b bound) {
		key, whole := columns[name], columns[name+"_bytes"]
		if key.null(i) || kind.kind == boundNone {
			return b
		}
		if whole.null(i) {
			b.bytes = kind.fromKey(key.int64(i))
			b.known = kind.valid(b.bytes)
		} else {
			b.bytes = whole.bytes(i)
			b.known = kind.valid(b.bytes) && kind.key(b.bytes) == key.int64(i)
		}
		b.exact = columns["exact"].data[i]&flag != 0
		return b
	}
	c := columnStatistics{nulls: number("null_count"), min: side("min", 1), max: side("max", 2),
		noNaN: kind.kind == boundDouble && columns["exact"].data[i]&4 != 0}
	c.setBloom(number("bloom_offset"), number("bloom_bytes"))
	return c
}
