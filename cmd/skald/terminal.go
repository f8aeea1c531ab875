package main

import (
	"fmt"
	"io"
	"os"
)

// terminal tells whether somebody looks.
func terminal(w io.Writer) bool {
	f, ok := w.(*os.File)
	if !ok {
		return false
	}
	info, err := f.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0
}

// sayNone tells who looks that nothing is listed. A program that reads the list sees nothing of it.
func sayNone(errs io.Writer, n int, asJSON bool) {
	if n == 0 && !asJSON && terminal(errs) {
		fmt.Fprintln(errs, "(none)")
	}
}
