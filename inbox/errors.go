package inbox

import (
	"github.com/skald-go/skald/inbox/internal/exec"
	"github.com/skald-go/skald/inbox/internal/partition"
)

// Failures in dead letters, parked messages and logs.
var (
	// ErrNoID is the failure of a message without an id: Skald cannot recognize a duplicate of it.
	ErrNoID = exec.ErrNoID
	// ErrNoEnvelope is the failure of a message with an unreadable envelope.
	ErrNoEnvelope = partition.ErrNoEnvelope
	// ErrTooLarge is the failure of a dead letter of the kind too_large that is redriven.
	ErrTooLarge = partition.ErrTooLarge
	// ErrCrashes is the failure of a message that crashed its process Retry.Crashes times.
	ErrCrashes = exec.ErrCrashes
	// ErrUnkept is the failure of a dead letter of the kind unkept that is redriven, if its payload is not
	// kept.
	ErrUnkept = partition.ErrUnkept
	// ErrFull is the reason why a partition pauses: the parked messages reached Limits.ParkedRows or
	// ParkedBytes.
	ErrFull = exec.ErrFull
	// ErrKeyFull is the failure of a dead letter of the kind key_full.
	ErrKeyFull = exec.ErrKeyFull
	// ErrUnhandled is the failure of a parked message that became a dead letter because no build handles its
	// type any more. Messages of its key continue after it.
	ErrUnhandled = exec.ErrUnhandled
	// ErrNoType is the failure of a message without a type: no build has a handler for the type "".
	ErrNoType = exec.ErrNoType
)
