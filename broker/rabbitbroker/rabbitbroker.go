// Package rabbitbroker is the driver for RabbitMQ 3.10 or later, by AMQP 0-9-1.
//
// A topic is an exchange of type topic. A partition of a group is a quorum queue with a single active
// consumer: GROUP/TOPIC/0, GROUP/TOPIC/1, …, bound by "0.#", "1.#", … A message is published with the key
// PARTITION.TYPE, as a CloudEvent in binary mode (record.go). FNV-1a of its key selects the partition. The
// members of a group send each other hellos, and each consumes its share of the partitions. The single
// active consumer of the queue is the owner. A separate queue stores the number of partitions of a topic.
//
// RabbitMQ cannot rewind, so a new group starts when its queues are declared. A position numbers the
// deliveries to one owner of a partition, and the next owner has other positions.
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

// Options configures a Broker. The zero value works.
type Options struct {
	// Patience limits the wait for RabbitMQ in a publish; then the call reports an outage. Messages that
	// were sent by then may still become durable. Default 10 s, at least 100 ms.
	Patience time.Duration
	// Session is how long a connection or a member may be silent before it counts as dead. The end of a
	// process is noticed immediately. Default 6 s, at least 2 s.
	Session time.Duration
	// Heartbeat is the interval of a member's hellos to its group. Default 500 ms, at most a third of
	// Session.
	Heartbeat time.Duration
	// Prefetch is the maximum number of unacknowledged messages of each partition at its owner, including
	// those behind a stuck one. It is lowered while messages are large, so that a member has at most about
	// 32 MiB. Default 1,000, at most 65,535.
	Prefetch int
	// Flying is the maximum number of unconfirmed messages, at most about 16 MiB. A relay that dies may
	// repeat them. Default 256.
	Flying int
	// CheckOnly makes Subscribe declare no queues; a missing queue is an error. Default: the first member
	// of a group declares its queues.
	CheckOnly bool
	// ByType uses an existing topology: a topic is an existing exchange of type topic, and the routing key
	// is the type. A group is one queue with its name, which all members share without order. Default:
	// partitions.
	ByType bool
	// Bind has the patterns that bind the queue of a group to its topics ("orders.*.created"), only with
	// ByType. Default: "#", all.
	Bind []string
	// DropUnrouted lets RabbitMQ drop a message without a bound queue. Default: such a message is refused,
	// so that the relay retries it until a queue is bound.
	DropUnrouted bool
	// Queue is an existing queue that all members of all groups share without order, for all topics.
	// Nothing is declared or bound. Default: none.
	Queue string
	// Envelope maps attributes to the format of other programs. AMQP's own fields are also written, and
	// fill attributes without a place. A stable "position" is not available. Default: CloudEvents.
	Envelope *broker.Envelope
	// VHost is the virtual host. Default "/".
	VHost string
	// TLS, if not nil, configures TLS. Default: no TLS.
	TLS *tls.Config
	// User and Password authenticate each connection. Default: guest, which RabbitMQ accepts only from its
	// own machine.
	User     string
	Password func() (string, error)
	// External authenticates with the client's certificate (SASL EXTERNAL), instead of User. Default: no.
	External bool
	// Dial opens connections. Default: a TCP dialer with the timeout Patience.
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

// Broker is a client of RabbitMQ. It has one connection that publishes, and one for each subscription.
type Broker struct {
	opts  Options
	hosts []string
	codec *cloudevents.Codec

	publisher

	mu     sync.Mutex // guards the fields below; never held together with the publisher's lock
	subs   map[*Subscription]bool
	asks   *amqp.Connection // kept for the next request; nil if there is none
	closed bool
}

var _ broker.Broker = (*Broker)(nil)

// New returns a client of the servers "host:port[,host:port]"; ParseURL reads them from a URL. If no server
// can be reached, it retries.
func New(servers string, opts *Options) (*Broker, error) {
	if err := endpoint.CheckHosts(servers); err != nil {
		return nil, fmt.Errorf("RabbitMQ servers: %w", err)
	}
	b := &Broker{opts: opts.orDefaults(), hosts: strings.Split(servers, ","), subs: map[*Subscription]bool{}}
	var err error
	if b.codec, err = codec(b.opts.Envelope); err != nil {
		return nil, fmt.Errorf("create RabbitMQ client: %w", err)
	}
	if b.opts.Queue != "" && b.opts.ByType {
		return nil, errors.New("create RabbitMQ client: Queue and ByType exclude each other")
	}
	b.publisher.start(b)
	return b, nil
}

// Close leaves all groups, answers pending calls with an outage, and closes the connections.
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

// connect connects to the first server that accepts. cut closes the socket immediately. Reads pass g,
// unless it is nil.
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
				// the client clears the deadline after the handshake
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
		last = fmt.Errorf("connect to RabbitMQ at %s: %w", host, orUnavailable(err))
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

// silence is how long RabbitMQ may take for an answer. During its start it may not answer at all.
const silence = 20 * time.Second

// ask calls f with a new channel. f has no context; the end of the connection ends it.
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

// notFound returns true if an object does not exist. RabbitMQ reports the same for a queue that is not
// ready after a start, which counts as an outage.
func notFound(err error) bool {
	return code(err) == amqp.NotFound && !strings.Contains(err.Error(), "down or inaccessible")
}

// orUnavailable wraps an error in broker.ErrUnavailable if RabbitMQ cannot be reached or is not ready. A
// refusal (a right, a password, other settings of a queue) is no outage, because waiting does not cure it.
func orUnavailable(err error) error {
	switch {
	case err == nil, errors.Is(err, context.Canceled), errors.Is(err, broker.ErrUnavailable),
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
	return fmt.Errorf("%w: %w", broker.ErrUnavailable, err)
}

func secured() *tls.Config { return &tls.Config{MinVersion: tls.VersionTLS12} }
