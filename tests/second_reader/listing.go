package main

import (
	"cmp"
	"errors"
	"io/fs"
	"os"
	"regexp"
	"slices"
	"strconv"
)

// Listings: sections 2 and 4.3.

type logName struct {
	name        string
	incarnation uint32
	revision    uint64
	uuid8       string
	checkpoint  bool
}

var logNames = regexp.MustCompile(
	`^([0-9]{3})-([0-9]{12})-(0|[1-9][0-9]{0,11})\.([0-9a-f]{8})\.(transaction|checkpoint)$`)

// parseName gives false for what is no name of the log.
func parseName(name string) (logName, bool) {
	m := logNames.FindStringSubmatch(name)
	if m == nil {
		return logName{}, false
	}
	number := func(digits string) uint64 { n, _ := strconv.ParseUint(digits, 10, 64); return n }
	n := logName{name: name, revision: number(m[3]), uuid8: m[4], checkpoint: m[5] == "checkpoint"}
	n.incarnation = uint32(maxIncarnation - number(m[1]))
	return n, n.incarnation > 0 && number(m[2]) == maxRevision-n.revision
}

// A listing is of the incarnation in use.
type listing struct {
	folder       string
	incarnation  uint32
	transactions map[uint64]logName
	checkpoints  map[uint64]logName
	bases        []uint64            // checkpoints, the highest first
	forks        map[uint64][]string // two names on revisions that have two uuid8
	head         uint64
}

func list(folder string) (*listing, error) {
	entries, err := os.ReadDir(folder + "/transactions")
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, damage("transactions/ cannot be listed")
	}
	var names []logName
	l := &listing{folder: folder, incarnation: 1, transactions: map[uint64]logName{}, checkpoints: map[uint64]logName{},
		forks: map[uint64][]string{}}
	for _, entry := range entries {
		n, ok := parseName(entry.Name())
		if !ok || entry.IsDir() {
			continue
		}
		names = append(names, n)
		l.incarnation = max(l.incarnation, n.incarnation)
	}
	if len(names) == 0 {
		return nil, &fault{empty, "no names of the log"}
	}
	first := map[uint64]logName{}
	found := false
	for _, n := range names {
		if n.incarnation != l.incarnation {
			continue
		}
		found = true
		l.head = max(l.head, n.revision)
		if other, there := first[n.revision]; there && other.uuid8 != n.uuid8 {
			l.forks[n.revision] = []string{other.name, n.name}
		}
		first[n.revision] = n
		if n.checkpoint {
			l.checkpoints[n.revision] = n
		} else {
			l.transactions[n.revision] = n
		}
	}
	if !found {
		return nil, damage("there are names of the log, but none of incarnation %d", l.incarnation)
	}
	for revision := range l.checkpoints {
		l.bases = append(l.bases, revision)
	}
	slices.SortFunc(l.bases, func(a, b uint64) int { return cmp.Compare(b, a) })
	return l, nil
}

// The empty state before revision 0, as a base.
const beforeFirst = int64(-1)

// serving gives the bases that serve a target, the highest first.
func (l *listing) serving(target uint64) ([]int64, error) {
	lowest := int64(target) // all above it, up to the target, have a transaction
	for lowest >= 0 {
		if _, there := l.transactions[uint64(lowest)]; !there {
			break
		}
		lowest--
	}
	var bases []int64
	below := false
	for _, c := range l.bases {
		if c <= target {
			below = true
			if int64(c) >= lowest {
				bases = append(bases, int64(c))
			}
		}
	}
	if lowest == beforeFirst {
		bases = append(bases, beforeFirst)
	}
	if len(bases) > 0 {
		return bases, nil
	}
	_, first := l.transactions[0]
	switch {
	case target > l.head:
		return nil, &fault{missing, "revision " + strconv.FormatUint(target, 10) + " does not exist"}
	case len(l.bases) > 0 && !below && !first:
		return nil, &fault{pruned, "revision " + strconv.FormatUint(target, 10) + " was pruned"}
	}
	return nil, &fault{missing, "transaction " + strconv.FormatInt(lowest, 10) + " is missing"}
}

// fork gives the error for the lowest fork from a base to the target.
func (l *listing) fork(base int64, target uint64) error {
	at := int64(-1)
	for revision := range l.forks {
		if r := int64(revision); r >= base && revision <= target && (at < 0 || r < at) {
			at = r
		}
	}
	if at < 0 {
		return nil
	}
	two := l.forks[uint64(at)]
	slices.Sort(two)
	return &fault{forked, "two objects on revision " + strconv.FormatInt(at, 10) + ": " + two[0] + " and " + two[1]}
}
