package demo

import (
	"fmt"

	"github.com/skald-go/skald/sagatest"
)

// words describes the fault f that was injected into a message of this type.
func words(f fault, typ string) string {
	switch f.Kind {
	case sagatest.PublishFailed:
		return fmt.Sprintf("%s: publish of %s failed, nothing was sent", f.Service, typ)
	case sagatest.PublishUnknown:
		return fmt.Sprintf("%s: publish of %s returned an error although it happened", f.Service, typ)
	case sagatest.BeginFailed:
		return f.Service + ": its transaction failed to begin"
	case sagatest.CommitFailed:
		return f.Service + ": its commit failed and was rolled back"
	case sagatest.CommitUnknown:
		return f.Service + ": its commit returned an error although it happened"
	case sagatest.ApplyUnknown:
		return f.Service + ": its result returned an error although it was stored"
	case sagatest.SlowConsumer:
		return f.Service + " is slow with it"
	case sagatest.Repeated:
		return f.Service + ": the broker delivers it twice"
	case sagatest.Rewound:
		return f.Service + ": the broker goes back to it"
	case sagatest.Delayed:
		return f.Service + ": the broker delays it"
	case sagatest.AckLost:
		return f.Service + ": its acknowledgement is lost"
	case sagatest.AckUnknown:
		return f.Service + ": its acknowledgement returned an error although it was stored"
	case sagatest.HandlerFailed:
		return f.Service + ": its handler fails; the order waits behind the message"
	case sagatest.HandlerPanic:
		return f.Service + ": its handler panics; the order waits behind the message"
	case sagatest.HandlerGaveUp:
		return f.Service + ": its handler gives up; a dead letter, until it is redriven"
	case sagatest.Death:
		return f.Service + " dies over it"
	}
	return f.Service + ": another fault"
}

// file returns the source file in which the fault f was injected: that of the relay, or that of a handler.
func file(f fault) string {
	if f.Kind == sagatest.PublishFailed || f.Kind == sagatest.PublishUnknown {
		return "relay/publish.go"
	}
	return handler(f.Service)
}
