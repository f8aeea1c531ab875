package cli

import (
	"bytes"
	"encoding/json"
	"io"
	"strings"
	"text/tabwriter"

	"github.com/skald-go/skald/internal/shortlog"
)

// Keys, IDs and error texts come from other programs, and may contain control sequences of a terminal. The
// functions below escape these as strconv.Quote does.

// Line returns a text as one line.
func Line(text string) string { return shortlog.Visible(strings.TrimRight(text, "\r\n"), false) }

// FirstLine returns the first line of a text.
func FirstLine(text string) string {
	line, _, _ := strings.Cut(text, "\n")
	return Line(line)
}

// Lines joins texts, each as one line.
func Lines(all []string) string {
	out := make([]string, len(all))
	for i, one := range all {
		out[i] = Line(one)
	}
	return strings.Join(out, "\n")
}

// Plain returns a writer that escapes control characters. A Write must not end within a UTF-8 sequence.
func Plain(w io.Writer) io.Writer { return plain{w} }

type plain struct{ to io.Writer }

func (p plain) Write(b []byte) (int, error) {
	if _, err := io.WriteString(p.to, shortlog.Visible(string(b), true)); err != nil {
		return 0, err
	}
	return len(b), nil
}

// Table returns a writer that aligns columns for people.
func Table(w io.Writer) *Columns { return &Columns{tabwriter.NewWriter(Plain(w), 0, 0, 2, ' ', 0)} }

// mostColumn limits the bytes of a cell, because the longest cell of a column sets the width of the column.
const mostColumn = 100

// Columns is a table for a terminal. It cuts each cell after mostColumn bytes, except the last cell of a
// line. The output of --json has the whole value.
type Columns struct{ tabs *tabwriter.Writer }

// Write writes lines of cells that are separated by tabs. b must have whole lines.
func (c *Columns) Write(b []byte) (int, error) {
	lines := strings.Split(string(b), "\n")
	for i, line := range lines {
		cells := strings.Split(line, "\t")
		for j, cell := range cells[:len(cells)-1] {
			cells[j] = shortlog.Text(cell, mostColumn)
		}
		lines[i] = strings.Join(cells, "\t")
	}
	if _, err := io.WriteString(c.tabs, strings.Join(lines, "\n")); err != nil {
		return 0, err
	}
	return len(b), nil
}

// Flush writes the lines since the last Flush, padded.
func (c *Columns) Flush() error { return c.tabs.Flush() }

// JSON returns an encoder that writes one value per line, with control characters escaped.
func JSON(w io.Writer) *json.Encoder { return json.NewEncoder(visibleJSON{w}) }

type visibleJSON struct{ to io.Writer }

// Write writes whole JSON values. json.Encoder writes each value in one call.
func (v visibleJSON) Write(b []byte) (int, error) {
	if _, err := io.Copy(v.to, bytes.NewReader(shortlog.VisibleJSON(b))); err != nil {
		return 0, err
	}
	return len(b), nil
}
