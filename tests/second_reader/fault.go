package main

import (
	"errors"
	"fmt"
)

// A fault says why something cannot be used. Its kind is what the format tells apart.
type fault struct {
	kind string
	why  string
}

const (
	damaged = "damaged"
	tooNew  = "too-new"
	gone    = "gone" // listed or referred to, and not found; ends as "missing" or as damage
	forked  = "forked"
	missing = "missing"
	pruned  = "pruned"
	empty   = "empty"
)

func (f *fault) Error() string { return f.why }

func damage(format string, values ...any) error {
	return &fault{damaged, fmt.Sprintf(format, values...)}
}

func newer(format string, values ...any) error {
	return &fault{tooNew, fmt.Sprintf(format, values...)}
}

// kindOf gives the kind of any error; what is no fault is damage.
func kindOf(err error) string {
	var f *fault
	if errors.As(err, &f) {
		return f.kind
	}
	return damaged
}

// in puts the name of an object before what is said of it.
func in(where string, err error) error {
	if err == nil {
		return nil
	}
	return &fault{kindOf(err), where + ": " + err.Error()}
}

// A budget bounds the memory that one verdict holds on to. It is no rule of the format.
type budget struct{ left int64 }

const memory = 256 << 20

func (b *budget) take(bytes int64) error {
	if bytes > b.left {
		return damage("needs more memory than this reader gives (no rule of the format)")
	}
	b.left -= bytes
	return nil
}
