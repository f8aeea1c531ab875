package inbox

import (
	"context"
	"iter"
	"time"

	"github.com/skald-go/skald/once"
	"github.com/skald-go/skald/store"
)

// A Finished message is one that a consumer of before has handled.
type Finished struct {
	store.Identity
	// as skald_keys has it, of a database with the same fingerprint key; 0: not known
	Fingerprint int64
	Answer      *once.Answer // what each repeat gets; nil: nothing but that it is done
	// Keep is for how long from now, where the scope has a retention of its own: as in once.Request. Default:
	// for as long as marks are.
	Keep time.Duration
}

// Imported is what became of messages that were imported.
type Imported struct {
	New    int // marks that are there now
	Known  int // that were there before
	TooOld int // whose marks would be forgotten already: a repeat of one goes into quarantine
}

// Import marks messages as finished by consumer, without handling them: what a table of your own knows,
// before the first inbox reads its topic. Marks are kept from now on for as long as marks are, or for
// Finished.Keep. Each transaction of some hundred marks has its own entry in skald_audit, which says who and
// why and names the first of them; whoever is interrupted starts again from the beginning: what is there
// already is left alone.
func Import[TTx any](ctx context.Context, db store.Driver[TTx], consumer, who, why string,
	from iter.Seq2[Finished, error]) (Imported, error) {
	did, err := marks(ctx, db, consumer, who, why, func(yield func(importedFinished, error) bool) {
		for f, err := range from {
			if !yield(importedFinished(f), err) {
				return
			}
		}
	})
	return Imported(did), err
}
