package relay

import (
	"maps"
	"slices"
	"time"

	"github.com/skald-go/skald/broker"
	"github.com/skald-go/skald/internal/complete"
)

// topics has the state of the broker's topics. Only the goroutine of Run or Step uses it.
type topics struct {
	// missing has the topics that the broker did not have, with the time of the next request. When a row of a
	// topic is published, the topic is removed.
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

// isMissing returns the reason why the broker did not take rows of a topic lately, or nil.
func (t *topics) isMissing(topic string, now func() time.Time) error {
	if m, ok := t.missing[topic]; ok && !now().After(m.until) {
		return m.why
	}
	return nil
}

// recordMissing records the reason why the broker does not take rows of a topic. It reports whether the
// reason is new.
func (t *topics) recordMissing(topic string, why error, now time.Time) (news bool) {
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

// unknownTopics returns the topics without a known ID, sorted and without duplicates. It changes the slice
// that it gets.
func (t *topics) unknownTopics(names []string, now time.Time) []string {
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

// forget makes the relay read the ID of a topic again, because the topic has another ID now.
func (t *topics) forget(topic string) {
	next := maps.Clone(t.ids)
	delete(next, topic)
	delete(t.idless, topic)
	t.ids = next
}
