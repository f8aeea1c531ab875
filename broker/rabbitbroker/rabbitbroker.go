// Package rabbitbroker speaks to RabbitMQ, 3.10 or later, by AMQP 0-9-1.
//
// A topic is an exchange of type topic, and a partition of a group is a quorum queue with a single active
// consumer, GROUP/TOPIC/0, GROUP/TOPIC/1, …, bound to it by "0.#", "1.#", … A message goes out under
// LANE.TYPE, where FNV-1a of its key says the partition, as a CloudEvent in binary mode (package record). The
// members of a group tell each other that they live, and each registers for its share of the partitions; the
// queue's single active consumer is what makes the owner. How many partitions a topic has says a queue beside
// it.
//
// RabbitMQ cannot rewind: a new group starts where its queues were declared. Positions number what one owner
// of a partition was given, and are other ones for the next.
package rabbitbroker

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"strings"
	"sync"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/skald-go/skald/broker"
	"github.com/skald-go/skald/broker/internal/cloudevents"
	"github.com/skald-go/skald/internal/endpoint"
)

// Options of a Broker. The zero value is fine.
type Options struct {
	// Patience is how long a publish waits for RabbitMQ before it is answered as an outage. What was sent by
	// then may still become durable later. Default 10 s, at least 100 ms.
	Patience time.Duration
	// Session is how long a connection, or a member of a group, may be silent before it counts as dead. A
	// process that ends is noticed at once. Default 6 s, at least 2 s.
	Session time.Duration
	// Heartbeat is how often a member tells the others of its group that it lives. Default 500 ms, at most a
	// third of Session.
	Heartbeat time.Duration
	// Prefetch is how many messages of each partition may be with its owner, unacknowledged: what lies behind
	// one that is stuck, too. It is lowered while messages are large: a member has at most about 32 MiB of
	// them. Default 1,000, at most 65,535.
	Prefetch int
	// Flying is how many messages may wait for their confirmation at once, at most about 16 MiB of them: so
	// many a relay that dies may repeat. Default 256.
	Flying int
	// CheckOnly makes Subscribe declare no queues: what is missing is an error. Default: a group's queues are
	// declared when its first member joins.
	CheckOnly bool
	// ByType makes the topics those of a team that has settled its topology: a topic is an exchange of type
	// topic that exists, the routing key is the type, and a group is one queue of its name that all members
	// share without order. Default: partitions.
	ByType bool
	// Bind are the patterns by which the queue of a group is bound to its topics ("orders.*.created"), only
	// with ByType. Default: "#", all.
	Bind []string
	// DropUnrouted lets RabbitMQ drop a message that no queue is bound for, as a team's topology may mean it.
	// Default: such a message is refused, so that a relay keeps it until there is one.
	DropUnrouted bool
	// Queue is an existing queue that all members of all groups share without order, whatever the topics;
	// nothing is declared or bound. Default: none.
	Queue string
	// Envelope maps attributes to what others write and read; AMQP's own fields stand beside it, and fill
	// what it leaves open. There is no "position" that stays. Default: CloudEvents.
	Envelope *broker.Envelope
	// VHost is the virtual host. Default "/".
	VHost string
	// TLS, if not nil, is how connections are secured. Default: they are not.
	TLS *tls.Config
	// User and Password say who this is, at each connection. Default: guest, whom RabbitMQ knows on its own
	// machine only.
	User     string
	Password func() (string, error)
	// External lets the client's certificate say who this is (SASL EXTERNAL), instead of User. Default: no.
	External bool
	// Dial makes the connections. Default: a TCP dialer that gives up after Patience.
	Dial func(network, address string) (net.Conn, error)
}

func (o *Options) orDefaults() Options {
	var out Options
	if o != nil {
		out = *o
	}
	out.Patience = max(or(out.Patience, 10*time.Second), 100*time.Millisecond)
	out.Session = max(or(out.Session, 6*time.Second), 2*time.Second)
	out.Heartbeat = min(or(out.Heartbeat, 500*time.Millisecond), out.Session/3)
	out.Prefetch = min(or(out.Prefetch, 1000), 65535)
	out.Flying = or(out.Flying, 256)
	if out.VHost == "" {
		out.VHost = "/"
	}
	if len(out.Bind) == 0 {
		out.Bind = []string{"#"}
	}
	return out
}

func or[T int | time.Duration](v, otherwise T) T {
	if v <= 0 {
		return otherwise
	}
	return v
}

// Broker is a client of RabbitMQ: one connection that publishes, and one for each subscription.
type Broker struct {
	opts  Options
	hosts []string
	codec *cloudevents.Codec

	publisher

	mu     sync.Mutex // of what follows; never held together with the publisher's
	subs   map[*Subscription]bool
	asks   *amqp.Connection // kept for the next question; nil: none
	closed bool
}

var _ broker.Broker = (*Broker)(nil)

// New makes a client of the servers "host:port[,host:port]". If none can be reached it goes on trying.
func New(servers string, opts *Options) (*Broker, error) {
	if err := endpoint.CheckHosts(servers); err != nil {
		return nil, fmt.Errorf("RabbitMQ servers: %w", err)
	}
	b := &Broker{opts: opts.orDefaults(), hosts: strings.Split(servers, ","), subs: map[*Subscription]bool{}}
	var err error
	if b.codec, err = codec(b.opts.Envelope); err != nil {
		return nil, fmt.Errorf("make RabbitMQ client: %w", err)
	}
	if b.opts.Queue != "" && b.opts.ByType {
		return nil, errors.New("make RabbitMQ client: Queue and ByType exclude each other")
	}
	b.publisher.start(b)
	return b, nil
}

// Close leaves all groups, answers what is under way with an outage and closes the connections.
func (b *Broker) Close() error {
	b.mu.Lock()
	subs := b.subs
	b.subs, b.closed = nil, true
	b.mu.Unlock()
	b.forget(nil)
	var wg sync.WaitGroup
	for s := range subs {
		wg.Go(func() {
			ctx, cancel := context.WithTimeout(context.Background(), min(b.opts.Session, 5*time.Second))
			defer cancel()
			_ = s.end(ctx)
		})
	}
	wg.Wait()
	b.publisher.stop()
	return nil
}

// connect makes a connection, to the first of the servers that takes one. cut ends it as sudden death would,
// whatever waits for it. Its reads pass g, if that is not nil.
func (b *Broker) connect(name string, g *gate) (conn *amqp.Connection, cut func(), err error) {
	var last error
	for _, host := range b.hosts {
		config, err := b.config(name)
		if err != nil {
			return nil, nil, fmt.Errorf("connect to RabbitMQ at %s: %w", host, err)
		}
		var raw net.Conn
		dial := config.Dial
		config.Dial = func(network, address string) (c net.Conn, err error) {
			if raw, err = dial(network, address); err == nil {
				// the client clears it once it is connected
				err = raw.SetDeadline(time.Now().Add(b.opts.Patience))
			}
			if err == nil && g != nil {
				return gated{raw, g}, nil
			}
			return raw, err
		}
		scheme := "amqp"
		if config.TLSClientConfig != nil {
			scheme = "amqps"
		}
		conn, err := amqp.DialConfig(scheme+"://"+host+"/", config)
		if err == nil {
			return conn, func() { _ = raw.Close() }, nil
		}
		last = fmt.Errorf("connect to RabbitMQ at %s: %w", host, orAway(err))
	}
	return nil, nil, last
}

func (b *Broker) config(name string) (amqp.Config, error) {
	c := amqp.Config{
		Vhost: b.opts.VHost, Heartbeat: max(b.opts.Session/2, time.Second), Dial: b.opts.Dial,
		Properties: amqp.Table{"connection_name": "skald " + name, "product": "skald"},
	}
	if c.Dial == nil {
		c.Dial = amqp.DefaultDial(b.opts.Patience)
	}
	if b.opts.TLS != nil {
		c.TLSClientConfig = b.opts.TLS.Clone()
	}
	switch {
	case b.opts.External:
		c.SASL = []amqp.Authentication{&amqp.ExternalAuth{}}
	case b.opts.User == "":
		c.SASL = []amqp.Authentication{&amqp.PlainAuth{Username: "guest", Password: "guest"}}
	default:
		password := ""
		if b.opts.Password != nil {
			var err error
			if password, err = b.opts.Password(); err != nil {
				return c, err
			}
		}
		c.SASL = []amqp.Authentication{&amqp.PlainAuth{Username: b.opts.User, Password: password}}
	}
	return c, nil
}

// silence is how long RabbitMQ may take for an answer. While it starts, it may not answer at all.
const silence = 20 * time.Second

// ask does what has no context of its own on a channel that is made for it; the connection's end ends it.
func ask(ctx context.Context, conn *amqp.Connection, do func(*amqp.Channel) error) error {
	ctx, cancel := context.WithTimeout(ctx, silence)
	defer cancel()
	done := make(chan error, 1)
	go func() {
		ch, err := conn.Channel()
		if err == nil {
			err = do(ch)
			_ = ch.Close()
		}
		done <- err
	}()
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
		return fmt.Errorf("no answer: %w", ctx.Err())
	}
}

func code(err error) int {
	var e *amqp.Error
	if errors.As(err, &e) {
		return e.Code
	}
	return 0
}

// notFound says whether something is not there. That RabbitMQ says the same of a queue which is there, but
// not ready after a start, counts as an outage.
func notFound(err error) bool {
	return code(err) == amqp.NotFound && !strings.Contains(err.Error(), "down or inaccessible")
}

// orAway marks an error that says that RabbitMQ cannot be reached or is not ready yet. What it refuses (a
// right, a password, a queue of other settings) is none: waiting does not cure it.
func orAway(err error) error {
	switch {
	case err == nil, errors.Is(err, context.Canceled), errors.Is(err, broker.ErrAway),
		errors.Is(err, broker.ErrClosed), errors.Is(err, broker.ErrNoTopic):
		return err
	case errors.Is(err, ErrSettings), errors.Is(err, errName), errors.Is(err, errMissing):
		return err
	}
	switch code(err) {
	case amqp.AccessRefused, amqp.PreconditionFailed, amqp.NotAllowed:
		return err
	}
	if notFound(err) {
		return err
	}
	return fmt.Errorf("%w: %w", broker.ErrAway, err)
}

func secured() *tls.Config { return &tls.Config{MinVersion: tls.VersionTLS12} }
