// Package membroker is a broker within the process, for tests and demos. Its messages are lost when the
// process ends. Each broker has a new incarnation.
//
// The package starts no goroutines. Publish completes before it returns, and Receive never waits. So a test
// can run all steps in one goroutine, in any order.
//
// Publish copies the messages, so the caller may reuse its slices. All groups and all redeliveries share the
// received messages. Copy a message before you change it.
package membroker

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/skald-go/skald"
	"github.com/skald-go/skald/broker"
	"github.com/skald-go/skald/broker/internal/feed"
)

// ErrRefused marks errors of Options.Fail. If an error wraps it, the broker refuses the message.
var ErrRefused = errors.New("refused")

// Options configures a Broker. The zero value works.
type Options struct {
	// Partitions is the number of partitions of a new topic if MakeTopics is called with 0. Default 4, at
	// most 1,024.
	Partitions int
	// Retain is the number of acknowledged messages that a partition keeps for groups that join later.
	// Default 10,000; a negative number keeps all. A partition never removes a message that a group has not
	// acknowledged. It removes no messages while there is no group.
	Retain int
	// MaxBytes is the maximum size of the key, headers and data of a message, together. The broker refuses
	// larger messages. Default 1 MiB.
	MaxBytes int
	// Fail makes a message fail for a test. The broker calls it before it stores a message. If Fail returns
	// an error, the message fails, and the broker holds back later messages of its key. If the error wraps
	// ErrRefused, the broker refuses the message. Fail must not call the broker. Default: no message fails.
	Fail func(m *skald.Message) error
}

func (o *Options) orDefaults() Options {
	var out Options
	if o != nil {
		out = *o
	}
	if out.Partitions <= 0 {
		out.Partitions = 4
	}
	out.Partitions = min(out.Partitions, 1024)
	if out.Retain == 0 {
		out.Retain = 10_000
	}
	if out.MaxBytes <= 0 {
		out.MaxBytes = 1 << 20
	}
	return out
}

// Broker is one client of an in-process broker.
type Broker struct {
	c *cluster

	// The fields below are guarded by c.mu.

	held   map[successors][]*pending // the calls that hold back messages
	subs   []*Subscription
	closed bool
}

var _ broker.Broker = (*Broker)(nil)

// String returns the name for logs, which is "memory".
func (*Broker) String() string { return "memory" }

// cluster is the state that all clients of a broker share.
type cluster struct {
	opts        Options
	incarnation string
	answered    chan struct{} // closed, for Pending.Done

	mu     sync.Mutex
	topics map[string]*topic
	made   int // number of topics that were created
	groups map[string]*group
}

// New creates an empty broker with a new incarnation, and returns its first client.
func New(opts *Options) *Broker {
	c := &cluster{
		opts:        opts.orDefaults(),
		incarnation: "mem-" + rand.Text(),
		answered:    make(chan struct{}),
		topics:      map[string]*topic{},
		groups:      map[string]*group{},
	}
	close(c.answered)
	return c.client()
}

// Client returns another client of the same broker, as another process would have. A client holds messages
// back only after its own failures. Close closes only its own subscriptions.
func (b *Broker) Client() *Broker { return b.c.client() }

func (c *cluster) client() *Broker {
	return &Broker{c: c, held: map[successors][]*pending{}}
}

// Incarnation returns the random ID that New gave to the broker.
func (b *Broker) Incarnation(context.Context) (string, error) {
	b.c.mu.Lock()
	defer b.c.mu.Unlock()
	if b.closed {
		return "", broker.ErrClosed
	}
	return b.c.incarnation, nil
}

// MakeTopics creates the topics that do not exist. If partitions is 0, they get Options.Partitions.
func (b *Broker) MakeTopics(_ context.Context, partitions int, topics ...string) error {
	if partitions <= 0 {
		partitions = b.c.opts.Partitions
	}
	b.c.mu.Lock()
	defer b.c.mu.Unlock()
	if b.closed {
		return broker.ErrClosed
	}
	for _, name := range topics {
		if !feed.OK(name) {
			return fmt.Errorf("make topic %q: a name is 1 to 249 of A-Z a-z 0-9 . _ -", name)
		}
		if b.c.topics[name] == nil {
			b.c.make(name, min(partitions, 1024))
		}
	}
	return nil
}

// CheckTopics returns a line for each topic that does not exist.
func (b *Broker) CheckTopics(_ context.Context, topics ...string) (missing []string, err error) {
	b.c.mu.Lock()
	defer b.c.mu.Unlock()
	if b.closed {
		return nil, broker.ErrClosed
	}
	for _, name := range topics {
		if b.c.topics[name] == nil {
			missing = append(missing, fmt.Sprintf("topic %q: %v", name, broker.ErrNoTopic))
		}
	}
	return missing, nil
}

// make adds a topic. Members that read an earlier topic with the same name read it from its beginning.
func (c *cluster) make(name string, partitions int) {
	c.made++
	t := newTopic(name, strconv.Itoa(c.made), partitions)
	c.topics[name] = t
	for _, g := range c.groups {
		g.renew(t)
	}
}

// Find returns, for each partition, the position of the first message that is not older than at.
func (b *Broker) Find(_ context.Context, name string, at time.Time) (out []broker.Place, err error) {
	b.c.mu.Lock()
	defer b.c.mu.Unlock()
	t := b.c.topics[name]
	switch {
	case b.closed:
		return nil, broker.ErrClosed
	case t == nil:
		return nil, fmt.Errorf("find a time in %q: %w", name, broker.ErrNoTopic)
	}
	for _, l := range t.partitions {
		i := slices.IndexFunc(l.log, func(m skald.Message) bool { return !m.Time.Before(at) })
		if i < 0 {
			i = len(l.log)
		}
		origin := b.c.incarnation + "/" + t.id
		out = append(out, broker.Place{Partition: broker.Partition{Name: l.name, Clean: true, Origin: origin},
			Position: l.base + int64(i)})
	}
	return out, nil
}

// RemoveTopics deletes topics with their messages. Members lose the partitions without releasing them, so
// Clean is false.
func (b *Broker) RemoveTopics(_ context.Context, topics ...string) error {
	b.c.mu.Lock()
	defer b.c.mu.Unlock()
	if b.closed {
		return broker.ErrClosed
	}
	for _, name := range topics {
		if t := b.c.topics[name]; t != nil {
			delete(b.c.topics, name)
			for _, g := range b.c.groups {
				g.unfollow(t)
			}
		}
	}
	return nil
}

// Topics returns the ids of topics. A broker never uses an id twice.
func (b *Broker) Topics(_ context.Context, names ...string) (broker.Topics, error) {
	b.c.mu.Lock()
	defer b.c.mu.Unlock()
	if b.closed {
		return nil, broker.ErrClosed
	}
	ids := broker.Topics{}
	for _, name := range names {
		if t := b.c.topics[name]; t != nil {
			ids[name] = t.id
		}
	}
	return ids, nil
}

// Subscribe joins g and assigns partitions immediately. An existing member with the same name loses its
// partitions, with Clean false.
func (b *Broker) Subscribe(_ context.Context, g broker.Group) (broker.Subscription, error) {
	b.c.mu.Lock()
	defer b.c.mu.Unlock()
	switch {
	case b.closed:
		return nil, broker.ErrClosed
	case g.Name == "":
		return nil, errors.New("subscribe: the group has no name")
	case len(g.Topics) == 0:
		return nil, fmt.Errorf("subscribe group %q: no topics", g.Name)
	}
	topics := make([]*topic, len(g.Topics))
	for i, name := range g.Topics {
		if topics[i] = b.c.topics[name]; topics[i] == nil {
			return nil, &broker.TopicError{Topic: name,
				Err: fmt.Errorf("subscribe group %q to %q: %w", g.Name, name, broker.ErrNoTopic)}
		}
	}
	group := b.c.group(g.Name)
	if at := slices.IndexFunc(group.members,
		func(m *Subscription) bool { return !feed.Same(m.owner, g.Owner) }); at >= 0 {
		return nil, fmt.Errorf("subscribe: %w", feed.Check(g.Name, feed.Claim{Owner: g.Owner},
			[]feed.Claim{{Member: group.members[at].name, Owner: group.members[at].owner, Settled: true}}))
	}
	s := group.join(g, topics)
	b.subs = append(slices.DeleteFunc(b.subs,
		func(old *Subscription) bool { return old.feed.EndReason() != nil }), s)
	return s, nil
}

// Close closes the subscriptions of this client. Messages and other clients are not affected.
func (b *Broker) Close() error {
	b.c.mu.Lock()
	defer b.c.mu.Unlock()
	b.closed = true
	for _, s := range b.subs {
		s.leave(true, broker.ErrClosed)
	}
	b.subs = nil
	return nil
}

// Capabilities returns the capabilities of this driver.
func Capabilities() broker.Capabilities {
	return broker.Capabilities{Partition: "a list in memory", Position: "the place in it",
		Incarnation: "drawn at each start",
		LateGroup:   "oldest message", Acks: "all up to it", LargestKiB: 1024, Counts: true, Rewinds: true,
		Checks: true}
}
