package retention

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/skald-go/skald/broker"
	"github.com/skald-go/skald/store"
)

// A Window is for how long after it was written a message may come, or matter: marks must be kept as long.
type Window struct {
	Marks  time.Duration            // how long they are kept
	Outbox time.Duration            // how long a producer may publish a message after it was written
	Broker map[string]time.Duration // how long the broker keeps one after that, by topic; "" stands for any
	Age    time.Duration            // how long a failing message is tried again
	Saga   time.Duration            // the longest that a saga lives; 0: there is none
	Steps  time.Duration            // how long steps are kept; 0: it is not compared
	// how long after it was written a dead letter may still come from elsewhere; 0: none does
	Dead time.Duration
}

// Broken says which sums are more than marks are kept, in numbers; none: all is well. What the broker keeps
// for ever has no sum: see Endless.
func (w Window) Broken() []error {
	var out []error
	sum := func(what string, d time.Duration) {
		if d > w.Marks {
			out = append(out, &store.RetentionError{What: fmt.Sprintf("marks are kept %v, less than %s",
				Spell(w.Marks), what),
				Remedy: "keep marks at least as long (relay.Options.Keep.Marks, --keep-marks), or have the other kept shorter"})
		}
	}
	summed := false // with the broker, the outbox is in the sum
	for _, topic := range slices.Sorted(maps.Keys(w.Broker)) {
		d := w.Broker[topic]
		if d == broker.Forever {
			continue
		}
		summed = true
		of, all := "", w.Outbox+min(d, broker.Forever-w.Outbox) // never less than its parts
		if topic != "" {
			of = " of topic " + topic
		}
		sum(
			fmt.Sprintf(
				"%v, in which a message%s may come: %v in the outbox of its producer and %v at the broker",
				Spell(all), of, Spell(w.Outbox), Spell(d)), all)
	}
	if !summed { // a topic that is kept for ever has no sum, but its messages leave an outbox, too
		sum(fmt.Sprintf("%v, in which a message may leave the outbox of its producer", Spell(w.Outbox)),
			w.Outbox)
	}
	sum(fmt.Sprintf("%v, in which a failing message is tried again", Spell(w.Age)), w.Age)
	sum(fmt.Sprintf("%v, in which a saga may end", Spell(w.Saga)), w.Saga)
	if w.Steps > 0 && w.Saga > w.Steps {
		out = append(out,
			&store.RetentionError{What: fmt.Sprintf(
				"steps are kept %v, less than %v, in which a saga may end", Spell(w.Steps), Spell(w.Saga)),
				Remedy: "keep steps at least as long (relay.Options.Keep.Steps, --keep-steps)"})
	}
	sum(fmt.Sprintf("%v, in which a dead letter may come again", Spell(w.Dead)), w.Dead)
	return out
}

// Endless are the topics that the broker keeps for ever: no retention of marks is as long.
func (w Window) Endless() (topics []string) {
	for _, topic := range slices.Sorted(maps.Keys(w.Broker)) {
		if w.Broker[topic] == broker.Forever {
			topics = append(topics, topic)
		}
	}
	return topics
}

// Spell is d for people, in days where it has no less.
func Spell(d time.Duration) string {
	if d >= 2*day && d%day == 0 {
		return fmt.Sprintf("%d days", d/day)
	}
	text := d.String()
	for _, zero := range []string{"m0s", "h0m"} {
		if strings.HasSuffix(text, zero) {
			text = text[:len(text)-2]
		}
	}
	return text
}
