package cli

import (
	"bytes"
	"fmt"
	"strings"
	"testing"
)

// What a terminal would take for a command is seen instead, and stays in its line.
func TestControlCharactersAreSeen(t *testing.T) {
	for text, want := range map[string]string{
		"no van":                    "no van",
		"no van\n":                  "no van",
		"no van\r\nat all":          "no van",
		"a\tb é 日本":                 `a\tb é 日本`,
		"\x1b[2J\x1b]0;t\a\rgone":   `\x1b[2J\x1b]0;t\a\rgone`,
		"\x7f \u009b2J \u0085 \x9b": `\x7f \u009b2J \u0085 \x9b`,
	} {
		if got := FirstLine(text); got != want {
			t.Errorf("%q is shown as %q, want %q", text, got, want)
		}
	}
	if got := Line("one\ntwo\n"); got != `one\ntwo` {
		t.Errorf("a line is %q", got)
	}
	var out bytes.Buffer
	table := Table(&out)
	fmt.Fprintf(table, "a\x1b\tb\nc\td\n")
	if err := table.Flush(); err != nil || out.String() != "a\\x1b  b\nc   d\n" {
		t.Errorf("%v, %q", err, out.String())
	}
}

// One long cell does not pad the others to its width. The last cell of a line is whole.
func TestLongCellsAreCut(t *testing.T) {
	var out bytes.Buffer
	table, long := Table(&out), strings.Repeat("é", 100_000)
	fmt.Fprintf(table, "type\tid\terror\n%s\ta\tno van\n", long)
	for range 100 {
		fmt.Fprintf(table, "placed\tb\t%.300s\n", long)
	}
	if err := table.Flush(); err != nil || out.Len() > 100*1000 {
		t.Errorf("%v, %d bytes", err, out.Len())
	}
	if text := out.String(); !strings.Contains(text, "… (200000 bytes)  a   no van\n") ||
		!strings.Contains(text, long[:600]+"\n") {
		t.Errorf("%.2000s", text)
	}
}
