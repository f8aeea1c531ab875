package inbox

import (
	"context"
	"time"
)

// A Failing is work on the store, beside the messages themselves, that fails again and again.
type Failing struct {
	Doing string // "claim parked messages"
	Since time.Time
	Times int // in a row
	Error string
}

// What may fail so.
const (
	claiming     = "claim parked messages"
	counting     = "count parked messages"
	noting       = "store positions"
	knowingTypes = "look up who handles which types"
	lookingUp    = "look up finished messages"
	readingKey   = "read the key of fingerprints"
	admitting    = "take admitted messages out of quarantine"
)

// did notes how work on the store ended.
func (in *Inbox[TTx]) did(ctx context.Context, doing string, err error) {
	away := err != nil && in.exec.Away(err)
	if err != nil {
		in.tel.Failing(doing)
		in.called(ctx, err)
	}
	in.work.Did(ctx, doing, err, away, in.o.Now())
}

// up tells whether the database answered when it was asked last, or was never asked; and since when, if it
// did not before.
func (in *Inbox[TTx]) up() (since time.Time, up bool) {
	a := in.probe.Last()
	return a.Since, a.Err == nil
}

// suspectOutage asks the database whether it is there: Run in the background, Step at once.
func (in *Inbox[TTx]) suspectOutage(ctx context.Context) {
	if in.checkpoints.Patient() {
		in.probe.Ask(context.WithoutCancel(ctx))
	} else {
		in.probe.AskNow(ctx)
	}
}

// failures is work on the store that failed more than once in a row.
func (in *Inbox[TTx]) failures() (out []Failing) {
	for _, f := range in.work.Lasting() {
		out = append(out, Failing(f))
	}
	return out
}
