package rabbitbroker_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/skald-go/skald/broker"
	"github.com/skald-go/skald/broker/brokertest"
	"github.com/skald-go/skald/broker/rabbitbroker"
	"github.com/skald-go/skald/internal/need"
)

// TestBroker runs the suite on a real RabbitMQ.
func TestBroker(t *testing.T) {
	at := need.RabbitMQ(t)
	sizes := &sizeLimit{}
	brokertest.Run(t, func(t *testing.T) brokertest.Harness {
		line := &flaky{conns: map[net.Conn]bool{}}
		ch := raw(t, at)
		made := &made{t: t, groups: map[string]bool{}}
		t.Cleanup(func() { made.sweep(at) })
		return brokertest.Harness{
			Open: func(t *testing.T) brokertest.Broker {
				return tidied{open(t, at, &rabbitbroker.Options{Dial: line.Dial, Prefetch: 5000}), made}
			},
			Lasting: func(t *testing.T) brokertest.Broker {
				return tidied{open(t, at, &rabbitbroker.Options{Dial: line.Dial, Prefetch: 5000,
					Session: 20 * time.Minute, Patience: 20 * time.Minute}), made}
			},
			Limit: func(t *testing.T, topic string, bytes int) { sizes.set(t, line, bytes) },
			Frugal: func(t *testing.T) brokertest.Broker {
				return tidied{open(t, at, &rabbitbroker.Options{Dial: line.Dial, Prefetch: brokertest.Holds}),
					made}
			},
			Unacknowledged: func(s broker.Subscription) int { return s.(*rabbitbroker.Subscription).Held() },
			Fill: func(t *testing.T, topic string) func() {
				ctl := need.RabbitMQCtl(t)
				ctl("set_policy", topic, "/"+regexp.QuoteMeta(topic)+"/", `{"max-length":10}`,
					"--apply-to", "queues")
				t.Cleanup(func() { ctl("clear_policy", topic) })
				// to be read makes room; on 3.10 a queue that is unbounded while it is full refuses for ever
				return func() {}
			},
			Via: func(t *testing.T,
				dial func(context.Context, string, string) (net.Conn, error)) brokertest.Broker {
				b, err := rabbitbroker.New(hosts(at), &rabbitbroker.Options{Session: 2 * time.Second,
					Patience: 2 * time.Second, Dial: func(network, address string) (net.Conn, error) {
						return dial(context.Background(), network, address)
					}})
				if err != nil {
					t.Fatal(err)
				}
				return tidied{b, made}
			},
			Disturb: line.disturb,
			Foreign: func(t *testing.T, topic string, r brokertest.Record) {
				p := amqp.Publishing{Headers: amqp.Table{}, Body: r.Data}
				for _, h := range r.Headers {
					p.Headers[h.Name] = string(h.Value)
				}
				if r.Key != nil {
					p.Headers["Skald-Key"] = string(r.Key)
				}
				if r.Data == nil {
					p.Headers["Skald-Nil"] = "1"
				}
				confirm(t, ch, topic, "0.", p)
			},
			Mapped: func(t *testing.T, e *broker.Envelope) brokertest.Broker {
				return tidied{open(t, at, &rabbitbroker.Options{Dial: line.Dial, Prefetch: 5000,
					Envelope: e}), made}
			},
			Prefix:       "cloudEvents_",
			ByName:       true,
			LastHeader:   true,
			Forward:      true,
			Counts:       true,
			Capabilities: rabbitbroker.Capabilities,
			Kill:         func(_ *testing.T, s broker.Subscription) { s.(*rabbitbroker.Subscription).Kill() },
		}
	})
}

// hosts returns the servers of a URL, in the form of New.
func hosts(at string) string { return strings.TrimPrefix(at, "amqp://") }

func open(t *testing.T, at string, opts *rabbitbroker.Options) *rabbitbroker.Broker {
	t.Helper()
	b, err := rabbitbroker.New(hosts(at), opts)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { b.Close() })
	if err := b.MakeTopics(t.Context(), 1); err != nil { // what all topics share
		t.Fatal(err)
	}
	return b
}

// raw returns a channel in confirm mode, without the driver.
func raw(t *testing.T, at string) *amqp.Channel {
	t.Helper()
	conn, err := amqp.Dial(at)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	ch, err := conn.Channel()
	if err == nil {
		err = ch.Confirm(false)
	}
	if err != nil {
		t.Fatal(err)
	}
	return ch
}

func confirm(t *testing.T, ch *amqp.Channel, exchange, key string, p amqp.Publishing) {
	t.Helper()
	p.DeliveryMode = amqp.Persistent
	sent, err := ch.PublishWithDeferredConfirmWithContext(t.Context(), exchange, key, true, false, p)
	if err != nil {
		t.Fatal(err)
	}
	if ok, err := sent.WaitContext(t.Context()); err != nil || !ok {
		t.Fatalf("not confirmed: %v", err)
	}
}

// sizeLimit sets the largest message that RabbitMQ accepts. The setting applies to the whole server, so tests
// that run at the same time share it. The last of them removes it.
type sizeLimit struct {
	mu    sync.Mutex
	users int
}

// set limits the size until t ends. An open channel keeps its old limit, so set cuts the connections.
func (l *sizeLimit) set(t *testing.T, line *flaky, bytes int) {
	ctl := need.RabbitMQCtl(t)
	l.mu.Lock()
	defer l.mu.Unlock()
	l.users++
	ctl("eval", fmt.Sprintf("application:set_env(rabbit, max_message_size, %d).", bytes))
	t.Cleanup(func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		if l.users--; l.users == 0 {
			ctl("eval", "application:set_env(rabbit, max_message_size, 134217728).")
		}
	})
	line.cut()
}

// made has the topics and groups that a test has created, to remove them after the test.
type made struct {
	t      *testing.T
	mu     sync.Mutex
	topics []string
	groups map[string]bool
}

// tidied is a broker that records the topics and groups that are created.
type tidied struct {
	*rabbitbroker.Broker
	made *made
}

func (b tidied) MakeTopics(ctx context.Context, partitions int, topics ...string) error {
	b.made.mu.Lock()
	defer b.made.mu.Unlock()
	b.made.topics = append(b.made.topics, topics...)
	return b.Broker.MakeTopics(ctx, partitions, topics...)
}

func (b tidied) Subscribe(ctx context.Context, g broker.Group) (broker.Subscription, error) {
	b.made.mu.Lock()
	defer b.made.mu.Unlock()
	b.made.groups[g.Name] = true
	return b.Broker.Subscribe(ctx, g)
}

func (m *made) sweep(at string) {
	b, err := rabbitbroker.New(hosts(at), nil)
	if err != nil {
		m.t.Fatal(err)
	}
	defer b.Close()
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
	defer cancel()
	for group := range m.groups {
		if group != "" {
			err = errors.Join(err, b.RemoveGroup(ctx, group, m.topics...))
		}
	}
	there, no := b.Topics(ctx, m.topics...)
	if err = errors.Join(err, no); err == nil {
		err = b.RemoveTopics(ctx, there)
	}
	if err != nil {
		m.t.Errorf("what the test made is not taken away: %v", err)
	}
}

// flaky cuts connections at any time, also in the middle of a frame.
type flaky struct {
	mu    sync.Mutex
	conns map[net.Conn]bool
}

func (f *flaky) Dial(network, address string) (net.Conn, error) {
	c, err := amqp.DefaultDial(10*time.Second)(network, address)
	if err == nil {
		f.mu.Lock()
		defer f.mu.Unlock()
		f.conns[c] = true
	}
	return c, err
}

func (f *flaky) disturb(t *testing.T) (stop func()) {
	ctx, cancel := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	wg.Go(func() {
		for ctx.Err() == nil {
			f.cut()
			<-time.After(100 * time.Millisecond)
		}
	})
	return func() { cancel(); wg.Wait() }
}

func (f *flaky) cut() {
	f.mu.Lock()
	defer f.mu.Unlock()
	for c := range f.conns {
		_ = c.Close()
	}
	clear(f.conns)
}

// until waits until done returns true.
func until(t *testing.T, what string, done func() bool) {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); !done(); <-time.After(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("%s did not come", what)
		}
	}
}

// hole is a network. After open is called, its connections accept all bytes and deliver none.
type hole struct {
	mu    sync.Mutex
	conns []*holed
}

func (h *hole) Dial(network, address string) (net.Conn, error) {
	c, err := amqp.DefaultDial(10*time.Second)(network, address)
	if err != nil {
		return nil, err
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	one := &holed{Conn: c, deaf: make(chan struct{})}
	h.conns = append(h.conns, one)
	return one, nil
}

func (h *hole) open() {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, c := range h.conns {
		close(c.deaf)
	}
}

type holed struct {
	net.Conn
	deaf chan struct{}
}

func (c *holed) Write(p []byte) (int, error) {
	select {
	case <-c.deaf:
		return len(p), nil
	default:
		return c.Conn.Write(p)
	}
}
