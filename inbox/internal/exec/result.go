package exec

import (
	"time"

	"github.com/skald-go/skald/failure"
	"github.com/skald-go/skald/inbox/internal/decide"
	"github.com/skald-go/skald/inbox/internal/partition"
)

// A Result is what became of one attempt at a message.
type Result struct {
	Entry    *partition.Entry
	What     decide.Ending
	After    time.Duration // for later and failed: not before
	Attempts int           // for failed and dead: how many there were
	Since    time.Time     // for delayed: the first failure
	Kept     bool          // the store has it, and it may be due
	Took     time.Duration
	Fell     bool          // the batch that it was in, by rivals
	Print    string        // for failed and dead: the fingerprint, where it is the message's first failure
	Class    failure.Class // of that
	Untried  bool          // for dead: no handler has failed, the message could not be parked
	Err      error
}
