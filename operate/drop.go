package operate

import (
	"context"

	"github.com/skald-go/skald/operate/internal/kept"
)

// A Settlement is what a person found at the provider of an outside call.
type Settlement = kept.Settlement

// Settlements.
const (
	CallDone    = kept.CallDone
	CallRefused = kept.CallRefused
)

// A DropReport tells of a dry run also which of its messages need a Settlement.
type DropReport = kept.DropReport

// An UnsettledError says that a dead letter is at an outside call without an answer, and that a Settlement
// must tell what became of it.
type UnsettledError = kept.UnsettledError

// A Dropper is what Drop asks of a store.
type Dropper = kept.Dropper

// Drop marks the selected dead letters as finished and forgets them: what they had left to do never happens,
// and repeats of them are dropped. Messages of their keys go on. call says what became of the outside calls
// that they are at; it is required, with an *UnsettledError, of each that has no stored answer, since nobody
// asks the provider again, and is noted with the reason. With a *PartlyError the report is valid, too.
func Drop(ctx context.Context, db Dropper, s Selection, call Settlement, o Order) (r DropReport, err error) {
	return kept.Drop(ctx, db, s, call, o)
}

// An EditReport tells which message takes the place of a dead letter.
type EditReport = kept.EditReport

// Edit puts a new message with the payload data in the place of the one selected dead letter, for its
// consumer alone: with an id of its own, caused by the dead letter, with its key, type and headers. The dead
// letter is dropped in the same transaction. One that is at an outside call, or whose envelope cannot be
// read, is refused with a *UsageError.
func Edit(ctx context.Context, db Keeper, s Selection, data []byte, o Order) (r EditReport, err error) {
	return kept.Edit(ctx, db, s, data, o)
}
