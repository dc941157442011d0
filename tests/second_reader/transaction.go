package main

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"strings"
)

// Transactions: their messages, and the rules (E) that one can be held to alone. Sections 4.1 and 5.

type transaction struct {
	frame          *frame
	revision       uint64
	uuid           []byte
	previousUUID   []byte
	previousDigest []byte
	epoch          uint64
	guest          bool
	actions        []rawAction // without those that are ignored
	hasCommit      bool
	members        []member
	committedAt    int64
	successor      []byte
	slotSeed       []byte
}

type member struct {
	id         []byte
	operation  string
	appID      string
	appVersion uint64
	summary    []pair
}

type pair struct{ key, value string }

// Numbers of the kinds of actions.
const (
	actionAdd = iota + 1
	actionRemove
	actionSchema
	actionUpgrade
	actionAddBatch
	actionTombstone
	actionIdentity
	actionSeal
	actionForget
	actionLocation
	actionDefinition
	actionRowDeletes
	lastAction     = actionRowDeletes
	actionOptional = 15 // each other number is a kind
)

// A rawAction is an action as long as nobody looks at it: a message can hold very many.
type rawAction struct {
	kind     int // 0: unknown or none
	optional bool
	body     []byte
	number   int // its place in the message
}

// An action holds what its kind needs; the fields of the other kinds are empty.
type action struct {
	kind           int
	add            *add
	path, table    string // Remove
	schema         *schemaAction
	readerFeatures []string
	writerFeatures []string
	segments       []segmentRef
	writer         string
	database       string
	begunAt        int64
	next           uint32
	rebuildID      []byte
	before         int64
	tables         []string
	schemas        []schemaName
	url            string
	definition     *definition
	tombstone      *tombstone
	rowDeletes     *rowDeletes
}

type add struct {
	path, table, partition string
	size, rows             uint64
	fingerprint            []byte
	firstClock, lastClock  int64
	footerBytes            uint64
	footerDigest           []byte
	rowGroups              [][]byte // messages, taken apart where statistics are wanted
	original               *int64
}

type schemaAction struct {
	table       string
	fingerprint []byte
	schemaFacts
}

// schemaFacts are the same in an action and in a segment.
type schemaFacts struct {
	arrow []byte
	key   []string
	sort  []string
}

type schemaName struct {
	table       string
	fingerprint []byte
}

func decodeTransaction(message []byte) *transaction {
	t := &transaction{}
	var commit joined
	actions := 0
	each(message, func(f wireField) {
		switch {
		case f.is(1, wireVarint):
			t.revision = f.value
		case f.is(2, wireBytes):
			t.uuid = f.bytes
		case f.is(3, wireBytes):
			t.previousUUID = f.bytes
		case f.is(4, wireBytes):
			t.previousDigest = f.bytes
		case f.is(5, wireVarint):
			t.epoch = f.value
		case f.is(6, wireVarint):
			t.guest = f.value != 0
		case f.is(7, wireBytes):
			// "Ignore" means: as if it were not there.
			if a := decodeAction(f.bytes); a.kind != 0 || !a.optional {
				a.number = actions
				t.actions = append(t.actions, a)
			}
			actions++
		case f.is(15, wireBytes):
			commit.add(f.bytes)
		}
	})
	t.hasCommit = commit.there
	each(commit.bytes, func(f wireField) {
		switch {
		case f.is(1, wireBytes):
			t.members = append(t.members, decodeMember(f.bytes))
		case f.is(2, wireVarint):
			t.committedAt = zigzag(f.value)
		case f.is(3, wireBytes):
			t.successor = f.bytes
		case f.is(4, wireBytes):
			t.slotSeed = f.bytes
		}
	})
	return t
}

func decodeMember(message []byte) (m member) {
	each(message, func(f wireField) {
		switch {
		case f.is(1, wireBytes):
			m.id = f.bytes
		case f.is(2, wireBytes):
			m.operation = string(f.bytes)
		case f.is(3, wireBytes):
			m.appID = string(f.bytes)
		case f.is(4, wireVarint):
			m.appVersion = f.value
		case f.is(5, wireBytes):
			var p pair
			each(f.bytes, func(f wireField) {
				switch {
				case f.is(1, wireBytes):
					p.key = string(f.bytes)
				case f.is(2, wireBytes):
					p.value = string(f.bytes)
				}
			})
			m.summary = append(m.summary, p)
		}
	})
	return m
}

func decodeAction(message []byte) (a rawAction) {
	var body joined
	kind := 0
	each(message, func(f wireField) {
		switch {
		case f.number <= lastAction && f.wire == wireBytes:
			if kind != int(f.number) {
				kind, body = int(f.number), joined{} // another member of the oneof clears the former
			}
			body.add(f.bytes)
		case f.is(actionOptional, wireVarint):
			a.optional = f.value != 0
		}
	})
	a.kind, a.body = kind, body.bytes
	return a
}

func (r *rawAction) decode() *action {
	a := &action{kind: r.kind}
	switch a.kind {
	case actionAdd:
		a.add = &add{}
	case actionSchema:
		a.schema = &schemaAction{}
	case actionDefinition:
		a.definition = decodeDefinition(r.body)
		return a
	case actionTombstone:
		a.tombstone = decodeTombstone(r.body)
		return a
	case actionRowDeletes:
		a.rowDeletes = decodeRowDeletes(r.body)
		return a
	}
	each(r.body, func(f wireField) {
		switch a.kind {
		case actionAdd:
			a.add.field(f)
		case actionRemove:
			switch {
			case f.is(1, wireBytes):
				a.path = string(f.bytes)
			case f.is(2, wireBytes):
				a.table = string(f.bytes)
			}
		case actionSchema:
			a.schema.field(f)
		case actionUpgrade:
			switch {
			case f.is(1, wireBytes):
				a.readerFeatures = append(a.readerFeatures, string(f.bytes))
			case f.is(2, wireBytes):
				a.writerFeatures = append(a.writerFeatures, string(f.bytes))
			}
		case actionAddBatch:
			if f.is(1, wireBytes) {
				a.segments = append(a.segments, decodeSegmentRef(f.bytes))
			}
		case actionIdentity:
			switch {
			case f.is(1, wireBytes):
				a.writer = string(f.bytes)
			case f.is(2, wireBytes):
				a.database = string(f.bytes)
			case f.is(3, wireVarint):
				a.begunAt = zigzag(f.value)
			}
		case actionSeal:
			switch {
			case f.is(1, wireVarint):
				a.next = uint32(f.value)
			case f.is(2, wireBytes):
				a.rebuildID = f.bytes
			}
		case actionLocation:
			if f.is(1, wireBytes) {
				a.url = string(f.bytes)
			}
		case actionForget:
			switch {
			case f.is(1, wireVarint):
				a.before = zigzag(f.value)
			case f.is(2, wireBytes):
				a.tables = append(a.tables, string(f.bytes))
			case f.is(3, wireBytes):
				var s schemaName
				each(f.bytes, func(f wireField) {
					switch {
					case f.is(1, wireBytes):
						s.table = string(f.bytes)
					case f.is(2, wireBytes):
						s.fingerprint = f.bytes
					}
				})
				a.schemas = append(a.schemas, s)
			}
		}
	})
	return a
}

func (a *add) field(f wireField) {
	switch {
	case f.is(1, wireBytes):
		a.path = string(f.bytes)
	case f.is(2, wireBytes):
		a.table = string(f.bytes)
	case f.is(3, wireBytes):
		a.partition = string(f.bytes)
	case f.is(4, wireVarint):
		a.size = f.value
	case f.is(5, wireVarint):
		a.rows = f.value
	case f.is(6, wireBytes):
		a.fingerprint = f.bytes
	case f.is(7, wireVarint):
		a.firstClock = zigzag(f.value)
	case f.is(8, wireVarint):
		a.lastClock = zigzag(f.value)
	case f.is(9, wireVarint):
		a.footerBytes = f.value
	case f.is(10, wireBytes):
		a.footerDigest = f.bytes
	case f.is(11, wireBytes):
		a.rowGroups = append(a.rowGroups, f.bytes)
	case f.is(12, wireVarint):
		original := zigzag(f.value)
		a.original = &original
	}
}

func (s *schemaAction) field(f wireField) {
	switch {
	case f.is(1, wireBytes):
		s.table = string(f.bytes)
	case f.is(2, wireBytes):
		s.fingerprint = f.bytes
	case f.is(3, wireBytes):
		s.arrow = f.bytes
	case f.is(4, wireBytes):
		s.key = append(s.key, string(f.bytes))
	case f.is(5, wireBytes):
		s.sort = append(s.sort, string(f.bytes))
	}
}

// check holds a fingerprint to section 5.3.
func (s *schemaFacts) check(fingerprint []byte) error {
	if sum := sha256.Sum256(s.arrow); !bytes.Equal(fingerprint, sum[:16]) {
		return damage("wrong fingerprint of a schema")
	}
	return nil
}

// openTransaction opens an object of a log by its name, and holds it to all (E) rules that need no state.
func openTransaction(folder string, name logName) (*transaction, error) {
	f, err := openFrame(folder+"/transactions/"+name.name, kindTransaction, name.incarnation)
	if err != nil {
		return nil, in(name.name, err)
	}
	t := decodeTransaction(f.message)
	t.frame = f
	if err := t.tooNew(); err != nil {
		return nil, in(name.name, err)
	}
	return t, in(name.name, t.damaged(name))
}

func (t *transaction) tooNew() error {
	for i := range t.actions {
		a := t.actions[i].decode()
		if a.kind == 0 {
			return newer("an action of unknown kind")
		}
		for _, feature := range a.readerFeatures {
			if !readable[feature] {
				return newer("requires the reader feature %q", feature)
			}
		}
		for i := range a.segments {
			if k := a.segments[i].kind; !knownSegment(k) {
				return newer("a segment of unknown kind %d", k)
			}
		}
	}
	return nil
}

func (t *transaction) damaged(name logName) error {
	switch {
	case t.revision != name.revision:
		return damage("its revision is not that of its name")
	case len(t.uuid) != 16 || hex.EncodeToString(t.uuid[:4]) != name.uuid8:
		return damage("its slot uuid is not that of its name")
	case t.revision == 0 && (len(t.previousUUID) != 0 || len(t.previousDigest) != 0):
		return damage("revision 0 names one before it")
	case t.revision != 0 && (len(t.previousUUID) != 16 || len(t.previousDigest) != 32):
		return damage("the one before it is not named rightly")
	case t.epoch < 1 || t.epoch > maxNumber:
		return damage("epoch out of range")
	case !t.hasCommit || len(t.successor) != 16 || len(t.slotSeed) != 16:
		return damage("no whole commit")
	case t.committedAt < 1 || t.committedAt > maxCommitTime:
		return damage("commit time out of range")
	case len(t.members) == 0:
		return damage("no members")
	case t.revision == 0 && (len(t.actions) == 0 || t.actions[0].kind != actionIdentity):
		return damage("revision 0 does not begin with an Identity")
	}
	for i := range t.members {
		m := &t.members[i]
		if len(m.id) != 16 || !shortText(m.operation) || len(m.appID) > maxAppID || m.appVersion > maxNumber {
			return damage("a member breaks a rule")
		}
	}
	for i := range t.actions {
		if err := t.checkAction(t.actions[i].decode()); err != nil {
			return err
		}
	}
	return nil
}

func (t *transaction) checkAction(a *action) error {
	switch a.kind {
	case actionAdd:
		return a.add.check()
	case actionRemove:
		if !tableFits(a.table) || !pathFits(a.path) {
			return damage("Remove: wrong table or path")
		}
	case actionSchema:
		if !tableFits(a.schema.table) {
			return damage("Schema: wrong table")
		}
		return a.schema.check(a.schema.fingerprint)
	case actionUpgrade:
		for _, feature := range append(a.readerFeatures[:len(a.readerFeatures):len(a.readerFeatures)], a.writerFeatures...) {
			if !shortText(feature) {
				return damage("Upgrade: wrong name of a feature")
			}
		}
	case actionAddBatch:
		return a.checkBatch(uint64(len(t.frame.attachments)))
	case actionIdentity:
		if !folderID.MatchString(a.writer) || !folderID.MatchString(a.database) {
			return damage("Identity: wrong names")
		}
		if a.begunAt < 0 || a.begunAt > maxCommitTime {
			return damage("Identity: begun at a time out of range")
		}
	case actionSeal:
		if len(t.actions) != 1 || len(a.rebuildID) != 16 || a.next <= t.frame.incarnation || a.next > maxIncarnation {
			return damage("Seal: breaks a rule")
		}
	case actionLocation:
		if !locationFits(a.url) {
			return damage("Location: no such URL")
		}
	case actionDefinition:
		return a.definition.check()
	case actionTombstone:
		return a.tombstone.check()
	case actionRowDeletes:
		return a.rowDeletes.check()
	case actionForget:
		for _, table := range a.tables {
			if !tableFits(table) {
				return damage("Forget: wrong table")
			}
		}
		for _, s := range a.schemas {
			if !tableFits(s.table) || len(s.fingerprint) != 16 {
				return damage("Forget: wrong schema")
			}
		}
	}
	return nil
}

func (a *add) check() error {
	if !tableFits(a.table) || !nameFits(a.partition) || !pathFits(a.path) {
		return damage("Add: wrong table, partition or path")
	}
	if len(a.fingerprint) != 16 || len(a.footerDigest) != 0 && len(a.footerDigest) != 8 {
		return damage("Add: wrong length of a fingerprint or digest")
	}
	if a.size > maxNumber || a.rows > maxNumber || a.footerBytes > maxNumber {
		return damage("Add: a number out of range")
	}
	for _, group := range a.rowGroups {
		if rowGroupRows(group) > maxNumber {
			return damage("Add: a number out of range")
		}
	}
	return nil
}

func rowGroupRows(group []byte) (rows uint64) {
	each(group, func(f wireField) {
		if f.is(1, wireVarint) {
			rows = f.value
		}
	})
	return rows
}

func (a *action) checkBatch(attached uint64) error {
	for i := range a.segments {
		s := &a.segments[i]
		switch {
		case s.kind > segRowGroupStatistics || i == 0 && s.kind != segFiles:
			return damage("AddBatch: wrong kind of segment")
		case len(s.digest) != 0 || s.offset > attached || s.length > attached-s.offset:
			return damage("AddBatch: a segment that is not within the attachments")
		case s.rows < 1 || s.rows > maxRows:
			return damage("AddBatch: number of rows out of range")
		case s.kind == segFiles && (s.totalRows > maxNumber || s.totalBytes > maxNumber):
			return damage("AddBatch: total out of range")
		case !s.columnsFit():
			return damage("AddBatch: wrong names of columns")
		case !s.rangeFits():
			return damage("AddBatch: an inverted range")
		}
	}
	if len(a.segments) == 0 {
		return damage("AddBatch: no segments")
	}
	return nil
}

// operations joins those of the members, each once, as HISTORY has them.
func (t *transaction) operations() string {
	var names []string
	seen := map[string]bool{}
	for _, m := range t.members {
		if !seen[m.operation] {
			seen[m.operation] = true
			names = append(names, m.operation)
		}
	}
	return strings.Join(names, "+")
}
