package console

// A subject is what a verb is about.
type subject int

const (
	messages subject = iota
	consumers
	apart
	flows
	sagas
)

// A verb is what an operator can do here.
type verb struct {
	name, title string
	about       subject
	dead        bool   // of messages: dead letters
	does        string // for people, before they do it
}

func verbs() []verb {
	return []verb{
		{"redrive", "Redrive", messages, true, "Each is taken again by the consumer that failed, at its place, under the same id, with a new count of attempts."},
		{"drop", "Drop", messages, true, "Each counts as finished: what it had left to do never happens, repeats of it are dropped, and the messages of its key go on."},
		{"release", "Release", messages, false, "Each is tried now, with a new count of attempts, in the order of its key."},
		{"pause", "Pause", consumers, false, "No process of the consumer begins another message, within about 5 seconds, until it is resumed. It outlasts restarts."},
		{"resume", "Resume", consumers, false, "It ends a pause, and closes breakers that are open, within about 5 seconds."},
		{"skip", "Skip", consumers, false, "Each message that fails with this fingerprint becomes a dead letter of the kind skipped, and holds no key."},
		{"unskip", "End the skip", consumers, false, "Messages that fail with this fingerprint are retried again."},
		{"compensate", "Compensate", flows, false, "The events are published by which the flow asks for the undo of each step that took effect. A repeat asks for nothing twice."},
		{ofSaga + "retry", "Retry", sagas, false, "The step is tried now, with all its attempts before it."},
		{ofSaga + "complete", "Complete", sagas, false, "The step counts as done, with the output that you give: somebody has done it by hand."},
		{ofSaga + "skip", "Skip", sagas, false, "The step counts as passed, or its undo as done."},
		{ofSaga + "cancel", "Cancel", sagas, false, "The saga turns back: what took effect is undone, unless its pivot is passed."},
		{ofSaga + "pause", "Pause", sagas, false, "Nothing of the saga is begun any more, until it is resumed."},
		{ofSaga + "resume", "Resume", sagas, false, "The saga goes on."},
		{"admit", "Admit", apart, false, "Each is taken by its consumer, once. One that is too old may have been taken before; one in conflict is taken beside the other."},
	}
}

func verbOf(name string) (verb, bool) {
	for _, v := range verbs() {
		if v.name == name {
			return v, true
		}
	}
	return verb{}, false
}

func verbTitle(name string) string {
	v, _ := verbOf(name)
	return v.title
}

// ofSaga is what the verbs on orchestrated sagas begin with here.
const ofSaga = "saga-"
