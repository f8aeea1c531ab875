// Package natsbroker is the driver for NATS JetStream. It is tested with server 2.15.
//
// A topic is a stream: "orders.eu" is the stream orders=eu. A partition is a subject of it: orders=eu.0,
// orders=eu.1, … FNV-1a of a message's key selects its partition. A message is a CloudEvent in binary mode
// (record.go). A position is the stream's sequence. The key-value bucket "skald" has a row for each
// partition of a group, with its owner and position. A row is only changed at the revision that was read,
// which is the fence. JetStream's own consumers only read, without acknowledgements, so none of their
// settings can drop or reorder a message. Deliveries are not counted, so Attempt is always 0.
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

// Options configures a Broker. The zero value works.
type Options struct {
	// Patience limits the wait for NATS in a publish; then the call reports an outage. Messages that were
	// sent by then may still become durable. Default 10 s, at least 100 ms.
	Patience time.Duration
	// Session is how long a member of a group may be silent before its partitions move. Default 6 s, at
	// least 1 s.
	Session time.Duration
	// Heartbeat is the interval at which a member renews its presence. Default 500 ms, at most a third of
	// Session.
	Heartbeat time.Duration
	// Commit is how long an acknowledgement may wait for others before it is stored. Default 100 ms.
	Commit time.Duration
	// Prefetch is the number of messages that are held ready for each partition, at most 4 MiB, and 32 MiB
	// for all partitions. For a durable it is the number of unacknowledged messages, at most 16 MiB and one
	// fetch. Default 200.
	Prefetch int
	// Flying is the maximum number of messages without an answer, at most about 16 MiB. A relay that dies
	// may repeat them. Default 256.
	Flying int
	// Replicas is the number of servers with a copy of a new stream. Default 1, at most 5.
	Replicas int
	// Retain is the max_age of new streams. A stream with a shorter one is refused. Default 0: forever.
	Retain time.Duration
	// Shapes has the topics that are existing streams, by the topic's name. Default: none.
	Shapes map[string]Shape
	// Envelope maps attributes to the format of other programs; "position" is topic/sequence. Default:
	// CloudEvents.
	Envelope *broker.Envelope
	// Client has further options of the nats.go connection: TLS, credentials, a dialer. Settings of the
	// driver take precedence.
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

	mu     sync.Mutex // guards the fields below; never held together with the publisher's lock
	subs   map[member]bool
	closed bool
}

// member is a subscription of either kind.
type member interface {
	lookAgain()
	end(ctx context.Context) error
}

var _ broker.Broker = (*Broker)(nil)

// New returns a client of the servers "host:port[,host:port]"; ParseURL reads them from a URL. If no server
// can be reached, it retries.
func New(servers string, opts *Options) (*Broker, error) {
	if err := checkServers(servers); err != nil {
		return nil, err
	}
	b := &Broker{opts: opts.orDefaults(), subs: map[member]bool{}}
	codec, err := codec(b.opts.Envelope)
	if err != nil {
		return nil, fmt.Errorf("create NATS client: %w", err)
	}
	w := &wire{codec: codec, retain: b.opts.Retain, shapes: b.opts.Shapes, heard: make(chan struct{}, 1)}
	b.publisher.init(b.opts, w)
	nc, err := nats.Connect("nats://"+strings.ReplaceAll(servers, ",", ",nats://"), b.client()...)
	if err != nil {
		return nil, fmt.Errorf("create NATS client: %w", b.orUnavailable(err))
	}
	w.nc = nc
	if w.js, err = jetstream.New(nc); err == nil {
		err = b.publisher.start()
	}
	if err != nil {
		nc.Close()
		return nil, fmt.Errorf("create NATS client: %w", b.orUnavailable(err))
	}
	if !nc.IsConnected() {
		select { // nats.go reports the reason in another goroutine
		case <-w.heard:
		case <-time.After(time.Second):
		}
	}
	return b, nil
}

// client returns the options of the connection. nats.go does not buffer messages while the connection is
// down, because the publisher keeps the order.
func (b *Broker) client() []nats.Option {
	return append(append([]nats.Option{nats.Name("skald")}, b.opts.Client...),
		nats.RetryOnFailedConnect(true),
		nats.MaxReconnects(-1),
		nats.IgnoreAuthErrorAbort(), // a renewed secret is used
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

// Close leaves all groups, answers pending calls with an outage, and closes the connection.
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
