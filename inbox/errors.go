package inbox

import (
	"github.com/skald-go/skald/inbox/internal/exec"
	"github.com/skald-go/skald/inbox/internal/partition"
)

// What a dead letter, a parked message or a log says failed.
var (
	// ErrNoID is the failure of a message without an id: Skald cannot know it again.
	ErrNoID = exec.ErrNoID
	// ErrNoEnvelope is the failure of a message whose envelope cannot be read.
	ErrNoEnvelope = partition.ErrNoEnvelope
	// ErrTooLarge is the failure of a dead letter of the kind too_large that is redriven.
	ErrTooLarge = partition.ErrTooLarge
	// ErrCrashes is the failure of a message that ended its process again and again.
	ErrCrashes = exec.ErrCrashes
	// ErrUnkept is the failure of a dead letter of the kind unkept that is redriven, if its payload is not
	// kept.
	ErrUnkept = partition.ErrUnkept
	// ErrFull is why a partition pauses: no more may be parked for the consumer.
	ErrFull = exec.ErrFull
	// ErrKeyFull is the failure of a dead letter of the kind key_full.
	ErrKeyFull = exec.ErrKeyFull
	// ErrUnhandled is why a parked message is a dead letter whose type no build handles any more. Messages of
	// its key go on after it.
	ErrUnhandled = exec.ErrUnhandled
	// ErrNoType is why a message without a type is a dead letter: no build has a handler for the type "".
	ErrNoType = exec.ErrNoType
)
