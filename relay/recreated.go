// This file publishes stored rows again to a topic that was recreated.

package relay

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/skald-go/skald/broker"
	"github.com/skald-go/skald/store"
)

// topicsEvery is the interval of checks for recreated topics. When a relay publishes to a recreated topic, it
// detects this immediately, because the broker refuses the old ID.
const topicsEvery = 5 * time.Second

// origin is the content of a shard's Incarnation. It has the broker to which the cursor refers, and the
// topics of this broker with their IDs.
//
// If a topic has another ID than the recorded one, it was recreated, and has lost the acknowledged rows. The
// shard then works in two phases. First it reads the open window to its end, but skips the rows of the topic.
// Then it replays all stored rows up to the end of that window, but skips the rows of all other topics. So
// the relay publishes the rows of the topic in order, and repeats no other row. Cursor and origin are stored
// together, so the shard continues correctly after a crash at any point.
type origin struct {
	Broker    string        `json:"broker"`
	Topics    broker.Topics `json:"topics,omitempty"` // the topics that the shard has published to
	Recreated []string      `json:"anew,omitempty"`   // recreated topics with rows to replay
	Until     string        `json:"to,omitempty"`     // the end of the replay; "" before it begins
}

func decodeOrigin(text string) (o origin) {
	if json.Unmarshal([]byte(text), &o) != nil {
		return origin{Broker: text}
	}
	return o
}

// String encodes o as JSON; decodeOrigin decodes it.
func (o *origin) String() string {
	text, err := json.Marshal(o)
	if err != nil {
		return o.Broker // unreachable, because all fields can be encoded
	}
	return string(text)
}

// learn reads the unknown IDs among those of the topics names.
func (r *Relay) learn(ctx context.Context, names []string) error {
	if names = r.topics.unknownTopics(names, r.o.Now()); len(names) == 0 {
		return nil
	}
	ids, err := r.callTopics(ctx, r.o.TTL/3, names...)
	if err != nil {
		return fmt.Errorf("%w: read its topics: %w", errBroker, err)
	}
	r.noteTopicIDs(names, ids)
	return nil
}

// topicsOf returns the topics of rows. Some topics may occur twice.
func topicsOf(rows []store.Row) (names []string) {
	for i := range rows {
		if i == 0 || rows[i].Topic != rows[i-1].Topic {
			names = append(names, rows[i].Topic)
		}
	}
	return names
}

// noteTopicIDs records the IDs of topics. It stops a shard that has recorded another ID for one of these
// topics.
func (r *Relay) noteTopicIDs(asked []string, ids broker.Topics) {
	r.topics.learn(asked, ids, r.o.Now())
	// The order is fixed, so that a simulated run can be repeated.
	for _, id := range slices.Sorted(maps.Keys(r.shards)) {
		if s := r.shards[id]; !s.leaving && r.noteRecreated(s) {
			r.stop(s)
		}
	}
}

// stop removes a shard from its group, and restarts the shard when it has no calls in progress.
func (r *Relay) stop(s *shard) {
	s.failing = true
	r.ungroup(s)
	if s.pending == 0 {
		r.restart(s)
	}
}

// noteRecreated records the topics of the shard that were recreated. It returns false if there are none.
func (r *Relay) noteRecreated(s *shard) bool {
	for name, was := range s.origin.Topics {
		if is, known := r.topics.ids[name]; known && is != was {
			if id, noted := s.recreated[name]; noted && id == is {
				continue
			}
			if s.recreated == nil {
				s.recreated = broker.Topics{}
			}
			s.recreated[name] = is
			r.o.Logger.Warn("relay: a topic was recreated: its stored rows are published again", "owner",
				r.o.Owner, "shard", s.ID, "topic", name, "id", is)
		}
	}
	return len(s.recreated) > 0
}

// askTopics checks at intervals whether topics of the shards were recreated.
func (r *Relay) askTopics(context.Context) (busy bool, err error) {
	now := r.o.Now()
	if r.topics.asking || now.Before(r.topics.askAt) {
		return false, nil
	}
	var names []string
	for _, s := range r.shards {
		names = slices.AppendSeq(names, maps.Keys(s.origin.Topics))
	}
	if len(names) == 0 {
		return false, nil
	}
	slices.Sort(names)
	r.topics.asking, r.topics.askAt = true, now.Add(topicsEvery)
	names, before := slices.Compact(names), r.topics.answers
	r.ask(names, func(ids broker.Topics, err error) {
		r.topics.asking = false
		switch {
		case err != nil:
			r.noteNoAnswer(fmt.Errorf("read its topics: %w", err))
		case r.topics.answers == before: // otherwise these IDs may be older than the recorded ones
			r.noteTopicIDs(names, ids)
		}
	})
	return false, nil
}

// beginReplay records the recreated topics in the origin. If no window is open, it also starts the replay: it
// moves the cursor to the oldest stored row. The shard must have no calls in progress.
func (s *shard) beginReplay() {
	o, again := &s.origin, len(s.recreated) > 0
	for name, id := range s.recreated {
		o.Topics[name] = id
		if !slices.Contains(o.Recreated, name) {
			o.Recreated = append(o.Recreated, name)
		}
	}
	slices.Sort(o.Recreated)
	s.originChanged, s.recreated = s.originChanged || again, nil
	open := s.Cursor.Tip != "" && s.Cursor.Tip != s.Cursor.Base
	switch {
	case len(o.Recreated) == 0:
	case o.Until != "" && (s.Cursor.Base != "" || s.Cursor.Tip != o.Until): // an operator has moved it
		o.Until, s.originChanged = "", true
		s.beginReplay()
	case o.Until != "" && again:
		s.Cursor.Seq = 0
	case o.Until == "" && !open && s.Cursor.Base == "": // the shard has not read any row yet
		o.Recreated, s.originChanged = nil, true
	case o.Until == "" && !open:
		o.Until, s.originChanged = s.Cursor.Base, true
		s.Cursor = store.Cursor{Tip: o.Until}
	}
}

// endReplay ends a replay when the shard has read all rows of it.
func (s *shard) endReplay() {
	if s.origin.Until != "" && s.Cursor.Base == s.origin.Until {
		s.origin.Recreated, s.origin.Until, s.originChanged = nil, "", true
	}
}

// skips returns true if a row that the group g has read must not be published in this phase; see origin.
func (s *shard) skips(g *group, row *store.Row) bool {
	switch {
	case len(s.origin.Recreated) == 0, s.origin.Until != "" && g.base != "":
		return false
	case s.origin.Until != "":
		return !slices.Contains(s.origin.Recreated, row.Topic)
	}
	return slices.Contains(s.origin.Recreated, row.Topic)
}

// awaitsReplay returns true if a replay will publish the rows of a topic. Deferred rows of the topic wait for
// the replay.
func (s *shard) awaitsReplay(topic string) bool {
	_, found := s.recreated[topic]
	return found || slices.Contains(s.origin.Recreated, topic)
}

// defersOlder returns true if an older row of the same key will be stored as deferred.
func (s *shard) defersOlder(a *store.DeferredRow) bool {
	older := func(d store.DeferredRow) bool {
		return d.Seq < a.Seq && d.Key != nil && a.Key != nil && d.Topic == a.Topic &&
			string(d.Key) == string(a.Key)
	}
	return slices.ContainsFunc(s.deferred, older) ||
		slices.ContainsFunc(s.pieces, func(p *piece) bool { return slices.ContainsFunc(p.deferred, older) })
}

// noteTopic records that the shard publishes to a topic.
func (s *shard) noteTopic(topic string, ids broker.Topics) {
	id, known := ids[topic]
	if !known {
		return
	}
	if _, noted := s.origin.Topics[topic]; noted {
		return
	}
	if s.origin.Topics == nil {
		s.origin.Topics = broker.Topics{}
	}
	s.origin.Topics[topic], s.originChanged = id, true
}
