package operate

import (
	"context"

	"github.com/skald-go/skald/operate/internal/kept"
)

// A Pace says how carefully dead letters are redriven. The zero Pace redrives all at once and watches
// nothing.
type Pace = kept.Pace

// A RedriveReport tells what was redriven. Done counts those of earlier calls of the same run, too.
type RedriveReport = kept.RedriveReport

// A StoppedError says that a watched redrive was ended early, since too many failed again. The report is
// valid.
type StoppedError = kept.StoppedError

// A Redriver is what Redrive asks of a store.
type Redriver = kept.Redriver

// Redrive has the selected dead letters taken again by the consumer that failed: each is parked again at its
// place, under the same id, with a new count of attempts. Rejections are left. With a *PartlyError or a
// *StoppedError the report is valid, too.
func Redrive(ctx context.Context, db Redriver, s Selection, pace Pace, o Order) (RedriveReport, error) {
	return kept.Redrive(ctx, db, s, pace, o)
}

// A Redriven is one redrive of one message: its names in JSON are stable.
type Redriven = kept.Redriven

// RedriveOutcomes are the words for what became of a message that was redriven.
func RedriveOutcomes() []string {
	return kept.RedriveOutcomes()
}

// A RedriveQuery chooses among redrives. Zero fields choose all.
type RedriveQuery = kept.RedriveQuery

// A Historian is what Redrives asks of a store.
type Historian = kept.Historian

// Redrives tells of each redrive when, by whom and why it was, and what has become of the message by now. It
// reads what operators did (skald_audit) from the last on. more: there may be earlier ones that the limit
// left out.
func Redrives(ctx context.Context, db Historian, q RedriveQuery) (all []Redriven, more bool, err error) {
	return kept.Redrives(ctx, db, q)
}

// Release has the selected parked messages tried now, with a new count of attempts. The running consumer
// takes them within seconds, of one key in their order. Those that Order.Run has released before are left.
// With a *PartlyError the report is valid, too.
func Release(ctx context.Context, db Redriver, s Selection, o Order) (Report, error) {
	return kept.Release(ctx, db, s, o)
}
