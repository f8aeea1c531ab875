// Package natsbroker speaks to NATS JetStream; tested with server 2.15.
//
// A topic is a stream, "orders.eu" is the stream orders=eu, and a partition is a subject of it: orders=eu.0,
// orders=eu.1, … A message goes to the partition that FNV-1a of its key says, as CloudEvents in binary mode
// (package record). A position is the stream's sequence. Who owns which partition of a group, and how far it
// has come, lies in the key-value bucket "skald", one row per partition that is changed only at the revision
// that was read: that is the fence. JetStream's own consumers only read, without acknowledgements, so none of
// their settings can drop a message or bring it out of order. Deliveries are not counted: Attempt is always
// 0.
package natsbroker

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/skald-go/skald/broker"
	"github.com/skald-go/skald/internal/backoff"
)

// Options of a Broker. The zero value is fine.
type Options struct {
	// Patience is how long a publish waits for NATS before it is answered as an outage. What was sent by then
	// may still become durable later. Default 10 s, at least 100 ms.
	Patience time.Duration
	// Session is how long a member of a group may be silent before its partitions go to others. Default 6 s,
	// at least 1 s.
	Session time.Duration
	// Heartbeat is how often a member says that it lives. Default 500 ms, at most a third of Session.
	Heartbeat time.Duration
	// Commit is how long an acknowledgement may wait to be stored with others. Default 100 ms.
	Commit time.Duration
	// Prefetch is how many messages are held ready for each partition, at most 4 MiB of them and 32 MiB of
	// all partitions. Of a durable it is how many are unacknowledged: at most 16 MiB and one fetch. Default
	// 200.
	Prefetch int
	// Flying is how many messages may wait for their answer at once, at most about 16 MiB of them: so many a
	// relay that dies may repeat. Default 256.
	Flying int
	// Replicas is how many servers hold the streams that MakeTopics makes. Default 1, at most 5.
	Replicas int
	// Retain is how long streams that MakeTopics makes keep messages; a stream that drops them sooner is
	// refused. Default 0: for ever.
	Retain time.Duration
	// Shapes are the topics that are streams of others, by the topic's name. Default: none.
	Shapes map[string]Shape
	// Envelope maps attributes to what others write and read; "position" is topic/sequence. Default:
	// CloudEvents.
	Envelope *broker.Envelope
	// Client are further options of the nats.go connection: TLS, credentials, a dialer. What the driver sets
	// itself wins.
	Client []nats.Option
}

func (o *Options) orDefaults() Options {
	var out Options
	if o != nil {
		out = *o
	}
	out.Patience = max(or(out.Patience, 10*time.Second), 100*time.Millisecond)
	out.Session = max(or(out.Session, 6*time.Second), time.Second)
	out.Heartbeat = min(or(out.Heartbeat, 500*time.Millisecond), out.Session/3)
	out.Commit = or(out.Commit, 100*time.Millisecond)
	out.Prefetch = or(out.Prefetch, 200)
	out.Flying = or(out.Flying, 256)
	out.Replicas = min(or(out.Replicas, 1), 5)
	return out
}

func or[T int | time.Duration](v, otherwise T) T {
	if v <= 0 {
		return otherwise
	}
	return v
}

// Broker is one connection to NATS.
type Broker struct {
	opts Options
	publisher

	mu     sync.Mutex // of what follows; never held together with the publisher's
	subs   map[member]bool
	closed bool
}

// A member is one of either kind of subscription.
type member interface {
	lookAgain()
	end(ctx context.Context) error
}

var _ broker.Broker = (*Broker)(nil)

// New makes a client of the servers "host:port[,host:port]". If none can be reached it goes on trying.
func New(servers string, opts *Options) (*Broker, error) {
	if err := checkServers(servers); err != nil {
		return nil, err
	}
	b := &Broker{opts: opts.orDefaults(), subs: map[member]bool{}}
	codec, err := codec(b.opts.Envelope)
	if err != nil {
		return nil, fmt.Errorf("make NATS client: %w", err)
	}
	w := &wire{codec: codec, retain: b.opts.Retain, shapes: b.opts.Shapes, heard: make(chan struct{}, 1)}
	b.publisher.init(b.opts, w)
	nc, err := nats.Connect("nats://"+strings.ReplaceAll(servers, ",", ",nats://"), b.client()...)
	if err != nil {
		return nil, fmt.Errorf("make NATS client: %w", b.orAway(err))
	}
	w.nc = nc
	if w.js, err = jetstream.New(nc); err == nil {
		err = b.publisher.start()
	}
	if err != nil {
		nc.Close()
		return nil, fmt.Errorf("make NATS client: %w", b.orAway(err))
	}
	if !nc.IsConnected() {
		select { // nats.go tells why in a goroutine of its own, which is under way
		case <-w.heard:
		case <-time.After(time.Second):
		}
	}
	return b, nil
}

// client are the options of the connection. What is published while it is down is not kept for later by
// nats.go: the publisher does that, which knows what must not overtake what.
func (b *Broker) client() []nats.Option {
	return append(append([]nats.Option{nats.Name("skald")}, b.opts.Client...),
		nats.RetryOnFailedConnect(true),
		nats.MaxReconnects(-1),
		nats.IgnoreAuthErrorAbort(), // a secret that is renewed is taken up
		nats.ReconnectBufSize(-1),
		nats.CustomReconnectDelay(backoff.Soon),
		nats.PingInterval(5*time.Second),
		nats.ConnectHandler(func(*nats.Conn) { b.hear(nil); b.publisher.connected() }),
		nats.ReconnectHandler(func(*nats.Conn) { b.hear(nil); b.publisher.connected(); b.reconnected() }),
		nats.ReconnectErrHandler(func(_ *nats.Conn, err error) { b.hear(err) }),
		nats.DisconnectErrHandler(func(*nats.Conn, error) { b.publisher.disconnected() }),
		nats.ErrorHandler(func(_ *nats.Conn, _ *nats.Subscription, err error) { b.forbid(err) }),
	)
}

func (b *Broker) reconnected() {
	b.mu.Lock()
	defer b.mu.Unlock()
	for s := range b.subs {
		s.lookAgain()
	}
}

// Close leaves all groups, answers what is under way with an outage and closes the connection.
func (b *Broker) Close() error {
	b.mu.Lock()
	subs := b.subs
	b.subs, b.closed = nil, true
	b.mu.Unlock()
	var wg sync.WaitGroup
	for s := range subs {
		wg.Go(func() {
			ctx, cancel := context.WithTimeout(context.Background(), min(b.opts.Session, 5*time.Second))
			defer cancel()
			_ = s.end(ctx)
		})
	}
	wg.Wait()
	b.publisher.Stop(func() {})
	b.nc.Close()
	return nil
}
