package main

import (
	"bytes"
	"maps"
	"slices"
)

// Which revisions exist: the chain of section 4.2, and the bases of section 4.3. Only rules of kind (E) are here.

// A head is what a state says of itself without its content.
type head struct {
	revision       int64
	uuid           []byte
	digest         []byte
	epoch          uint64
	committedAt    int64
	known          bool // whether the log id is
	logID          [16]byte
	writer         string
	database       string
	readerFeatures map[string]bool
	writerFeatures map[string]bool
	locations      map[string]bool
	sealedFor      uint32
}

func newHead() *head {
	none := func() map[string]bool { return map[string]bool{} }
	return &head{revision: beforeFirst, readerFeatures: none(), writerFeatures: none(), locations: none()}
}

func (c *checkpoint) head() *head {
	h := newHead()
	h.revision, h.uuid, h.digest, h.epoch, h.committedAt = int64(c.revision), c.uuid, c.digest, c.epoch, c.committedAt
	h.known, h.logID, h.writer, h.database = true, c.frame.logID, c.writer, c.database
	for _, name := range c.readerFeatures {
		h.readerFeatures[name] = true
	}
	for _, name := range c.writerFeatures {
		h.writerFeatures[name] = true
	}
	for _, url := range c.locations {
		h.locations[url] = true
	}
	return h
}

// follow makes a transaction the next of a state, or says why it is not.
func (h *head) follow(t *transaction) error {
	switch {
	case int64(t.revision) != h.revision+1:
		return damage("is not the next revision")
	case !bytes.Equal(t.previousUUID, h.uuid):
		return damage("follows another slot uuid than that of revision %d", h.revision)
	case !bytes.Equal(t.previousDigest, h.digest):
		return damage("follows another object than that of revision %d", h.revision)
	case h.known && t.frame.logID != h.logID:
		return damage("belongs to another log")
	case t.epoch < h.epoch:
		return damage("its epoch is lower than that before")
	case t.committedAt <= h.committedAt:
		return damage("its commit time is not above that before")
	case h.sealedFor != 0:
		return damage("follows a Seal")
	}
	readers, writers, locations := maps.Clone(h.readerFeatures), maps.Clone(h.writerFeatures), maps.Clone(h.locations)
	for i := range t.actions {
		a := t.actions[i].decode()
		for _, name := range a.readerFeatures {
			readers[name] = true
		}
		for _, name := range a.writerFeatures {
			writers[name] = true
		}
		if a.kind == actionLocation {
			locations[a.url] = true
		}
	}
	if len(locations) > maxLocations {
		return damage("too many locations are named")
	}
	if len(readers) > maxFeatures || len(writers) > maxFeatures {
		return damage("too many features are required")
	}
	h.readerFeatures, h.writerFeatures, h.locations = readers, writers, locations
	for i := range t.actions {
		switch a := t.actions[i].decode(); a.kind {
		case actionIdentity:
			h.writer, h.database = a.writer, a.database
		case actionSeal:
			h.sealedFor = a.next
		}
	}
	h.revision, h.uuid, h.digest, h.epoch, h.committedAt = int64(t.revision), t.uuid, t.frame.digest[:], t.epoch, t.committedAt
	h.known, h.logID = true, t.frame.logID
	return nil
}

// A base that was opened, with the head of the state that its tail leads to.
type base struct {
	listing    *listing
	revision   int64
	checkpoint *checkpoint // nil: the empty state
	target     uint64
	head       *head
}

// bases gives those from which a target can be read, the highest first, each when it is asked for.
type bases struct {
	listing *listing
	target  uint64
	left    []int64
	opened  []*base
	first   error // at what the highest base failed
	end     error // why there are no more
}

// at gives the base of a number, from 0.
func (b *bases) at(i int) (*base, error) {
	for len(b.opened) <= i && b.end == nil {
		b.step()
	}
	if i < len(b.opened) {
		return b.opened[i], nil
	}
	return nil, b.end
}

// step tries the next base that serves.
func (b *bases) step() {
	if len(b.left) == 0 {
		if b.end = b.first; b.end == nil {
			b.end = damage("no lower base")
		}
		return
	}
	next := b.left[0]
	b.left = b.left[1:]
	if err := b.listing.fork(next, b.target); err != nil {
		b.end = err
		return
	}
	opened, err, final := openBase(b.listing, next, b.target)
	if err == nil && len(b.opened) > 0 && !bytes.Equal(opened.head.digest, b.opened[0].head.digest) {
		return // another chain than that of the state: this base does not count
	}
	if err == nil {
		b.opened = append(b.opened, opened)
		return
	}
	if b.first == nil {
		b.first = err
	}
	if kindOf(err) == tooNew {
		b.end = err
	} else if final {
		b.end = b.first
	}
}

// openBase opens a base and applies its tail. Final is an error that every lower base would meet as well.
func openBase(l *listing, revision int64, target uint64) (b *base, err error, final bool) {
	b = &base{listing: l, revision: revision, target: target, head: newHead()}
	if revision != beforeFirst {
		if b.checkpoint, err = openCheckpoint(l.folder, l.checkpoints[uint64(revision)]); err != nil {
			return nil, err, false
		}
		b.head = b.checkpoint.head()
		if revision == int64(target) && ofAnother(l, uint64(revision), b.checkpoint.digest) {
			return nil, in(b.checkpoint.name.name, damage("is of another history than the transaction of its revision")), false
		}
	}
	for r := revision + 1; r <= int64(target); r++ {
		name := l.transactions[uint64(r)]
		t, err := openTransaction(l.folder, name)
		if err != nil {
			return nil, err, true
		}
		if err := b.head.follow(t); err != nil {
			return nil, in(name.name, err), r != revision+1
		}
	}
	return b, nil, true
}

// ofAnother says whether the listed transaction of a checkpoint's revision is another than the one that the checkpoint
// is of. One that is damaged or gone proves nothing.
func ofAnother(l *listing, revision uint64, digest []byte) bool {
	name, listed := l.transactions[revision]
	if !listed {
		return false
	}
	header, err := readHeader(l.folder + "/transactions/" + name.name)
	if err != nil || bytes.Equal(header[digestOffset:], digest) {
		return false
	}
	_, err = openTransaction(l.folder, name)
	return err == nil || kindOf(err) == tooNew
}

func sortedNames(set map[string]bool) []string {
	names := slices.Sorted(maps.Keys(set))
	if names == nil {
		return []string{}
	}
	return names
}
