package cli

import (
	"fmt"
	"io"
	"os"
)

// Terminal tells whether somebody looks.
func Terminal(w io.Writer) bool {
	f, ok := w.(*os.File)
	if !ok {
		return false
	}
	info, err := f.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0
}

// None tells who looks that nothing is listed. A program that reads the list sees nothing of it.
func None(errs io.Writer, n int, asJSON bool) {
	if n == 0 && !asJSON && Terminal(errs) {
		fmt.Fprintln(errs, "(none)")
	}
}
