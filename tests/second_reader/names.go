package main

import (
	"regexp"
	"strings"
	"unicode/utf8"
)

// Names and paths: section 2, and the limits of section 11.

const (
	maxNumber     = 1<<62 - 1
	maxCommitTime = 1<<55 - 1
	maxRows       = 1<<31 - 1
	maxReferences = 1 << 20
	maxRevision   = 999_999_999_999
	maxName       = 255
	maxPath       = 892
	maxFeatures   = 256
	maxLocations  = 256
	maxLocation   = 1024
	maxAppID      = 1024
)

var folderID = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9_-]{0,63}$`)

// nameFits tells whether the name of a table or partition keeps the limit when it is percent-encoded.
func nameFits(name string) bool {
	if name == "." || name == ".." {
		return true
	}
	length := len(name)
	for i := 0; i < len(name); i++ {
		if c := name[i]; c < 0x20 || c == 0x7f || strings.IndexByte(`/\%*?[]{}`, c) >= 0 {
			length += 2
		}
	}
	return length <= maxName && utf8.ValidString(name)
}

func tableFits(name string) bool { return name != "" && nameFits(name) }

func pathFits(path string) bool {
	if !strings.HasPrefix(path, "data/") && !inPlace.MatchString(path) || len(path) > maxPath || !utf8.ValidString(path) {
		return false
	}
	for i := 0; i < len(path); i++ {
		if c := path[i]; c < 0x20 || c == 0x7f || c == '\\' {
			return false
		}
	}
	for _, segment := range strings.Split(path, "/") {
		if segment == "" || len(segment) > 255 || segment == "." || segment == ".." {
			return false
		}
	}
	return true
}

var (
	inPlace      = regexp.MustCompile(`^at/[0-9a-f]{16}/`)
	locationForm = regexp.MustCompile(`^([a-z][a-z0-9+.-]*)://([^/]*)((?:/[^/]+)*)$`)
)

// locationFits is the rule for URLs below which files lie that are outside of a writer's prefix.
func locationFits(url string) bool {
	parts := locationForm.FindStringSubmatch(url)
	if parts == nil || len(url) > maxLocation || !utf8.ValidString(url) {
		return false
	}
	for i := 0; i < len(url); i++ {
		if c := url[i]; c < 0x20 || c == 0x7f || strings.IndexByte(`?#\`, c) >= 0 {
			return false
		}
	}
	for _, segment := range strings.Split(parts[3], "/") {
		if segment == "." || segment == ".." {
			return false
		}
	}
	scheme, authority := parts[1], parts[2]
	if at := strings.LastIndexByte(authority, '@'); at >= 0 {
		user, host := authority[:at], authority[at+1:]
		if !strings.HasPrefix(scheme, "abfs") || user == "" || host == "" || strings.Contains(user, ":") {
			return false
		}
	}
	return (scheme == "file") == (authority == "")
}

// readable are the features of readers that this one knows.
var readable = map[string]bool{"locations": true, "partition_columns": true, "definitions": true,
	"tombstones": true, "row_deletes": true}

// shortText is the rule for names of features and operations: 1 to 64 characters.
func shortText(text string) bool {
	n := utf8.RuneCountInString(text)
	return n >= 1 && n <= 64
}
