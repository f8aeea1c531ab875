// This file has what an operator can do in a console, and what to type to do the same.

package page

// A subject is what a verb is about.
type subject int

const (
	Messages subject = iota
	Consumers
	Apart
	Flows
	Sagas
)

// A Verb is what an operator can do here.
type Verb struct {
	Name, Title string
	About       subject
	Dead        bool   // of messages: dead letters
	Does        string // for people, before they do it
}

func verbs() []Verb {
	return []Verb{
		{"redrive", "Redrive", Messages, true,
			"Each is taken again by the consumer that failed, at its place, under the same id, with a new count of attempts."},
		{"drop", "Drop", Messages, true,
			"Each counts as finished: what it had left to do never happens, repeats of it are dropped, and the messages of its key go on."},
		{"release", "Release", Messages, false,
			"Each is tried now, with a new count of attempts, in the order of its key."},
		{"pause", "Pause", Consumers, false,
			"No process of the consumer begins another message, within about 5 seconds, until it is resumed. It outlasts restarts."},
		{"resume", "Resume", Consumers, false,
			"It ends a pause, and closes breakers that are open, within about 5 seconds."},
		{"skip", "Skip", Consumers, false,
			"Each message that fails with this fingerprint becomes a dead letter of the kind skipped, and holds no key."},
		{"unskip", "End the skip", Consumers, false,
			"Messages that fail with this fingerprint are retried again."},
		{"compensate", "Compensate", Flows, false,
			"The events are published by which the flow asks for the undo of each step that took effect. A repeat asks for nothing twice."},
		{OfSaga + "retry", "Retry", Sagas, false, "The step is tried now, with all its attempts before it."},
		{OfSaga + "complete", "Complete", Sagas, false,
			"The step counts as done, with the output that you give: somebody has done it by hand."},
		{OfSaga + "skip", "Skip", Sagas, false, "The step counts as passed, or its undo as done."},
		{OfSaga + "cancel", "Cancel", Sagas, false,
			"The saga turns back: what took effect is undone, unless its pivot is passed."},
		{OfSaga + "pause", "Pause", Sagas, false,
			"Nothing of the saga is begun any more, until it is resumed."},
		{OfSaga + "resume", "Resume", Sagas, false, "The saga goes on."},
		{"admit", "Admit", Apart, false,
			"Each is taken by its consumer, once. One that is too old may have been taken before; one in conflict is taken beside the other."},
	}
}

// Find is the verb of a name.
func Find(name string) (Verb, bool) {
	for _, v := range verbs() {
		if v.Name == name {
			return v, true
		}
	}
	return Verb{}, false
}

// Title is what the verb of a name is called.
func Title(name string) string {
	v, _ := Find(name)
	return v.Title
}

// OfSaga is what the verbs on orchestrated sagas begin with here.
const OfSaga = "saga-"
