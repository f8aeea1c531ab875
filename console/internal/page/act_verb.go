// This file lists the operations of the console.

package page

// subject is the kind of object that a verb applies to.
type subject int

const (
	Messages subject = iota
	Consumers
	Apart
	Flows
	Sagas
)

// Verb is an operation on messages, consumers or sagas.
type Verb struct {
	Name, Title string
	About       subject
	Dead        bool   // applies to dead letters, not to parked messages
	Does        string // a description for the operator
}

func verbs() []Verb {
	return []Verb{
		{"redrive", "Redrive", Messages, true,
			"The consumer handles each message again, in the order of its key, under the same id, with a new count of attempts."},
		{"drop", "Drop", Messages, true,
			"Each counts as finished: its remaining work never happens, repeats of it are dropped, and later messages of its key continue."},
		{"release", "Release", Messages, false,
			"Each is retried now, with a new count of attempts, in the order of its key."},
		{"pause", "Pause", Consumers, false,
			"Within about 5 seconds no process of the consumer begins another message, until you resume it. A pause survives restarts."},
		{"resume", "Resume", Consumers, false,
			"Ends a pause and closes open breakers, within about 5 seconds."},
		{"skip", "Skip", Consumers, false,
			"Each message that fails with this fingerprint becomes a dead letter of the kind skipped, and does not block its key."},
		{"unskip", "End the skip", Consumers, false,
			"Messages that fail with this fingerprint are retried again."},
		{"compensate", "Compensate", Flows, false,
			"Publishes the flow's events that request the undo of each step that took effect. A repeat requests nothing twice."},
		{OfSaga + "retry", "Retry", Sagas, false, "The step is retried now, with its full number of attempts."},
		{OfSaga + "complete", "Complete", Sagas, false,
			"The step counts as done, with the output that you give. Use it after you did the step by hand."},
		{OfSaga + "skip", "Skip", Sagas, false, "The step counts as passed, or its undo as done."},
		{OfSaga + "cancel", "Cancel", Sagas, false,
			"The saga compensates: steps that took effect are undone. This is not possible after its pivot."},
		{OfSaga + "pause", "Pause", Sagas, false,
			"The saga begins no further step until you resume it."},
		{OfSaga + "resume", "Resume", Sagas, false, "The saga continues."},
		{"admit", "Admit", Apart, false,
			"The consumer handles each once. A message that is too old may have been handled before. A message in conflict is handled in addition to the other one."},
	}
}

// Find returns the verb with this name.
func Find(name string) (Verb, bool) {
	for _, v := range verbs() {
		if v.Name == name {
			return v, true
		}
	}
	return Verb{}, false
}

// Title returns the title of a verb.
func Title(name string) string {
	v, _ := Find(name)
	return v.Title
}

// OfSaga is the prefix of verbs on orchestrated sagas.
const OfSaga = "saga-"
