package relay

import (
	"maps"
	"slices"
	"time"

	"github.com/skald-go/skald/broker"
	"github.com/skald-go/skald/internal/complete"
)

// topics is the relay's knowledge about the broker's topics. It belongs to the goroutine of Run or Step.
type topics struct {
	// missing has the topics that the broker did not have, and when to ask again. A published row removes its
	// topic.
	missing map[string]missingTopic
	ids     broker.Topics        // as last read; replaced, never changed, because calls in progress use it
	idless  map[string]time.Time // topics without an ID, and how long that is trusted
	answers int                  // number of answers about IDs

	asking bool      // a request for IDs is in progress
	askAt  time.Time // when the next request is due
}

type missingTopic struct {
	why   error
	until time.Time
}

func newTopics() topics {
	return topics{missing: map[string]missingTopic{}, idless: map[string]time.Time{}}
}

// isMissing returns why the broker did not take rows of a topic lately, or nil.
func (t *topics) isMissing(topic string, now func() time.Time) error {
	if m, ok := t.missing[topic]; ok && !now().After(m.until) {
		return m.why
	}
	return nil
}

// miss records why the broker does not take rows of a topic, and reports whether that is new.
func (t *topics) miss(topic string, why error, now time.Time) (news bool) {
	was, known := t.missing[topic]
	t.missing[topic] = missingTopic{why: why, until: now.Add(missingFor)}
	return !known || was.why.Error() != why.Error()
}

// published records that the broker acknowledged a row of a topic.
func (t *topics) published(topic string) {
	if len(t.missing) > 0 {
		delete(t.missing, topic)
	}
}

// unknown returns the names without a known ID, sorted and without duplicates. It changes names.
func (t *topics) unknown(names []string, now time.Time) []string {
	names = slices.DeleteFunc(names, func(name string) bool {
		_, known := t.ids[name]
		// A broker may refuse the whole request because of an invalid name.
		return known || now.Before(t.idless[name]) || !complete.Topic(name)
	})
	slices.Sort(names)
	return slices.Compact(names)
}

// learn records the IDs of the topics that were asked for.
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

// forget makes the relay read the ID of a topic again that has another one now.
func (t *topics) forget(topic string) {
	next := maps.Clone(t.ids)
	delete(next, topic)
	delete(t.idless, topic)
	t.ids = next
}
