// Package rabbitbroker is the driver for RabbitMQ 3.10 or later. It uses AMQP 0-9-1.
//
// A topic is an exchange of type topic. A partition of a group is a quorum queue with a single active
// consumer. The queues are named GROUP/TOPIC/0, GROUP/TOPIC/1, …, and are bound by "0.#", "1.#", … A separate
// queue stores the number of partitions of a topic.
//
// A message is a CloudEvent in binary mode (record.go), with the routing key PARTITION.TYPE. The FNV-1a hash
// of its key selects the partition. The members of a group send each other hellos, and each member consumes
// its share of the partitions. The active consumer of a queue owns the partition.
//
// RabbitMQ cannot rewind, so a group receives messages from the declaration of its queues on. A position is a
// number of a delivery to one owner of a partition. The next owner has other positions.
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
	// Patience limits the wait for RabbitMQ's confirmations in Publish. After it, the call reports an outage.
	// Messages that were sent may still become durable. Default 10 s, at least 100 ms.
	Patience time.Duration
	// Session is the time after which a silent connection or member counts as dead. If a process ends, its
	// connection ends, and the others react immediately. Default 6 s, at least 2 s.
	Session time.Duration
	// Heartbeat is the interval of a member's hellos to its group. Default 500 ms, at most a third of
	// Session.
	Heartbeat time.Duration
	// Prefetch is the maximum number of unacknowledged messages of each partition. It includes messages that
	// wait for an earlier one. The driver lowers it while messages are large, so that a member has at most
	// about 32 MiB. Default 1,000, at most 65,535.
	Prefetch int
	// Flying is the maximum number of unconfirmed messages; they also have at most about 16 MiB. If a relay
	// dies, the next one may publish them again. Default 256.
	Flying int
	// CheckOnly makes Subscribe return an error for a missing queue. Default: the first member of a group
	// declares its queues.
	CheckOnly bool
	// ByType uses an existing topology. A topic is an existing exchange of type topic, and the routing key is
	// the type of the message. A group is one queue with the name of the group. Its members share the queue,
	// without order. Default: each topic has partitions.
	ByType bool
	// Bind has the patterns that bind the queue of a group to its topics, such as "orders.*.created". It
	// needs ByType. Default: "#", which matches all messages.
	Bind []string
	// DropUnrouted makes RabbitMQ drop a message if no queue is bound for it. Default: the driver refuses the
	// message, and the relay retries it.
	DropUnrouted bool
	// Queue is an existing queue for all topics and groups. All members share it, without order. The driver
	// declares and binds nothing. Default: none.
	Queue string
	// Envelope maps attributes to the format of other programs. The driver also writes AMQP's own fields, and
	// reads attributes without a place from them. The ID cannot be "position". Default: CloudEvents.
	Envelope *broker.Envelope
	// VHost is the virtual host. Default "/".
	VHost string
	// TLS configures TLS. Nil means no TLS.
	TLS *tls.Config
	// User and Password authenticate each connection. Default: guest, which RabbitMQ accepts only from the
	// same machine.
	User     string
	Password func() (string, error)
	// External authenticates with the client certificate (SASL EXTERNAL), instead of User. Default: false.
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

// Broker is a connection to RabbitMQ. It has one connection that publishes, and one or two for each
// subscription.
type Broker struct {
	opts  Options
	hosts []string
	codec *cloudevents.Codec

	publisher

	mu     sync.Mutex // guards the fields below; never held together with the publisher's lock
	subs   map[*Subscription]bool
	asks   *amqp.Connection // the connection for requests, or nil
	closed bool
}

var _ broker.Broker = (*Broker)(nil)

// New returns a Broker for the servers "host:port[,host:port]". ParseURL returns this list and the options
// for a URL. New does not wait for a connection; if no server is reachable, the driver retries.
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

// connect opens a connection to the first server that accepts one. cut closes its socket immediately. If g is
// not nil, reads go through g.
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

// silence is the maximum time that RabbitMQ may take for an answer. While it starts, it may not answer at
// all.
const silence = 20 * time.Second

// ask calls the function do with a new channel. When ctx ends, or after silence, ask returns an error. The
// function may then continue until the connection ends.
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

// notFound returns true if an object does not exist. RabbitMQ uses the same code for a queue that is not
// ready after a start; this counts as an outage.
func notFound(err error) bool {
	return code(err) == amqp.NotFound && !strings.Contains(err.Error(), "down or inaccessible")
}

// orUnavailable wraps err in broker.ErrUnavailable if RabbitMQ is unreachable or not ready. It returns
// refusals unchanged, because a retry does not cure them: a missing right, a wrong password, or other
// settings of a queue.
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
