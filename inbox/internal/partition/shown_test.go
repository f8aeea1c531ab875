package partition

import (
	"strings"
	"testing"
)

// An id or type of a message from another system cannot break the line of an error. Other names do not
// change.
func TestForeignNamesKeepErrorsOnOneLine(t *testing.T) {
	for id, want := range map[string]string{
		"order 1": "order 1", `a"b`: `a"b`, "größe": "größe",
		"ctl\x00\n\x1b[31m": `"ctl\x00\n\x1b[31m"`, "bad\xff": `"bad\xff"`,
	} {
		e := &Entry{}
		e.ID, e.Type = id, id
		if got := e.TypeAndName(); got != want+" "+want || strings.ContainsAny(got, "\n\x00\x1b") {
			t.Errorf("%q, want %q twice", got, want)
		}
	}
}
