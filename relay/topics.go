package relay

import (
	"maps"
	"slices"
	"time"

	"github.com/skald-go/skald/broker"
	"github.com/skald-go/skald/internal/complete"
)

// topics has the relay's knowledge of the broker's topics. Only the goroutine of Run or Step uses it.
type topics struct {
	// missing has the topics that the broker did not have, until a row of the topic is published.
	missing map[string]missingTopic
	ids     broker.Topics        // replaced, never changed, because calls in progress use the map
	idless  map[string]time.Time // topics without an ID, and the time of the next request
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

// isMissing returns the reason why the broker did not accept rows of a topic recently, or nil.
func (t *topics) isMissing(topic string, now func() time.Time) error {
	if m, ok := t.missing[topic]; ok && !now().After(m.until) {
		return m.why
	}
	return nil
}

// recordMissing records the reason why the broker does not accept rows of a topic. It returns true if the
// reason is new.
func (t *topics) recordMissing(topic string, why error, now time.Time) (isNew bool) {
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

// unknownTopics returns the topics in names without a known ID, sorted and without duplicates. It modifies
// names.
func (t *topics) unknownTopics(names []string, now time.Time) []string {
	names = slices.DeleteFunc(names, func(name string) bool {
		_, known := t.ids[name]
		// One invalid name may make a broker refuse the whole request.
		return known || now.Before(t.idless[name]) || !complete.Topic(name)
	})
	slices.Sort(names)
	return slices.Compact(names)
}

// learn records the IDs of the requested topics.
func (t *topics) learn(requested []string, ids broker.Topics, now time.Time) {
	next := broker.Topics{}
	maps.Copy(next, t.ids)
	for _, name := range requested {
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

// forget removes the ID of a topic, so that the relay reads it again.
func (t *topics) forget(topic string) {
	next := maps.Clone(t.ids)
	delete(next, topic)
	delete(t.idless, topic)
	t.ids = next
}
