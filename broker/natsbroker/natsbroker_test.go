package natsbroker_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/skald-go/skald"
	"github.com/skald-go/skald/broker"
	"github.com/skald-go/skald/broker/natsbroker"
	"github.com/skald-go/skald/internal/need"
)

func message(topic, key string, n int) skald.Message {
	return skald.Message{ID: fmt.Sprintf("%s-%04d", key, n), Source: "/s", Type: "t", Topic: topic,
		Key: []byte(key), Data: []byte("d")}
}

// receive receives messages from s until done returns true.
func receive(t *testing.T, s broker.Subscription, done func([]broker.Delivery) bool) (out []broker.Delivery) {
	t.Helper()
	for deadline := time.After(5 * time.Minute); ; {
		b, err := s.Receive(t.Context(), 100)
		if err != nil {
			t.Fatal(err)
		}
		if out = append(out, b.Deliveries...); done(out) {
			return out
		}
		select {
		case <-s.Ready():
		case <-deadline:
			t.Fatalf("only %d messages came", len(out))
		}
	}
}

// TestSettingsThatLoseMessages: a stream that drops or forgets in silence is refused by both sides, with the
// setting's name.
func TestSettingsThatLoseMessages(t *testing.T) {
	addr := serve(t, t.TempDir(), 0).Addr().String()
	_, js := raw(t, addr)
	b := open(t, addr, nil)
	for setting, set := range map[string]func(*jetstream.StreamConfig){
		"retention":            func(c *jetstream.StreamConfig) { c.Retention = jetstream.WorkQueuePolicy },
		"storage memory":       func(c *jetstream.StreamConfig) { c.Storage = jetstream.MemoryStorage },
		"max_age":              func(c *jetstream.StreamConfig) { c.MaxAge = time.Hour },
		"max_msgs":             func(c *jetstream.StreamConfig) { c.MaxMsgs = 1000 },
		"max_bytes":            func(c *jetstream.StreamConfig) { c.MaxBytes = 1 << 20 },
		"max_msgs_per_subject": func(c *jetstream.StreamConfig) { c.MaxMsgsPerSubject = 100 },
		"allow_rollup_hdrs":    func(c *jetstream.StreamConfig) { c.AllowRollup = true },
		"allow_msg_ttl":        func(c *jetstream.StreamConfig) { c.AllowMsgTTL = true },
		"no_ack":               func(c *jetstream.StreamConfig) { c.NoAck = true },
		"persist_mode async": func(c *jetstream.StreamConfig) {
			c.PersistMode = jetstream.AsyncPersistMode
		},
		"subject_transform": func(c *jetstream.StreamConfig) {
			c.SubjectTransform = &jetstream.SubjectTransformConfig{Source: ">", Destination: "x.>"}
		},
		"subjects": func(c *jetstream.StreamConfig) { c.Subjects = []string{c.Name + ".>"} },
	} {
		t.Run(setting, func(t *testing.T) {
			name := strings.ReplaceAll(setting, " ", "-")
			c := jetstream.StreamConfig{Name: name, Subjects: []string{name + ".0"}}
			set(&c)
			if _, err := js.CreateStream(t.Context(), c); err != nil {
				t.Fatal(err)
			}
			_, err := b.Subscribe(t.Context(), broker.Group{Name: "g", Topics: []string{name}})
			if err == nil || !strings.Contains(err.Error(), setting) || !strings.Contains(err.Error(), name) {
				t.Errorf("subscribed: %v", err)
			}
			var pe *broker.PublishError
			err = b.Publish(t.Context(), []skald.Message{message(name, "k", 0)}).Wait(t.Context())
			if !errors.As(err, &pe) || pe.Refused[0] == nil || !strings.Contains(err.Error(), setting) {
				t.Errorf("published: %v", err)
			}
		})
	}
	// loses nothing
	full := jetstream.StreamConfig{Name: "full", Subjects: []string{"full.0"}, MaxMsgs: 1000,
		Discard: jetstream.DiscardNew}
	if _, err := js.CreateStream(t.Context(), full); err != nil {
		t.Fatal(err)
	}
	if _, err := b.Subscribe(t.Context(), broker.Group{Name: "g", Topics: []string{"full"}}); err != nil {
		t.Errorf("a stream that refuses when it is full: %v", err)
	}
}

// TestHeadersThatNATSObeys: what a message carries cannot order NATS about. Nats-Rollup would empty the
// stream.
func TestHeadersThatNATSObeys(t *testing.T) {
	m := message("t", "k", 0)
	m.Headers = []skald.Header{
		{Name: "Nats-Rollup", Value: []byte("all")}, {Name: "nats-msg-id", Value: []byte("1")},
		{Name: "Status", Value: []byte("503")},
		{Name: "ce-id", Value: []byte("another")}, {Name: "Skald-Nil", Value: []byte("1")},
		{Name: "evil", Value: []byte("a\r\nNats-TTL: 1s")},
		{Name: "plain", Value: []byte("as it is")}, {Name: " spaced", Value: nil},
		{Name: "trimmed", Value: []byte(" x ")},
	}
	wire, err := natsbroker.Encode(m)
	if err != nil {
		t.Fatal(err)
	}
	for name, vs := range wire.Header {
		if strings.HasPrefix(strings.ToLower(name), "nats-") || name == "Status" || name == "evil" ||
			strings.ContainsAny(vs[0], "\r\n") {
			t.Errorf("on the wire is %s: %q", name, vs)
		}
	}
	if wire.Header.Get("plain") != "as it is" || wire.Header.Get("ce-id") != m.ID ||
		wire.Header.Get("Skald-Nil") != "" {
		t.Errorf("headers %q", wire.Header)
	}
	back, err := natsbroker.Decode("t", wire)
	if err != nil || !slices.EqualFunc(back.Headers, m.Headers,
		func(a, b skald.Header) bool { return a.Name == b.Name && string(a.Value) == string(b.Value) }) {
		t.Errorf("came back as %q: %v", back.Headers, err)
	}
}

// TestRestart: NATS ends and begins again while messages flow: nothing is lost, and no key's order.
func TestRestart(t *testing.T) {
	dir := t.TempDir()
	port := need.FreePort(t)
	s := serve(t, dir, port)
	addr := s.Addr().String()
	b := open(t, addr, nil)
	if err := b.MakeTopics(t.Context(), 2, "t"); err != nil {
		t.Fatal(err)
	}
	before, err := b.Incarnation(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	sub, err := b.Subscribe(t.Context(), broker.Group{Name: "g", Topics: []string{"t"}})
	if err != nil {
		t.Fatal(err)
	}
	const n = 300
	next := 0
	publish := func(to int) {
		for deadline := time.Now().Add(5 * time.Minute); next < to; {
			if t.Context().Err() != nil { // it has failed meanwhile
				return
			}
			if time.Now().After(deadline) {
				t.Errorf("published %d", next)
				return
			}
			if b.Publish(t.Context(), []skald.Message{message("t", "a", next),
				message("t", "b", next)}).Wait(t.Context()) == nil {
				next++
			}
		}
	}
	publish(n / 3)
	done := make(chan struct{})
	go func() { defer close(done); publish(n) }()
	for range 2 {
		s.Shutdown()
		s.WaitForShutdown()
		s = serve(t, dir, port)
	}
	seen := map[string]int{}
	receive(t, sub, func(ds []broker.Delivery) bool {
		clear(seen)
		for _, d := range ds {
			key := string(d.Key)
			if want := message("t", key, seen[key]).ID; d.ID == want {
				seen[key]++
			} else if d.ID > want {
				t.Fatalf("%s came before %s", d.ID, want)
			}
		}
		if len(ds) > 0 {
			_ = sub.Ack(t.Context(), ds)
		}
		return seen["a"] == n && seen["b"] == n
	})
	<-done
	if after, err := b.Incarnation(t.Context()); err != nil || after != before {
		t.Errorf("incarnation %q, then %q: %v", before, after, err)
	}
}

// TestFence: who was taken for dead while it stood still can store nothing, and hears that its partition is
// lost.
func TestFence(t *testing.T) {
	addr := serve(t, t.TempDir(), 0).Addr().String()
	b := open(t, addr, nil)
	_, js := raw(t, addr)
	if err := b.MakeTopics(t.Context(), 1, "t"); err != nil {
		t.Fatal(err)
	}
	fenced(t, b, js, "t")
}

// fenced stores another owner for the only partition of topic. It checks that the old owner loses the
// partition and stores no position.
func fenced(t *testing.T, b *natsbroker.Broker, js jetstream.JetStream, topic string) {
	t.Helper()
	sub, err := b.Subscribe(t.Context(), broker.Group{Name: "g", Topics: []string{topic}})
	if err != nil {
		t.Fatal(err)
	}
	if err := b.Publish(t.Context(), []skald.Message{message(topic, "k", 0)}).Wait(t.Context()); err != nil {
		t.Fatal(err)
	}
	ds := receive(t, sub, func(ds []broker.Delivery) bool { return len(ds) == 1 })
	kv, err := js.KeyValue(t.Context(), "skald")
	if err != nil {
		t.Fatal(err)
	}
	rival := map[string]any{"life": "x", "topics": []string{topic}, "session": 10 * time.Minute}
	put(t, kv, "member.g.m-rival", rival)
	info := stream(t, js, topic).CachedInfo()
	put(t, kv, "partition.g."+topic+".0", map[string]any{"member": "m-rival", "life": "x", "position": 0,
		"stream": info.Created.UTC().Format(time.RFC3339Nano)})
	if err := sub.Ack(t.Context(), ds); err != nil {
		t.Fatal(err)
	}
	until(t, "the loss", func() bool {
		got, err := sub.Receive(t.Context(), 1)
		return err == nil && len(got.Lost) == 1 && !got.Lost[0].Clean
	})
	if err := sub.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	e, err := kv.Get(t.Context(), "partition.g."+topic+".0")
	if err != nil || !strings.Contains(string(e.Value()), `"position":0`) ||
		!strings.Contains(string(e.Value()), "m-rival") {
		t.Errorf("the row is %s: %v", e.Value(), err)
	}
}

func put(t *testing.T, kv jetstream.KeyValue, key string, v any) {
	t.Helper()
	text, err := json.Marshal(v)
	if err == nil {
		_, err = kv.Put(t.Context(), key, text)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// TestTopicMadeAnew: a group that was far in a stream reads one that was made anew from its beginning.
func TestTopicMadeAnew(t *testing.T) {
	addr := serve(t, t.TempDir(), 0).Addr().String()
	b := open(t, addr, nil)
	_, js := raw(t, addr)
	for sessionID, n := range []int{5, 2} {
		if err := b.MakeTopics(t.Context(), 1, "t"); err != nil {
			t.Fatal(err)
		}
		for i := range n {
			if err := b.Publish(t.Context(), []skald.Message{message("t", fmt.Sprint("k", sessionID),
				i)}).Wait(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		sub, err := b.Subscribe(t.Context(), broker.Group{Name: "g", Topics: []string{"t"}})
		if err != nil {
			t.Fatal(err)
		}
		ds := receive(t, sub, func(ds []broker.Delivery) bool { return len(ds) == n })
		if err := errors.Join(sub.Ack(t.Context(), ds), sub.Close(t.Context()),
			js.DeleteStream(t.Context(), "t")); err != nil {
			t.Fatal(err)
		}
	}
}

// TestLeftRightAway: a member may leave while its partitions are not read yet; the next one begins where it
// left. Under the race detector.
func TestLeftRightAway(t *testing.T) {
	b := open(t, serve(t, t.TempDir(), 0).Addr().String(), nil)
	if err := b.MakeTopics(t.Context(), 8, "t"); err != nil {
		t.Fatal(err)
	}
	if err := b.Publish(t.Context(), []skald.Message{message("t", "k", 0)}).Wait(t.Context()); err != nil {
		t.Fatal(err)
	}
	for range 30 {
		sub, err := b.Subscribe(t.Context(), broker.Group{Name: "g", Topics: []string{"t"}})
		if err != nil {
			t.Fatal(err)
		}
		for gained := false; !gained; {
			batch, err := sub.Receive(t.Context(), 100)
			if err != nil {
				t.Fatal(err)
			}
			if gained = len(batch.Gained) > 0; !gained {
				<-sub.Ready()
			}
		}
		if err := sub.Close(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	sub, err := b.Subscribe(t.Context(), broker.Group{Name: "g", Topics: []string{"t"}})
	if err != nil {
		t.Fatal(err)
	}
	ds := receive(t, sub, func(ds []broker.Delivery) bool { return len(ds) > 0 })
	if err := errors.Join(sub.Ack(t.Context(), ds), sub.Close(t.Context())); err != nil {
		t.Fatal(err)
	}
}

// TestAway: without a server a publish is an outage, within its patience, and goes on when one is there.
func TestAway(t *testing.T) {
	port := need.FreePort(t)
	addr := fmt.Sprintf("127.0.0.1:%d", port)
	b, err := natsbroker.New(addr, &natsbroker.Options{Patience: 100 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	if err := b.Publish(t.Context(), []skald.Message{message("t", "k", 0)}).Wait(t.Context()); !errors.Is(err,
		broker.ErrUnavailable) {
		t.Errorf("published: %v", err)
	}
	if _, err := b.Incarnation(t.Context()); !errors.Is(err, broker.ErrUnavailable) {
		t.Errorf("asked for the incarnation: %v", err)
	}
	if _, err := b.Subscribe(t.Context(), broker.Group{Name: "g", Topics: []string{"t"}}); !errors.Is(err,
		broker.ErrUnavailable) {
		t.Errorf("subscribed: %v", err)
	}
	serve(t, t.TempDir(), port)
	until(t, "NATS", func() bool { return b.MakeTopics(context.Background(), 1, "t") == nil })
	until(t, "a publish", func() bool {
		return b.Publish(t.Context(), []skald.Message{message("t", "k", 0)}).Wait(t.Context()) == nil
	})
}

// TestWithoutJetStream: a server that only has core NATS is away, as far as topics go, and says why.
func TestWithoutJetStream(t *testing.T) {
	s, err := server.NewServer(&server.Options{Host: "127.0.0.1", Port: server.RANDOM_PORT, NoSigs: true,
		NoLog: true})
	if err != nil {
		t.Fatal(err)
	}
	go s.Start()
	defer s.Shutdown()
	if !s.ReadyForConnections(5 * time.Minute) {
		t.Fatal("NATS does not start")
	}
	b, err := natsbroker.New(s.Addr().String(), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	if err := b.MakeTopics(t.Context(), 1, "t"); !errors.Is(err, broker.ErrUnavailable) ||
		!strings.Contains(err.Error(), "JetStream") {
		t.Errorf("made topics: %v", err)
	}
}

// TestForeignText: what others have written by the CloudEvents binding, and what they read of ours.
func TestForeignText(t *testing.T) {
	m := message("t", "schlüssel 1", 0)
	m.ContentType, m.Subject = "text/plain; charset=utf-8", `"100 %"`
	wire, err := natsbroker.Encode(m)
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{
		"ce-partitionkey": "schl%C3%BCssel%201", "content-type": "text/plain; charset=utf-8",
		"ce-subject": "%22100%20%25%22", "ce-specversion": "1.0",
	} {
		if got := wire.Header.Get(name); got != want {
			t.Errorf("%s: %q, want %q", name, got, want)
		}
	}
	back, err := natsbroker.Decode("t",
		&nats.Msg{Header: nats.Header{"ce-id": {"i"}, "ce-subject": {"50%"}, "ce-type": {"a%c3%a4"}},
			Data: nil})
	if err != nil || back.Subject != "50%" || back.Type != "aä" || back.Data == nil {
		t.Errorf("read %+v: %v", back, err)
	}
}
