package relay

import (
	"maps"
	"slices"
	"time"

	"github.com/skald-go/skald/broker"
	"github.com/skald-go/skald/internal/complete"
)

// topics is what a relay was told of the topics of its broker. It belongs to the goroutine of Run or Step.
type topics struct {
	// those that the broker did not have, and until when that is believed; until it takes a row of them
	missing map[string]time.Time
	ids     broker.Topics        // as told last; never changed, always replaced: calls under way have it
	idless  map[string]time.Time // those that have no id, and until when that is believed
	answers int                  // of the broker about ids

	asking bool      // a request for ids is under way
	askAt  time.Time // when the next one is due
}

func newTopics() topics {
	return topics{missing: map[string]time.Time{}, idless: map[string]time.Time{}}
}

// isMissing tells whether the broker did not have a topic lately.
func (t *topics) isMissing(topic string, now time.Time) bool {
	until, ok := t.missing[topic]
	return ok && !now.After(until)
}

// miss notes that the broker does not have a topic, and tells whether that is news.
func (t *topics) miss(topic string, now time.Time) (news bool) {
	_, known := t.missing[topic]
	t.missing[topic] = now.Add(missingFor)
	return !known
}

// took notes that the broker took a row of a topic.
func (t *topics) took(topic string) {
	if len(t.missing) > 0 {
		delete(t.missing, topic)
	}
}

// unknown returns those of names whose ids are to be asked for, sorted and each once. It changes names.
func (t *topics) unknown(names []string, now time.Time) []string {
	names = slices.DeleteFunc(names, func(name string) bool {
		_, known := t.ids[name]
		// a broker may fail for all because of an invalid one
		return known || now.Before(t.idless[name]) || !complete.Topic(name)
	})
	slices.Sort(names)
	return slices.Compact(names)
}

// learn takes up the ids of the topics that were asked for.
func (t *topics) learn(asked []string, ids broker.Topics, now time.Time) {
	next := broker.Topics{}
	maps.Copy(next, t.ids)
	for _, name := range asked {
		delete(next, name)
		t.idless[name] = now.Add(missingFor)
		if id, there := ids[name]; there {
			next[name] = id
			delete(t.idless, name)
			delete(t.missing, name)
		}
	}
	t.ids, t.answers = next, t.answers+1
}

// unlearn makes the relay ask again for the id of a topic that the broker knows under another one.
func (t *topics) unlearn(topic string) {
	next := maps.Clone(t.ids)
	delete(next, topic)
	delete(t.idless, topic)
	t.ids = next
}
