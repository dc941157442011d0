package main

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
)

// A verdict is what this reader says of a log, in a form that can be compared with what another one says.

type verdict struct {
	Verdict string `json:"verdict"`
	Why     string `json:"why,omitempty"`
	*found
}

type found struct {
	LogID          string                  `json:"log_id"`
	Incarnation    uint32                  `json:"incarnation"`
	Named          []string                `json:"named"`
	Revision       int64                   `json:"revision"`
	UUID           string                  `json:"uuid"`
	Digest         string                  `json:"digest"`
	Epoch          uint64                  `json:"epoch"`
	CommittedAt    int64                   `json:"committed_at_us"`
	SealedFor      uint32                  `json:"sealed_for"`
	ReaderFeatures []string                `json:"reader_features"`
	WriterFeatures []string                `json:"writer_features"`
	Locations      []string                `json:"locations"`
	Definitions    string                  `json:"definitions"`
	Deletes        string                  `json:"deletes"`
	Applications   any                     `json:"applications"`
	History        string                  `json:"history"`
	Tables         map[string]tableVerdict `json:"tables"`
	Unlistable     [][]string              `json:"unlistable,omitempty"` // ranges of names of tables
}

type tableVerdict struct {
	Files              string `json:"files"`
	Statistics         string `json:"statistics"`
	RowGroupStatistics string `json:"row_group_statistics"`
	Deleted            string `json:"deleted"`
	Schemas            string `json:"schemas"`
}

// judge reads a log at a revision, or at its head. It lists again before it believes that something is not there.
func judge(folder string, target *uint64) (v verdict) {
	defer func() {
		if r := recover(); r != nil {
			v = verdict{Verdict: damaged, Why: fmt.Sprint("panic: ", r)}
		}
	}()
	for attempt := 0; ; attempt++ {
		found, err := judgeOnce(folder, target)
		if err == nil {
			return verdict{Verdict: "ok", found: found}
		}
		kind := kindOf(err)
		if attempt == 0 && slices.Contains([]string{gone, missing, pruned, empty}, kind) {
			continue
		}
		if kind == gone {
			kind = missing
		}
		return verdict{Verdict: kind, Why: err.Error()}
	}
}

func judgeOnce(folder string, target *uint64) (*found, error) {
	l, err := list(folder)
	if err != nil {
		return nil, err
	}
	g := l.head
	if target != nil {
		g = min(*target, maxRevision+1) // the number above the highest exists as little as those above it
	}
	serving, err := l.serving(g)
	if err != nil {
		return nil, err
	}
	r := &reader{bases: &bases{listing: l, target: g, left: serving}, budget: &budget{left: memory}}
	top, err := r.bases.at(0)
	if err != nil {
		return nil, err
	}
	h := top.head
	if target == nil && h.sealedFor != 0 {
		return nil, damage("sealed, and no later incarnation is there")
	}
	f := &found{LogID: hex.EncodeToString(h.logID[:]), Incarnation: l.incarnation, Named: []string{h.writer, h.database},
		Revision: h.revision, UUID: hex.EncodeToString(h.uuid), Digest: hex.EncodeToString(h.digest), Epoch: h.epoch,
		CommittedAt: h.committedAt, SealedFor: h.sealedFor, ReaderFeatures: sortedNames(h.readerFeatures),
		WriterFeatures: sortedNames(h.writerFeatures), Locations: sortedNames(h.locations), Tables: map[string]tableVerdict{}}
	f.Definitions, f.Applications, f.History = r.definitions(), r.applications(), r.historyHash()
	deletes, lost := r.deletes()
	if f.Deletes = refusal(lost); lost == nil {
		f.Deletes = hashLines(deletes.lines())
	}
	var names []string
	names, f.Unlistable = r.names()
	for _, name := range names {
		t, files := r.table(name)
		if t.Deleted = f.Deletes; lost == nil && files != nil {
			t.Deleted = hashLines(r.deletedLines(name, files, deletes))
		}
		f.Tables[name] = t
	}
	return f, r.lost
}

// A reader gives parts of a state, each from the highest base that has it.
type reader struct {
	bases  *bases
	budget *budget
	views  []*view
	lost   error // something was there before and is not any more: read all again
}

// from calls with a view of each base in turn, the highest first, until one gives the part. Past what is too new there is
// no falling back. The error says why no base gives it: how the highest fails, or that something is too new.
func (r *reader) from(part func(*view) error) error {
	var first error
	for i := 0; ; i++ {
		if i == len(r.views) {
			b, err := r.bases.at(i)
			if err != nil {
				return worse(first, err)
			}
			v, err := newView(b, r.budget)
			if err != nil {
				r.lost = err
				return err
			}
			r.views = append(r.views, v)
		}
		err := part(r.views[i])
		if err == nil || kindOf(err) == tooNew {
			return err
		}
		if first == nil {
			first = err
		}
	}
}

// refusal is what stands in the place of a part that cannot be used.
func refusal(err error) string {
	if kindOf(err) == tooNew {
		return tooNew
	}
	return damaged
}

func (r *reader) applications() any {
	versions := map[string]int64{}
	err := r.from(func(v *view) error {
		for id, a := range v.applications {
			versions[id] = a.version
		}
		if v.appsFault != nil {
			clear(versions)
		}
		return v.appsFault
	})
	if err != nil {
		return refusal(err)
	}
	return versions
}

// deletes gives those of the highest base that has them.
func (r *reader) deletes() (found *deletes, err error) {
	err = r.from(func(v *view) error {
		found = v.deletes
		return v.deletesFault
	})
	return found, err
}

func (r *reader) definitions() string {
	var lines []string
	err := r.from(func(v *view) error {
		lines = nil
		for _, d := range v.definitions {
			lines = append(lines, d.line())
		}
		return v.definedFault
	})
	if err != nil {
		return refusal(err)
	}
	slices.Sort(lines)
	return hashLines(lines)
}

// history gives the rows of the highest base that has them.
func (r *reader) history() (rows []historyRow, err error) {
	err = r.from(func(v *view) error {
		rows = v.history
		return v.historyFault
	})
	return rows, err
}

func (r *reader) historyHash() string {
	rows, err := r.history()
	if err != nil {
		return refusal(err)
	}
	hash := sha256.New()
	for i := range rows {
		hash.Write([]byte(rows[i].line() + "\n"))
	}
	return hex.EncodeToString(hash.Sum(nil))
}

func (h *historyRow) line() string {
	var ids []string
	for _, id := range h.ids {
		ids = append(ids, hex.EncodeToString(id))
	}
	return fmt.Sprintf("%d|%x|%x|%d|%d|%s|%s|%s|%d|%d|%d|%d|%s", h.revision, h.uuid, h.digest, h.committedAt, h.epoch,
		bit(h.guest), h.operation, strings.Join(ids, ","), h.filesAdded, h.filesRemoved, h.rowsAdded, h.bytesAdded,
		strings.Join(h.summary, ","))
}

// names gives the tables of the state, and the ranges of names in which there may be others.
func (r *reader) names() (names []string, unlistable [][]string) {
	known := map[string]bool{}
	left := []interval{{all: true}}
	err := r.from(func(v *view) error {
		if len(v.schemaFaults) == 0 { // this base tells all of them
			clear(known)
			left = []interval{{all: true}}
		}
		for name, t := range v.tables {
			if len(t.schemas) > 0 && slices.ContainsFunc(left, func(i interval) bool { return i.holds(name) }) {
				known[name] = true
			}
		}
		var still []interval
		var err error
		for _, i := range left {
			for _, f := range v.schemaFaults {
				if both, some := i.cut(f.interval); some && len(still) < 1<<16 {
					still = append(still, both)
					err = worse(err, f.err)
				}
			}
		}
		left = still
		return err
	})
	if err == nil {
		left = nil
	}
	for _, i := range left {
		unlistable = append(unlistable, []string{i.low, i.high})
	}
	return slices.Sorted(maps.Keys(known)), unlistable
}

// table says what is told of a table, and gives it if its files can be used.
func (r *reader) table(name string) (t tableVerdict, files *table) {
	err := r.from(func(v *view) (err error) {
		files, err = v.use(name)
		return err
	})
	if err == nil {
		t.Files, t.Statistics, t.RowGroupStatistics = files.hashes()
		t.Schemas = schemaHash(files.schemas)
		return t, files
	}
	t.Files = refusal(err)
	t.Statistics, t.RowGroupStatistics = hashLines(nil), hashLines(nil)
	var schemas map[[16]byte]*schemaInfo
	err = r.from(func(v *view) (err error) {
		schemas, err = v.schemasOf(name)
		return err
	})
	if t.Schemas = schemaHash(schemas); err != nil {
		t.Schemas = refusal(err)
	}
	return t, nil
}

func (t *table) hashes() (files, statistics, groupStatistics string) {
	var lines, ofFiles, ofGroups []string
	for _, path := range slices.Sorted(maps.Keys(t.live)) {
		f := t.live[path]
		original := "-"
		if f.original != nil {
			original = strconv.FormatInt(*f.original, 10)
		}
		lines = append(lines, fmt.Sprintf("%s|%s|%d|%d|%d|%x|%d|%d|%d|%x|%d|%s", f.path, f.partition, f.size, f.rows, f.revision,
			f.fingerprint, f.firstClock, f.lastClock, f.footerBytes, f.footerDigest, f.groups, original))
		if columns := t.schemas[f.fingerprint].decode(); columns != nil {
			a, b := f.lines(columns)
			ofFiles, ofGroups = append(ofFiles, a...), append(ofGroups, b...)
		}
	}
	slices.Sort(lines)
	slices.Sort(ofFiles)
	slices.Sort(ofGroups)
	return hashLines(lines), hashLines(ofFiles), hashLines(ofGroups)
}

// decode gives the columns of a schema, nil if it cannot be decoded.
func (s *schemaInfo) decode() []arrowField {
	if !s.decoded {
		s.decoded = true
		if columns, err := decodeArrowSchema(s.arrow); err == nil {
			s.columns = columns
		}
	}
	return s.columns
}

func schemaHash(schemas map[[16]byte]*schemaInfo) string {
	fingerprints := slices.SortedFunc(maps.Keys(schemas), func(a, b [16]byte) int { return bytes.Compare(a[:], b[:]) })
	var lines []string
	for _, fingerprint := range fingerprints {
		s := schemas[fingerprint]
		lines = append(lines, fmt.Sprintf("%x|%x|%s|%s|%d", fingerprint, sha256.Sum256(s.arrow),
			strings.Join(s.key, ","), strings.Join(s.sort, ","), s.revision))
	}
	return hashLines(lines)
}

func hashLines(lines []string) string {
	hash := sha256.New()
	for _, line := range lines {
		hash.Write([]byte(line))
		hash.Write([]byte{'\n'})
	}
	return hex.EncodeToString(hash.Sum(nil))
}
