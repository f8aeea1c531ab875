package operate

import (
	"context"
	"io"
	"iter"

	"github.com/skald-go/skald/operate/internal/kept"
	"github.com/skald-go/skald/store"
)

// A Left is a dead letter that was not imported: its names in JSON are stable.
type Left = kept.Left

// Import keeps letters as dead letters of their consumers, in order. It reads them twice: one that cannot be
// read is found before anything is changed. A letter is left as it is, and named, whose consumer has finished
// or keeps the message, which is at an outside call, or is older than the consumer's marks are kept; the last
// are imported with tooOld. left is called with each of these; a repeat of an import changes nothing.
func Import[TTx any](ctx context.Context, db store.Driver[TTx], letters iter.Seq2[*store.Parked, error],
	tooOld bool, left func(Left) error, o Order) (r Report, err error) {
	return kept.Import(ctx, db, letters, tooOld, left, o)
}

// WriteLetter writes the dead letter p, read with its payload, as one line of JSON, byte for byte.
// ReadLetters reads it again.
func WriteLetter(out io.Writer, p *store.Parked) error {
	return kept.WriteLetter(out, p)
}

// ReadLetters reads dead letters line by line. A line that is none is a *UsageError with its number, and ends
// it.
func ReadLetters(in io.Reader) iter.Seq2[*store.Parked, error] {
	return kept.ReadLetters(in)
}
