// second_reader reads lakelog logs and says what it finds, a line of JSON for each folder. It was written from docs/format.md
// and proto/ alone, so that what two readers say can be compared.
//
//	second_reader [--target REVISION] FOLDER...
//	second_reader [--target REVISION] --serve      reads folders from its standard input, a line each
//
// A folder holds transactions/ and segments/ of one log.
package main

import (
	"bufio"
	"flag"
	"fmt"
	"os"
	"runtime/debug"
	"strconv"
)

func main() {
	serve := flag.Bool("serve", false, "read folders from standard input, a line each")
	revision := flag.String("target", "", "the revision to read instead of the head")
	flag.Parse()
	var target *uint64
	if *revision != "" {
		n, err := strconv.ParseUint(*revision, 10, 64)
		if err != nil {
			fmt.Fprintln(os.Stderr, "second_reader: --target takes a revision")
			os.Exit(2)
		}
		target = &n
	}
	debug.SetMemoryLimit(memory + memory/2)
	out := bufio.NewWriter(os.Stdout)
	defer out.Flush()
	say := func(folder string) {
		fmt.Fprintln(out, compactJSON(judge(folder, target)))
		out.Flush()
	}
	if !*serve {
		for _, folder := range flag.Args() {
			say(folder)
		}
		return
	}
	lines := bufio.NewScanner(os.Stdin)
	for lines.Scan() {
		say(lines.Text())
	}
}
