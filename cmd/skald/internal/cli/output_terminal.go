package cli

import (
	"fmt"
	"io"
	"os"
)

// Terminal returns true if w is a terminal.
func Terminal(w io.Writer) bool {
	f, ok := w.(*os.File)
	if !ok {
		return false
	}
	info, err := f.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0
}

// Ended prints a note after a list, for standard error: that the list is empty, or that it shows fewer
// entries than the total.
func Ended(errs io.Writer, shown, total int, what string, asJSON bool) {
	switch {
	case shown < total:
		fmt.Fprintf(errs, "%d of %d shown\n", shown, total)
	case total == 0 && !asJSON:
		fmt.Fprintln(errs, "no "+what)
	}
}
