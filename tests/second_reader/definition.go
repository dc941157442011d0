package main

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"
)

// Definitions: what the columns of tables are. Sections 5.5 and 6.2.

const maxDefault = 65_536

type definition struct {
	table    string
	arrow    []byte
	columns  []definedColumn
	lastID   int64
	key      []string
	revision int64
}

type definedColumn struct {
	id         int64
	name       string
	hasDefault bool
	value      []byte
}

func decodeDefinition(message []byte) *definition {
	d := &definition{}
	each(message, func(f wireField) {
		switch {
		case f.is(1, wireBytes):
			d.table = string(f.bytes)
		case f.is(2, wireBytes):
			d.arrow = f.bytes
		case f.is(3, wireBytes):
			var c definedColumn
			each(f.bytes, func(f wireField) {
				switch {
				case f.is(1, wireVarint):
					c.id = int64(uint32(f.value))
				case f.is(2, wireBytes):
					c.name = string(f.bytes)
				case f.is(3, wireBytes):
					c.hasDefault, c.value = true, f.bytes
				}
			})
			d.columns = append(d.columns, c)
		case f.is(4, wireVarint):
			d.lastID = int64(uint32(f.value))
		case f.is(5, wireBytes):
			d.key = append(d.key, string(f.bytes))
		}
	})
	return d
}

// check holds it to the (E) rules of section 5.5.
func (d *definition) check() error {
	if !tableFits(d.table) || d.lastID > maxColumnID {
		return damage("Definition: wrong table or last id")
	}
	names, ids := map[string]bool{}, map[int64]bool{}
	for _, c := range d.columns {
		if c.name == "" || names[c.name] || ids[c.id] || len(c.value) > maxDefault {
			return damage("Definition: a column without a name, or of another one's name or id, or a long default")
		}
		if c.id < 1 || c.id > d.lastID {
			return damage("Definition: a wrong id")
		}
		names[c.name], ids[c.id] = true, true
	}
	for i, name := range d.key {
		if !names[name] || slices.Contains(d.key[:i], name) {
			return damage("Definition: a key of a column that isn't declared, or of one twice")
		}
	}
	return nil
}

// kept is a copy that needs the message no more.
func (d *definition) kept(revision int64) *definition {
	own := *d
	own.revision, own.arrow, own.columns = revision, bytes.Clone(d.arrow), nil
	for _, c := range d.columns {
		c.value = bytes.Clone(c.value)
		own.columns = append(own.columns, c)
	}
	return &own
}

func (d *definition) cost() int64 {
	cost := 400 + len(d.arrow) + 60*len(d.key)
	for _, c := range d.columns {
		cost += 140 + len(c.value)
	}
	return int64(cost)
}

func (d *definition) line() string { return fmt.Sprintf("%s|%d", d.said(), d.revision) }

// said is the line without the revision.
func (d *definition) said() string {
	var columns []string
	for _, c := range d.columns {
		text := fmt.Sprintf("%d=%s", c.id, c.name)
		if c.hasDefault {
			text += "=" + hex.EncodeToString(c.value)
		}
		columns = append(columns, text)
	}
	return fmt.Sprintf("%s|%x|%s|%d|%s", d.table, sha256.Sum256(d.arrow), strings.Join(columns, ";"), d.lastID,
		strings.Join(d.key, ","))
}

var definitionsColumns = []columnSpec{
	{"table", "string", false}, {"definition", "binary", false}, {"revision", "int64", false},
}

// readDefinitions takes in the rows of a DEFINITIONS segment, after all were checked.
func (s *source) readDefinitions(r *reference, into map[string]*definition) error {
	b, err := s.open(&r.segmentRef, definitionsColumns)
	if err != nil {
		return err
	}
	tables := b.columns["table"]
	found := make([]*definition, b.rows)
	for i := range b.rows {
		message := b.columns["definition"].bytes(i)
		if err := checkWire(wireDefinition, message); err != nil {
			return damage("DEFINITIONS: row %d: %s", i, err)
		}
		d := decodeDefinition(message).kept(b.columns["revision"].int64(i))
		if err := d.check(); err != nil {
			return damage("DEFINITIONS: row %d: %s", i, err)
		}
		if d.table != tables.text(i) || d.revision < 0 || d.revision > s.revision {
			return damage("DEFINITIONS: row %d: wrong table or revision", i)
		}
		if i > 0 && tables.text(i-1) >= d.table {
			return damage("DEFINITIONS: row %d: is not above the one before it", i)
		}
		if err := s.budget.take(d.cost()); err != nil {
			return err
		}
		found[i] = d
	}
	for _, d := range found {
		into[d.table] = d
	}
	return nil
}
