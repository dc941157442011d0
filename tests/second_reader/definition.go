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
	dropped  []generation
	key      []string
	revision int64
}

type definedColumn struct {
	sources    []generation
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
				case f.is(1, wireBytes):
					c.sources = append(c.sources, decodeGeneration(f.bytes))
				case f.is(2, wireBytes):
					c.hasDefault, c.value = true, f.bytes
				}
			})
			d.columns = append(d.columns, c)
		case f.is(4, wireBytes):
			d.dropped = append(d.dropped, decodeGeneration(f.bytes))
		case f.is(5, wireBytes):
			d.key = append(d.key, string(f.bytes))
		}
	})
	return d
}

// check holds it to the (E) rules of section 5.5.
func (d *definition) check() error {
	if !tableFits(d.table) || len(d.columns) == 0 {
		return damage("Definition: wrong table, or no columns")
	}
	seen, names := map[generation]bool{}, map[string]bool{}
	know := func(g generation) bool {
		wrong := g.column == "" || g.number > maxGeneration || seen[g]
		seen[g] = true
		return !wrong
	}
	for _, c := range d.columns {
		if len(c.sources) == 0 || len(c.value) > maxDefault || names[c.sources[0].column] {
			return damage("Definition: a column without sources, or of another one's name, or a long default")
		}
		names[c.sources[0].column] = true
		for _, g := range c.sources {
			if !know(g) {
				return damage("Definition: a wrong source")
			}
		}
	}
	for i, g := range d.dropped {
		if !know(g) || i > 0 && !below(d.dropped[i-1], g) {
			return damage("Definition: a wrong dropped column")
		}
	}
	for i, name := range d.key {
		if !names[name] || slices.Contains(d.key[:i], name) {
			return damage("Definition: a key of a column that isn't declared, or of one twice")
		}
	}
	return nil
}

func below(a, b generation) bool {
	return a.column < b.column || a.column == b.column && a.number < b.number
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
	cost := 400 + len(d.arrow) + 60*(len(d.dropped)+len(d.key))
	for _, c := range d.columns {
		cost += 80 + len(c.value) + 60*len(c.sources)
	}
	return int64(cost)
}

func (d *definition) line() string { return fmt.Sprintf("%s|%d", d.said(), d.revision) }

// said is the line without the revision.
func (d *definition) said() string {
	named := func(items []generation) string {
		var texts []string
		for _, g := range items {
			texts = append(texts, fmt.Sprintf("%s=%d", g.column, g.number))
		}
		return strings.Join(texts, ",")
	}
	var columns []string
	for _, c := range d.columns {
		text := named(c.sources)
		if c.hasDefault {
			text += "=" + hex.EncodeToString(c.value)
		}
		columns = append(columns, text)
	}
	return fmt.Sprintf("%s|%x|%s|%s|%s", d.table, sha256.Sum256(d.arrow), strings.Join(columns, ";"), named(d.dropped),
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
