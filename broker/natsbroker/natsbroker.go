// Package natsbroker is the driver for NATS JetStream. It is tested with server 2.15.
//
// A topic is a stream: topic "orders.eu" is the stream orders=eu. A partition is a subject of the stream:
// orders=eu.0, orders=eu.1, … The FNV-1a hash of a message's key selects its partition. A message is a
// CloudEvent in binary mode (record.go). A position is a sequence number of the stream.
//
// The key-value bucket "skald" has a row for each partition of a group, with its owner and position. A member
// changes a row only at the revision that it has read. This prevents writes by a member that lost the
// partition.
//
// JetStream's consumers only read, without acknowledgements, so their settings cannot drop or reorder
// messages. NATS does not count deliveries in this mode, so Attempt is always 0. With Shape.Durable the
// driver uses existing consumers instead (durable.go).
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
	// Patience limits the wait for NATS's answers in Publish. After it, the call reports an outage. Messages
	// that were sent may still become durable. Default 10 s, at least 100 ms.
	Patience time.Duration
	// Session is the time after which other members take the partitions of a silent member. Default 6 s, at
	// least 1 s.
	Session time.Duration
	// Heartbeat is the interval at which a member renews its entry in the bucket. Default 500 ms, at most a
	// third of Session.
	Heartbeat time.Duration
	// Commit is the time that an acknowledgement waits for others, to be stored with them. Default 100 ms.
	Commit time.Duration
	// Prefetch is the maximum number of messages of a partition that wait for Receive. They also have at most
	// 4 MiB for a partition, and 32 MiB for all partitions. With Shape.Durable it is the maximum number of
	// unacknowledged messages. They also have at most 16 MiB, plus one fetch. Default 200.
	Prefetch int
	// Flying is the maximum number of published messages without an answer; they also have at most about 16
	// MiB. If a relay dies, the next one may publish them again. Default 256.
	Flying int
	// Replicas is the number of servers that store a copy of a new stream. Default 1, at most 5.
	Replicas int
	// Retain is the max_age of new streams. The driver refuses existing streams with a shorter max_age.
	// Default 0, which means forever.
	Retain time.Duration
	// Shapes describes topics that are existing streams, by the name of the topic. Default: none.
	Shapes map[string]Shape
	// Envelope maps attributes to the format of other programs. As an ID, "position" is topic/sequence.
	// Default: CloudEvents.
	Envelope *broker.Envelope
	// Client has further options of the nats.go connection, such as TLS, credentials and a dialer. Settings
	// of the driver take precedence.
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

// Broker is a connection to NATS.
type Broker struct {
	opts Options
	publisher

	mu     sync.Mutex // guards the fields below; never held together with the publisher's lock
	subs   map[member]bool
	closed bool
}

// member is a Subscription or a durable.
type member interface {
	lookAgain()
	end(ctx context.Context) error
}

var _ broker.Broker = (*Broker)(nil)

// New returns a Broker for the servers "host:port[,host:port]". ParseURL returns this list and the options
// for a URL. If no server is reachable, New returns after about a second, and the driver retries in the
// background.
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
		select { // wait for the reason, which nats.go reports in another goroutine
		case <-w.heard:
		case <-time.After(time.Second):
		}
	}
	return b, nil
}

// client returns the options of the connection. They forbid nats.go to buffer messages while the connection
// is down, because the publisher must keep the order.
func (b *Broker) client() []nats.Option {
	return append(append([]nats.Option{nats.Name("skald")}, b.opts.Client...),
		nats.RetryOnFailedConnect(true),
		nats.MaxReconnects(-1),
		nats.IgnoreAuthErrorAbort(), // retries, because the secret may be renewed
		nats.ReconnectBufSize(-1),
		nats.CustomReconnectDelay(backoff.Soon),
		nats.PingInterval(5*time.Second),
		nats.ConnectHandler(func(*nats.Conn) { b.noteConnect(nil); b.publisher.connected() }),
		nats.ReconnectHandler(func(*nats.Conn) {
			b.noteConnect(nil)
			b.publisher.connected()
			b.reconnected()
		}),
		nats.ReconnectErrHandler(func(_ *nats.Conn, err error) { b.noteConnect(err) }),
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

// Close leaves all groups, answers unfinished calls with an outage, and closes the connection.
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
