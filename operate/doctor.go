package operate

import (
	"context"

	"github.com/skald-go/skald"
	"github.com/skald-go/skald/broker"
	"github.com/skald-go/skald/operate/internal/checkup"
	"github.com/skald-go/skald/store"
)

// A Doctor looks at a database and a broker for what stands against Skald's promises or against the load. It
// changes nothing. Call what applies of Store, Broker, Windows and Standing, in this order, and read Found.
type Doctor = checkup.Doctor

// A Finding is what a Doctor saw: its names in JSON are stable.
type Finding = checkup.Finding

// A Subject is what a Doctor asks of a store.
type Subject = checkup.Subject

// MissingTopics says what of the topics and groups is not there, or cannot be used.
func MissingTopics(ctx context.Context, b broker.Broker, topics, groups []string) ([]string, error) {
	return checkup.MissingTopics(ctx, b, topics, groups)
}

// A Payload is what is known of a payload beside its content type.
type Payload = checkup.Payload

// A Window is how late a message may come. Marks must be kept longer than the sums of these.
type Window = checkup.Window

// What alerts and doctor go by.
const (
	// Gone is how long a consumer may give no sign of session, which it gives each minute.
	Gone = checkup.Gone
	// Retired is after how long a consumer without a sign of session counts as one that was given up.
	Retired = checkup.Retired
	// Stuck is how long a consumer that has messages may finish none.
	Stuck = checkup.Stuck
)

// Standing judges how consumers get on. Lag is what waits for a consumer at the broker, by topic; nil, or a
// consumer that it lacks: not known. A consumer whose name is not in only is left out; nil: none is.
func Standing(consumers []store.Consumer, lag map[string]map[string]int64,
	only func(consumer string) bool) []skald.Finding {
	return checkup.Standing(consumers, lag, only)
}

// An Auditor is the part of a store that is about the audit.
type Auditor = checkup.Auditor

// Missed lists what consumers noted of messages that the broker removed before they were read, and nobody has
// acknowledged since, in order: of the last 10,000 lines of the audit.
func Missed(ctx context.Context, a Auditor) (out []store.Audit, err error) {
	return checkup.Missed(ctx, a)
}

// AcknowledgeMissed notes that somebody has seen to what a consumer missed, up to the note of that number:
// Missed lists those no more. What was noted after it stays.
func AcknowledgeMissed(ctx context.Context, a Auditor, consumer string, number int64, o Order) error {
	return checkup.AcknowledgeMissed(ctx, a, consumer, number, o)
}

// MissedFindings are findings for a doctor, one for each consumer that missed something.
func MissedFindings(notes []store.Audit) (out []skald.Finding) {
	return checkup.MissedFindings(notes)
}
