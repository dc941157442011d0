package main

import (
	"bytes"
	"encoding/json"
	"maps"
	"slices"
	"strings"
)

// What a state holds, as seen from one base: rules of kind (U), section 4.7. A view is made of a base when somebody needs
// a part that no higher base gives.

type view struct {
	base         *base
	budget       *budget
	where        string // the object that is being read
	references   []reference
	whole        error // nothing of the content of the base can be used
	tables       map[string]*table
	fileFaults   []rangeFault
	schemaFaults []rangeFault
	definitions  map[string]*definition
	definedFault error
	deletes      *deletes
	deletesFault error
	applications map[string]application
	appsFault    error
	history      []historyRow
	historyFault error
}

// A rangeFault makes all tables of a range of names unusable.
type rangeFault struct {
	interval
	err error
}

// An interval of names, both ends included.
type interval struct {
	all       bool
	low, high string
}

func (i interval) holds(name string) bool { return i.all || i.low <= name && name <= i.high }

func (i interval) cut(o interval) (interval, bool) {
	switch {
	case i.all:
		return o, o.all || o.low <= o.high
	case o.all:
		return i, true
	}
	both := interval{low: max(i.low, o.low), high: min(i.high, o.high)}
	return both, both.low <= both.high
}

// A schemaInfo is a schema that a state knows of a table.
type schemaInfo struct {
	schemaFacts
	revision int64
	decoded  bool
	columns  []arrowField // nil if it cannot be decoded
}

type table struct {
	live    map[string]*liveFile
	uses    map[[16]byte]int // live files by schema
	schemas map[[16]byte]*schemaInfo
	err     error // what did not fit first
}

func (v *view) table(name string) *table {
	t := v.tables[name]
	if t == nil {
		t = &table{live: map[string]*liveFile{}, uses: map[[16]byte]int{}, schemas: map[[16]byte]*schemaInfo{}}
		v.tables[name] = t
	}
	return t
}

func (t *table) add(f *liveFile) error {
	if t.live[f.path] != nil {
		return damage("%s is live already", f.path)
	}
	t.live[f.path] = f
	t.uses[f.fingerprint]++
	if t.schemas[f.fingerprint] == nil {
		return damage("%s has a schema that is not known", f.path)
	}
	return nil
}

func (t *table) remove(path string) error {
	f := t.live[path]
	if f == nil {
		return damage("%s is removed and was not live", path)
	}
	delete(t.live, path)
	t.uses[f.fingerprint]--
	return nil
}

// newView makes a view of a base. An error says that a transaction cannot be read any more, that could be read before.
func newView(b *base, money *budget) (*view, error) {
	v := &view{base: b, budget: money, tables: map[string]*table{}, definitions: map[string]*definition{},
		deletes: newDeletes(), applications: map[string]application{}}
	v.readBase()
	for r := b.revision + 1; r <= int64(b.target); r++ {
		name := b.listing.transactions[uint64(r)]
		t, err := openTransaction(b.listing.folder, name)
		if err != nil {
			return nil, err
		}
		v.where = name.name
		v.apply(t)
	}
	return v, nil
}

func (v *view) readBase() {
	c := v.base.checkpoint
	if c == nil {
		return
	}
	from := &source{folder: v.base.listing.folder, attachments: c.frame.attachments, logID: c.frame.logID,
		incarnation: c.frame.incarnation, revision: int64(c.revision), budget: v.budget}
	v.whole = v.budget.take(int64(c.frame.size))
	if v.whole == nil {
		v.references, v.whole = c.readReferences(from)
	}
	if v.whole != nil {
		v.whole = in(c.name.name, v.whole)
		v.appsFault, v.historyFault, v.definedFault, v.deletesFault = v.whole, v.whole, v.whole, v.whole
		everything := rangeFault{interval{all: true}, v.whole}
		v.fileFaults, v.schemaFaults = []rangeFault{everything}, []rangeFault{everything}
		return
	}
	v.where = c.name.name
	v.readBaseSchemas(from)
	v.readBaseFiles(from)
	rows := 0
	for i := range v.references {
		r := &v.references[i]
		switch r.kind {
		case segDefinitions:
			if err := from.readDefinitions(r, v.definitions); err != nil {
				v.definedFault = worse(v.definedFault, in(c.name.name, err))
			}
		case segRowDeletes:
			v.deletesFault = worse(v.deletesFault, in(c.name.name, from.readRowDeletes(r, v.deletes)))
		case segTombstones:
			v.deletesFault = worse(v.deletesFault, in(c.name.name, from.readTombstones(r, v.deletes)))
		case segApplications:
			if err := from.readApplications(r, v.applications); err != nil {
				v.appsFault = worse(v.appsFault, in(c.name.name, err))
			}
		case segHistory:
			err := v.readBaseHistory(from, r)
			v.historyFault = worse(v.historyFault, in(c.name.name, err))
			rows++
		}
	}
	v.deletesFault = worse(v.deletesFault, in(c.name.name, v.deletes.onlyOnce()))
	if v.historyFault == nil {
		v.historyFault = in(c.name.name, v.checkBaseHistory())
	}
}

// worse keeps the first error, but prefers one that says too new.
func worse(a, b error) error {
	if a == nil || b != nil && kindOf(b) == tooNew && kindOf(a) != tooNew {
		return b
	}
	return a
}

func (v *view) readBaseSchemas(from *source) {
	for i := range v.references {
		r := &v.references[i]
		if r.kind != segSchemas {
			continue
		}
		err := from.readSchemas(r, func(table string, fingerprint []byte, info *schemaInfo) {
			t := v.table(table)
			key := [16]byte(fingerprint)
			if known := t.schemas[key]; known != nil { // the last one counts, but for the revision
				info.revision = min(info.revision, known.revision)
			}
			t.schemas[key] = info
		})
		if err != nil {
			v.schemaFaults = append(v.schemaFaults, rangeFault{r.interval(), in(v.base.checkpoint.name.name, err)})
		}
	}
}

func (r *reference) interval() interval { return interval{low: r.firstTable, high: r.lastTable} }

func (v *view) readBaseFiles(from *source) {
	parts := map[int32]*part{}
	for i := range v.references {
		r := &v.references[i]
		if r.kind != segFiles {
			continue
		}
		p := &part{budget: v.budget}
		parts[r.part] = p
		err := from.readFiles(r, p, func(table string, f *liveFile) {
			v.fault(table, v.table(table).add(f))
		})
		if err != nil {
			v.fileFaults = append(v.fileFaults, rangeFault{r.interval(), in(v.base.checkpoint.name.name, err)})
		}
	}
	for i := range v.references {
		if r := &v.references[i]; describesFiles(r.kind) && parts[r.part] != nil {
			parts[r.part].describe(from, r)
		}
	}
}

func (v *view) readBaseHistory(from *source, r *reference) error {
	rows, err := from.readHistory(r)
	if err != nil {
		return err
	}
	if n := len(v.history); n > 0 {
		last := v.history[n-1]
		if rows[0].revision != last.revision+1 || rows[0].committedAt <= last.committedAt {
			return damage("HISTORY: a segment does not follow the one before it")
		}
	}
	v.history = append(v.history, rows...)
	return nil
}

func (v *view) checkBaseHistory() error {
	if len(v.history) == 0 {
		return damage("no HISTORY")
	}
	c, last := v.base.checkpoint, v.history[len(v.history)-1]
	if last.revision != int64(c.revision) || string(last.digest) != string(c.digest) || last.committedAt != c.committedAt {
		return damage("HISTORY does not end with the checkpoint's revision")
	}
	return nil
}

// apply changes the state by a transaction.
func (v *view) apply(t *transaction) {
	row := historyRow{revision: int64(t.revision), digest: bytes.Clone(t.frame.digest[:]), uuid: bytes.Clone(t.uuid), committedAt: t.committedAt,
		epoch: t.epoch, guest: t.guest, operation: t.operations(), summary: summary(t.members)}
	for i := range t.actions {
		v.act(t, t.actions[i].decode(), spot{int64(t.revision), t.actions[i].number}, &row)
	}
	for _, m := range t.members {
		row.ids = append(row.ids, slices.Clone(m.id))
		if known, there := v.applications[m.appID]; m.appID != "" && (!there || known.version <= int64(m.appVersion)) {
			v.applications[m.appID] = application{int64(m.appVersion), t.committedAt}
		}
	}
	v.history = append(v.history, row)
}

func (v *view) act(t *transaction, a *action, at spot, row *historyRow) {
	switch a.kind {
	case actionAdd:
		row.filesAdded++
		row.rowsAdded, row.bytesAdded = saturated(row.rowsAdded, a.add.rows), saturated(row.bytesAdded, a.add.size)
		file := a.add.file(t.revision)
		cost := int64(400 + len(a.add.path))
		for _, group := range file.messages {
			cost += int64(len(group) + 32)
		}
		v.fault(a.add.table, v.budget.take(cost))
		v.fault(a.add.table, v.table(a.add.table).add(file))
	case actionRemove:
		row.filesRemoved++
		v.fault(a.table, v.table(a.table).remove(a.path))
		delete(v.deletes.rows, fileKey{a.table, a.path})
	case actionTombstone:
		a.tombstone.spot = at
		v.deletesFault = worse(v.deletesFault, v.budget.take(int64(400+4*len(a.tombstone.predicate))))
		v.deletes.bury(a.tombstone)
	case actionRowDeletes:
		a.rowDeletes.spot = at
		if v.table(a.rowDeletes.table).live[a.rowDeletes.path] == nil {
			v.fault(a.rowDeletes.table, damage("rows of %s are deleted and it was not live", a.rowDeletes.path))
		}
		v.deletesFault = worse(v.deletesFault, v.budget.take(400))
		v.deletes.strike(a.rowDeletes)
	case actionAddBatch:
		v.addBatch(t, a, row)
	case actionSchema:
		schemas, key := v.table(a.schema.table).schemas, [16]byte(a.schema.fingerprint)
		info := &schemaInfo{schemaFacts: a.schema.schemaFacts, revision: int64(t.revision)}
		info.arrow = bytes.Clone(info.arrow) // so that the message need not be kept
		v.fault(a.schema.table, v.budget.take(int64(len(info.arrow)+400)))
		if known := schemas[key]; known != nil {
			info.revision = known.revision
		}
		schemas[key] = info
	case actionDefinition:
		d := a.definition.kept(int64(t.revision))
		v.definedFault = worse(v.definedFault, v.budget.take(d.cost()))
		v.definitions[d.table] = d
	case actionForget:
		v.forget(a)
	}
}

// fault makes a table unusable from here on, if there is an error.
func (v *view) fault(name string, err error) {
	if t := v.table(name); err != nil && t.err == nil {
		t.err = in(v.where, err)
	}
}

// addBatch does what Adds would. Rows of a segment count for the tables in the range of its reference only, as its readers
// look at no other segments.
func (v *view) addBatch(t *transaction, a *action, row *historyRow) {
	from := &source{attachments: t.frame.attachments, logID: t.frame.logID, incarnation: t.frame.incarnation,
		revision: int64(t.revision), exact: true, budget: v.budget}
	tooMuch := v.budget.take(int64(t.frame.size))
	var p *part
	for i := range a.segments {
		r := &reference{segmentRef: a.segments[i]}
		if r.kind != segFiles {
			p.describe(from, r)
			continue
		}
		row.filesAdded += r.rows
		row.rowsAdded, row.bytesAdded = saturated(row.rowsAdded, r.totalRows), saturated(row.bytesAdded, r.totalBytes)
		p = &part{budget: v.budget}
		err := tooMuch
		if err == nil {
			err = from.readFiles(r, p, func(table string, f *liveFile) {
				v.fault(table, v.table(table).add(f))
			})
		}
		if err != nil {
			v.fileFaults = append(v.fileFaults, rangeFault{r.interval(), in(v.where, err)})
		}
	}
}

func (v *view) forget(a *action) {
	if a.before > 0 {
		for id, known := range v.applications {
			if known.time < a.before {
				delete(v.applications, id)
			}
		}
	}
	for _, name := range a.tables {
		t := v.table(name)
		if len(t.live) > 0 {
			v.fault(name, damage("the table is forgotten while it has live files"))
		}
		clear(t.schemas)
		delete(v.definitions, name)
		v.deletes.forget(name)
	}
	for _, s := range a.schemas {
		t, key := v.table(s.table), [16]byte(s.fingerprint)
		if t.uses[key] > 0 {
			v.fault(s.table, damage("a schema is forgotten that a live file has"))
		}
		delete(t.schemas, key)
	}
}

// use gives a table whose files fit, or why they do not.
func (v *view) use(name string) (*table, error) {
	var err error
	for _, faults := range [][]rangeFault{v.fileFaults, v.schemaFaults} {
		for _, f := range faults {
			if f.holds(name) {
				err = worse(err, f.err)
			}
		}
	}
	t := v.table(name)
	return t, worse(err, t.err)
}

// schemasOf gives the schemas of a table, whether or not its files fit.
func (v *view) schemasOf(name string) (map[[16]byte]*schemaInfo, error) {
	var err error
	for _, f := range v.schemaFaults {
		if f.holds(name) {
			err = worse(err, f.err)
		}
	}
	return v.table(name).schemas, err
}

// summary is what HISTORY says of the members' summaries: of one key the last value, keys ascending.
func summary(members []member) (pairs []string) {
	all := map[string]string{}
	for _, m := range members {
		for _, p := range m.summary {
			all[p.key] = p.value
		}
	}
	for _, key := range slices.Sorted(maps.Keys(all)) {
		pairs = append(pairs, key+"="+all[key])
	}
	return pairs
}

func compactJSON(value any) string {
	var out strings.Builder
	encoder := json.NewEncoder(&out)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(value); err != nil {
		return ""
	}
	return strings.TrimSuffix(out.String(), "\n")
}
