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

// topicsEvery is how often a relay looks whether a topic that its shards have published to was made anew. One
// that is published to is found out at once: the broker takes nothing for it under the id that it had.
const topicsEvery = 5 * time.Second

// A note is what a shard's Incarnation says: of which broker, and of which topics there, its cursor speaks.
//
// A topic of another id than the noted one was made anew, and has nothing of what was acknowledged. First the
// window that is open is read to its end, and the topic's rows are passed over; then everything that is kept
// up to there is read once more, and all rows but the topic's are passed over. So its rows come in their
// order, no other topic's come twice, and wherever a process dies cursor and note, which are one write, say
// where to go on.
type note struct {
	Broker string        `json:"broker"`
	Topics broker.Topics `json:"topics,omitempty"` // those that the shard has published to
	Anew   []string      `json:"anew,omitempty"`   // made anew, and not yet given again what is kept
	To     string        `json:"to,omitempty"`     // the tick up to which that is read now; "": not yet
}

func readNote(text string) (n note) {
	if json.Unmarshal([]byte(text), &n) != nil {
		return note{Broker: text}
	}
	return n
}

// String encodes n; readNote decodes it.
func (n *note) String() string {
	text, err := json.Marshal(n)
	if err != nil {
		return n.Broker // it cannot fail: there are strings only
	}
	return string(text)
}

// learn asks for the ids of those of names that are not known.
func (r *Relay) learn(ctx context.Context, names []string) error {
	if names = r.topics.unknown(names, r.o.Now()); len(names) == 0 {
		return nil
	}
	ids, err := r.callTopics(ctx, r.o.TTL/3, names...)
	if err != nil {
		return fmt.Errorf("%w: ask for its topics: %w", errBroker, err)
	}
	r.told(names, ids)
	return nil
}

// topicsOf lists the topics of rows, some of them more than once.
func topicsOf(rows []store.Row) (names []string) {
	for i := range rows {
		if i == 0 || rows[i].Topic != rows[i-1].Topic {
			names = append(names, rows[i].Topic)
		}
	}
	return names
}

// told takes up the ids of topics that were asked for. A shard that has noted another one stops, and begins
// again as soon as nothing of it is under way.
func (r *Relay) told(asked []string, ids broker.Topics) {
	r.topics.learn(asked, ids, r.o.Now())
	for _, id := range slices.Sorted(maps.Keys(r.shards)) { // so that what an explorer saw can be replayed
		if l := r.shards[id]; !l.leaving && r.differs(l) {
			r.stop(l)
		}
	}
}

// stop makes a shard begin again as soon as nothing of it is under way. What its group reads meanwhile is not
// for it.
func (r *Relay) stop(l *shard) {
	l.trouble = true
	r.ungroup(l)
	if l.pending == 0 {
		r.restart(l)
	}
}

// differs tells whether topics that l has noted were made anew, and notes it.
func (r *Relay) differs(l *shard) bool {
	for name, was := range l.note.Topics {
		if is, known := r.topics.ids[name]; known && is != was {
			if id, told := l.told[name]; told && id == is {
				continue
			}
			if l.told == nil {
				l.told = broker.Topics{}
			}
			l.told[name] = is
			r.o.Logger.Warn("relay: a topic was made anew: what is kept of it is published again", "owner",
				r.o.Owner, "shard", l.ID, "topic", name, "id", is)
		}
	}
	return len(l.told) > 0
}

// askTopics looks, now and then, whether topics that our shards have published to were made anew.
func (r *Relay) askTopics(context.Context) (busy bool, err error) {
	now := r.o.Now()
	if r.topics.asking || now.Before(r.topics.askAt) {
		return false, nil
	}
	var names []string
	for _, l := range r.shards {
		names = slices.AppendSeq(names, maps.Keys(l.note.Topics))
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
			r.missed(fmt.Errorf("ask for its topics: %w", err))
		case r.topics.answers == before: // else something newer was told meanwhile
			r.told(names, ids)
		}
	})
	return false, nil
}

// renew makes what the shard was told its own, and begins again with what is kept if nothing of a window is
// left. Nothing of the shard is under way.
func (l *shard) renew() {
	n, again := &l.note, len(l.told) > 0
	for name, id := range l.told {
		n.Topics[name] = id
		if !slices.Contains(n.Anew, name) {
			n.Anew = append(n.Anew, name)
		}
	}
	slices.Sort(n.Anew)
	l.renamed, l.told = l.renamed || again, nil
	open := l.Cursor.Tip != "" && l.Cursor.Tip != l.Cursor.Base
	switch {
	case len(n.Anew) == 0:
	case n.To != "" && (l.Cursor.Base != "" || l.Cursor.Tip != n.To): // a recover has put the shard elsewhere
		n.To, l.renamed = "", true
		l.renew()
	case n.To != "" && again:
		l.Cursor.Seq = 0
	case n.To == "" && !open && l.Cursor.Base == "": // nothing was read yet
		n.Anew, l.renamed = nil, true
	case n.To == "" && !open:
		n.To, l.renamed = l.Cursor.Base, true
		l.Cursor = store.Cursor{Tip: n.To}
	}
}

// renewed ends what renew began, once all that is kept was read.
func (l *shard) renewed() {
	if l.note.To != "" && l.Cursor.Base == l.note.To {
		l.note.Anew, l.note.To, l.renamed = nil, "", true
	}
}

// passesOver tells whether a row that g has read is not for now: see note. Rows may be
// read that lie after the last one that the broker answered.
func (l *shard) passesOver(g *group, row *store.Row) bool {
	switch {
	case len(l.note.Anew) == 0, l.note.To != "" && g.base != "":
		return false
	case l.note.To != "":
		return !slices.Contains(l.note.Anew, row.Topic)
	}
	return slices.Contains(l.note.Anew, row.Topic)
}

// renews tells whether a topic is about to get again what is kept of it: rows of it that were deferred wait
// for that.
func (l *shard) renews(topic string) bool {
	_, told := l.told[topic]
	return told || slices.Contains(l.note.Anew, topic)
}

// setsAsideBefore tells whether an older row of its key is about to be stored as deferred.
func (l *shard) setsAsideBefore(a *store.DeferredRow) bool {
	older := func(o store.DeferredRow) bool {
		return o.Seq < a.Seq && o.Key != nil && a.Key != nil && o.Topic == a.Topic &&
			string(o.Key) == string(a.Key)
	}
	return slices.ContainsFunc(l.deferred, older) ||
		slices.ContainsFunc(l.pieces, func(p *piece) bool { return slices.ContainsFunc(p.deferred, older) })
}

// publishesTo notes a topic.
func (l *shard) publishesTo(topic string, ids broker.Topics) {
	id, known := ids[topic]
	if !known {
		return
	}
	if _, noted := l.note.Topics[topic]; noted {
		return
	}
	if l.note.Topics == nil {
		l.note.Topics = broker.Topics{}
	}
	l.note.Topics[topic], l.renamed = id, true
}
