package natsbroker_test

import (
	"context"
	"encoding/base64"
	"errors"
	"net"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/skald-go/skald/broker"
	"github.com/skald-go/skald/broker/brokertest"
	"github.com/skald-go/skald/broker/natsbroker"
	"github.com/skald-go/skald/internal/need"
)

// TestBroker runs the suite on a NATS in this process, which writes to disk before it answers.
func TestBroker(t *testing.T) {
	if os.Getenv("SKALD_TEST_NATS") != "" {
		t.Skip("there is a real one: TestBrokerOnNATS")
	}
	addr := serve(t, t.TempDir(), 0).Addr().String()
	brokertest.Run(t, func(t *testing.T) brokertest.Harness { return harness(t, addr) })
}

// TestBrokerOnNATS runs it on a real one.
func TestBrokerOnNATS(t *testing.T) {
	addr := strings.TrimPrefix(need.NATS(t), "nats://")
	t.Cleanup(func() { dropStreams(t, addr, "testbrokeronnats") })
	brokertest.Run(t, func(t *testing.T) brokertest.Harness { return harness(t, addr) })
}

// dropStreams removes the streams with names that begin with prefix.
func dropStreams(t *testing.T, addr, prefix string) {
	nc, err := nats.Connect("nats://" + addr)
	if err != nil {
		t.Error(err)
		return
	}
	defer nc.Close()
	js, err := jetstream.New(nc)
	if err != nil {
		t.Error(err)
		return
	}
	ctx := context.Background()
	list := js.StreamNames(ctx)
	for name := range list.Name() {
		if strings.HasPrefix(name, prefix) {
			err = errors.Join(err, js.DeleteStream(ctx, name))
		}
	}
	if err = errors.Join(err, list.Err()); err != nil {
		t.Errorf("drop streams: %v", err)
	}
}

func harness(t *testing.T, addr string) brokertest.Harness {
	line := &flaky{conns: map[net.Conn]bool{}}
	_, js := raw(t, addr)
	with := []nats.Option{nats.SetCustomDialer(line)}
	return brokertest.Harness{
		Open: func(t *testing.T) brokertest.Broker {
			return open(t, addr, &natsbroker.Options{Client: with})
		},
		Lasting: func(t *testing.T) brokertest.Broker {
			return open(t, addr, &natsbroker.Options{Client: with, Session: 20 * time.Minute,
				Patience: 20 * time.Minute})
		},
		Limit: func(t *testing.T, topic string, bytes int) {
			s := stream(t, js, topic)
			c := s.CachedInfo().Config
			c.MaxMsgSize = int32(bytes)
			if _, err := js.UpdateStream(t.Context(), c); err != nil {
				t.Fatalf("limit topic: %v", err)
			}
		},
		Fill: func(t *testing.T, topic string) func() {
			bound := func(most int64) {
				c := stream(t, js, topic).CachedInfo().Config
				c.MaxMsgs = most
				if _, err := js.UpdateStream(t.Context(), c); err != nil {
					t.Fatalf("bound topic: %v", err)
				}
			}
			bound(5)
			return func() { bound(-1) }
		},
		Drop: func(t *testing.T, topic string) {
			if err := js.DeleteStream(t.Context(), natsbroker.Stream(topic)); err != nil {
				t.Fatalf("drop topic: %v", err)
			}
		},
		Purge: func(t *testing.T, topic string, n int) {
			s := stream(t, js, topic)
			if err := s.Purge(t.Context(), jetstream.WithPurgeSequence(s.CachedInfo().State.FirstSeq+
				uint64(n))); err != nil {
				t.Fatalf("purge topic: %v", err)
			}
		},
		Keep: func(t *testing.T, topic string, d time.Duration) {
			c := stream(t, js, topic).CachedInfo().Config
			c.MaxAge = d
			if _, err := js.UpdateStream(t.Context(), c); err != nil {
				t.Fatalf("keep topic: %v", err)
			}
		},
		Frugal: func(t *testing.T) brokertest.Broker {
			return open(t, addr, &natsbroker.Options{Client: with, Prefetch: brokertest.Holds})
		},
		Unacknowledged: func(s broker.Subscription) int { return s.(*natsbroker.Subscription).Held() },
		Capabilities:   natsbroker.Capabilities,
		Via: func(t *testing.T,
			dial func(context.Context, string, string) (net.Conn, error)) brokertest.Broker {
			b, err := natsbroker.New(addr, &natsbroker.Options{Session: 2 * time.Second,
				Client: []nats.Option{nats.SetCustomDialer(dialer(dial))}})
			if err != nil {
				t.Fatal(err)
			}
			return b
		},
		Disturb: line.disturb,
		Foreign: func(t *testing.T, topic string, r brokertest.Record) {
			m := &nats.Msg{Subject: stream(t, js, topic).CachedInfo().Config.Subjects[0],
				Header: nats.Header{}, Data: r.Data}
			for _, h := range r.Headers {
				m.Header[h.Name] = append(m.Header[h.Name], string(h.Value))
			}
			if r.Key != nil {
				m.Header["Skald-Key"] = []string{base64.StdEncoding.EncodeToString(r.Key)}
			}
			if r.Data == nil {
				m.Header["Skald-Nil"] = []string{"1"}
			}
			if _, err := js.PublishMsg(t.Context(), m); err != nil {
				t.Fatalf("publish: %v", err)
			}
		},
		Mapped: func(t *testing.T, e *broker.Envelope) brokertest.Broker {
			return open(t, addr, &natsbroker.Options{Client: with, Envelope: e})
		},
		Prefix: "ce-",
		ByName: true,
		Steps:  2, // a question whose answer is lost with its connection is asked again after 5 s
		Kill:   func(_ *testing.T, s broker.Subscription) { s.(*natsbroker.Subscription).Kill() },
	}
}

// serve starts a NATS server with files in dir. Port 0 selects a free port.
func serve(t *testing.T, dir string, port int) *server.Server {
	t.Helper()
	if port == 0 {
		port = server.RANDOM_PORT
	}
	s, err := server.NewServer(&server.Options{
		Host: "127.0.0.1", Port: port, JetStream: true, StoreDir: dir, SyncAlways: true, NoSigs: true,
		NoLog:              true,
		JetStreamMaxMemory: 64 << 20, JetStreamMaxStore: 4 << 30,
	})
	if err != nil {
		t.Fatal(err)
	}
	go s.Start()
	if !s.ReadyForConnections(5 * time.Minute) {
		t.Fatal("NATS does not start")
	}
	t.Cleanup(func() { s.Shutdown(); s.WaitForShutdown() })
	return s
}

func open(t *testing.T, addr string, opts *natsbroker.Options) *natsbroker.Broker {
	t.Helper()
	b, err := natsbroker.New(addr, opts)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { b.Close() })
	if err := b.MakeTopics(t.Context(), 1); err != nil { // the bucket
		t.Fatal(err)
	}
	return b
}

// raw returns a connection without the driver.
func raw(t *testing.T, addr string) (*nats.Conn, jetstream.JetStream) {
	t.Helper()
	nc, err := nats.Connect("nats://" + addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(nc.Close)
	js, err := jetstream.New(nc)
	if err != nil {
		t.Fatal(err)
	}
	return nc, js
}

// stream returns the stream of a topic, by its description.
func stream(t *testing.T, js jetstream.JetStream, topic string) jetstream.Stream {
	t.Helper()
	all := js.ListStreams(t.Context())
	for info := range all.Info() {
		if info.Config.Description == "Skald topic "+topic {
			s, err := js.Stream(t.Context(), info.Config.Name)
			if err != nil {
				t.Fatal(err)
			}
			return s
		}
	}
	t.Fatalf("no stream of topic %s: %v", topic, all.Err())
	return nil
}

// dialer implements the dialer interface of nats.go.
type dialer func(ctx context.Context, network, address string) (net.Conn, error)

func (d dialer) Dial(network, address string) (net.Conn, error) {
	return d(context.Background(), network, address)
}

// flaky cuts connections at any time, also in the middle of a message.
type flaky struct {
	mu    sync.Mutex
	conns map[net.Conn]bool
}

func (f *flaky) Dial(network, address string) (net.Conn, error) {
	c, err := net.Dial(network, address)
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
