package kafkabroker_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/skald-go/skald"
	"github.com/skald-go/skald/broker"
	"github.com/skald-go/skald/broker/kafkabroker"
	"github.com/skald-go/skald/internal/need"
)

func TestURL(t *testing.T) {
	for url, want := range map[string]string{
		"kafka://localhost:9092":     "localhost:9092",
		"kafka://a:1,b:2/":           "a:1,b:2",
		"kafka://[::1]:9092":         "[::1]:9092",
		"kafka://":                   "",
		"kafka://localhost":          "",
		"kafka://a:1,":               "",
		"kafka://user:secret@a:9092": "",
		"mem:":                       "",
		"a:9092":                     "",
	} {
		seeds, _, err := kafkabroker.ParseURL(url, nil)
		if (err == nil) != (want != "") || err == nil && seeds != want {
			t.Errorf("%s: %q, %v", url, seeds, err)
		}
		if err != nil && strings.Contains(err.Error(), "secret") {
			t.Errorf("%s: the password is in the error: %v", url, err)
		}
	}
}

// TestWire is how a message lies on Kafka, header by header: a contract with every other reader.
func TestWire(t *testing.T) {
	r := kafkabroker.Encode(skald.Message{
		ID: "id", Source: "/src", Type: "order.placed", Topic: "orders", Key: []byte("kä"),
		Time:    time.Date(2026, 11, 21, 12, 0, 0, 120_000_000, time.FixedZone("", 3600)),
		Subject: "sub", ContentType: "application/json", Schema: "sch", CorrelationID: "cor",
		CausationID: "cau",
		TraceParent: "tp", Sequence: "00000000000000000007",
		Headers: []skald.Header{{Name: "b", Value: []byte{0, 255}}, {Name: "a", Value: nil}},
		Data:    []byte(`{}`),
	})
	var got []string
	for _, h := range r.Headers {
		got = append(got, fmt.Sprintf("%s=%q", h.Key, h.Value))
	}
	want := []string{
		`ce_specversion="1.0"`, `ce_id="id"`, `ce_source="/src"`, `ce_type="order.placed"`,
		`ce_time="2026-11-21T11:00:00.12Z"`,
		`ce_partitionkey="kä"`, `ce_sequence="00000000000000000007"`, `content-type="application/json"`,
		`ce_subject="sub"`,
		`ce_dataschema="sch"`, `ce_correlationid="cor"`, `ce_causationid="cau"`, `ce_traceparent="tp"`,
		`b="\x00\xff"`, `a=""`,
	}
	if !slices.Equal(got, want) || r.Topic != "orders" || string(r.Key) != "kä" || string(r.Value) != "{}" {
		t.Errorf("got %q\nwant %q", got, want)
	}
	for name, m := range map[string]skald.Message{
		"binary key, tombstone": {ID: "i", Source: "s", Type: "t", Key: []byte{255, 0}},
		"no key, no data":       {ID: "i", Source: "s", Type: "t", Data: []byte{}},
	} {
		r := kafkabroker.Encode(m)
		if len(r.Headers) != 4 || (r.Key == nil) != (m.Key == nil) || (r.Value == nil) != (m.Data == nil) {
			t.Errorf("%s: %d headers, key %v, value %v", name, len(r.Headers), r.Key, r.Value)
		}
	}
	if r := kafkabroker.Encode(skald.Message{Topic: "t", Data: []byte("foreign")}); len(r.Headers) != 0 {
		t.Errorf("a message without attributes got headers %v", r.Headers)
	}
}

// TestPartitionsAreThoseOfJava: the hashes are murmur2 as Java's client tests have them.
func TestPartitionsAreThoseOfJava(t *testing.T) {
	fake := newFake(t)
	b := open(t, fake.seeds, nil)
	const partitions = 1000
	must(t, b.MakeTopics(t.Context(), partitions, "t"))
	sub, err := b.Subscribe(t.Context(), broker.Group{Name: "g", Topics: []string{"t"}})
	must(t, err)
	want := map[string]int32{
		"21": -973932308, "foobar": -790332482, "a-little-bit-long-string": -985981536,
		"a-little-bit-longer-string":                       -1486304829,
		"lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8": -58897971, "abc": 479470107,
	}
	var msgs []skald.Message
	for key := range want {
		msgs = append(msgs, skald.Message{ID: key, Topic: "t", Key: []byte(key)})
	}
	must(t, b.Publish(t.Context(), msgs).Wait(t.Context()))
	for _, d := range take(t, sub, len(msgs)) {
		if partition := fmt.Sprintf("t/%d",
			want[string(d.Key)]&0x7fffffff%partitions); d.Partition != partition {
			t.Errorf("key %s came by %s, want %s", d.Key, d.Partition, partition)
		}
	}
}

// TestOutageIsToldAndOvertakesNothing: the answer does not come; the caller starts again from the first
// message.
// Interleaving 7.
func TestOutageIsToldAndOvertakesNothing(t *testing.T) {
	fake := newFake(t)
	b := open(t, fake.seeds, &kafkabroker.Options{Patience: 150 * time.Millisecond})
	must(t, b.MakeTopics(t.Context(), 1, "t"))
	until(t, "the first",
		func() bool { return b.Publish(t.Context(), numbered(0, 1)).Wait(t.Context()) == nil })
	fault := fake.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.Produce}, Err: kerr.NotEnoughReplicas, Count: -1})
	first, second := b.Publish(t.Context(), numbered(1, 3)), b.Publish(t.Context(), numbered(3, 5))
	for i, call := range []broker.Pending{second, first} {
		var pe *broker.PublishError
		if err := call.Wait(t.Context()); err == nil || errors.As(err, &pe) {
			t.Fatalf("call %d: %v, want an outage", i, err)
		}
	}
	fault.Remove()
	deadline := time.Now().Add(5 * time.Minute)
	for b.Publish(t.Context(), numbered(1, 6)).Wait(t.Context()) != nil {
		if time.Now().After(deadline) {
			t.Fatal("Kafka is back and Publish does not see it")
		}
	}
	sub, err := b.Subscribe(t.Context(), broker.Group{Name: "g", Topics: []string{"t"}})
	must(t, err)
	next := 0
	for next < 6 {
		for _, d := range take(t, sub, 1) {
			switch {
			case d.ID == numbered(next, next+1)[0].ID:
				next++
			case d.ID > numbered(next, next+1)[0].ID:
				t.Fatalf("%s came before number %d", d.ID, next)
			}
		}
	}
}

func TestAcknowledgementsAreCommittedSoon(t *testing.T) { committedSoon(t, newFake(t).seeds) }

func TestAcknowledgementsAreCommittedSoonOnKafka(t *testing.T) { committedSoon(t, need.Kafka(t)) }

func committedSoon(t *testing.T, seeds string) {
	b := open(t, seeds, &kafkabroker.Options{Commit: time.Millisecond})
	topic := fmt.Sprintf("commit.%x", time.Now().UnixNano())
	must(t, b.MakeTopics(t.Context(), 1, topic))
	msgs := numbered(0, 5)
	for i := range msgs {
		msgs[i].Topic = topic
	}
	must(t, b.Publish(t.Context(), msgs).Wait(t.Context()))
	sub, err := b.Subscribe(t.Context(), broker.Group{Name: topic, Topics: []string{topic}})
	must(t, err)
	must(t, sub.Ack(t.Context(), take(t, sub, 5)[:3]))
	cl, err := kgo.NewClient(kgo.SeedBrokers(strings.Split(seeds, ",")...))
	must(t, err)
	defer cl.Close()
	until(t, "the commit", func() bool {
		got, err := kadm.NewClient(cl).FetchOffsets(t.Context(), topic)
		o, ok := got.Lookup(topic, 0)
		return err == nil && ok && o.At == 3 && sub.(*kafkabroker.Subscription).Uncommitted() == 0
	})
}

func TestOldLifeOfAMemberEnds(t *testing.T) {
	fake := newFake(t)
	b := open(t, fake.seeds, &kafkabroker.Options{Heartbeat: 50 * time.Millisecond})
	must(t, b.MakeTopics(t.Context(), 2, "t"))
	g := broker.Group{Name: "g", Topics: []string{"t"}, Member: "me"}
	old, err := b.Subscribe(t.Context(), g)
	must(t, err)
	must(t, b.Publish(t.Context(), numbered(0, 1)).Wait(t.Context()))
	take(t, old, 1)
	young, err := b.Subscribe(t.Context(), g)
	must(t, err)
	until(t, "the end of the old life", func() bool {
		_, err := old.Receive(t.Context(), 1)
		return errors.Is(err, broker.ErrClosed)
	})
	take(t, young, 1)
}

// TestCloseWithoutKafka: what Kafka does not answer any longer delays a close for a session at most.
func TestCloseWithoutKafka(t *testing.T) {
	fake := newFake(t, kfake.GroupMinSessionTimeout(100*time.Millisecond))
	b := open(t, fake.seeds, &kafkabroker.Options{Session: 300 * time.Millisecond, Patience: time.Hour})
	must(t, b.MakeTopics(t.Context(), 2, "t"))
	sub, err := b.Subscribe(t.Context(), broker.Group{Name: "g", Topics: []string{"t"}, Member: "me"})
	must(t, err)
	must(t, b.Publish(t.Context(), numbered(0, 1)).Wait(t.Context()))
	must(t, sub.Ack(t.Context(), take(t, sub, 1)))
	fake.Close()
	call := b.Publish(t.Context(), numbered(1, 2))
	done := make(chan error)
	go func() { done <- b.Close() }()
	select {
	case <-done:
	case <-time.After(5 * time.Minute):
		t.Fatal("Close hangs")
	}
	if err := call.Wait(t.Context()); !errors.Is(err, broker.ErrClosed) {
		t.Errorf("what was under way: %v", err)
	}
}

func numbered(from, to int) (out []skald.Message) {
	for i := from; i < to; i++ {
		out = append(out, skald.Message{ID: fmt.Sprintf("%06d", i), Source: "s", Type: "t", Topic: "t",
			Key: []byte("k")})
	}
	return out
}

func take(t *testing.T, s broker.Subscription, n int) (out []broker.Delivery) {
	t.Helper()
	deadline := time.After(5 * time.Minute)
	for {
		b, err := s.Receive(t.Context(), n-len(out))
		must(t, err)
		if out = append(out, b.Deliveries...); len(out) == n {
			return out
		}
		select {
		case <-s.Ready():
		case <-deadline:
			t.Fatalf("%d of %d messages came", len(out), n)
		}
	}
}

func until(t *testing.T, what string, done func() bool) {
	t.Helper()
	deadline := time.Now().Add(time.Minute)
	for !done() {
		if time.Now().After(deadline) {
			t.Fatalf("%s did not come", what)
		}
		<-time.After(5 * time.Millisecond)
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// TestUnreachable: what fails says why, not later than it should, and that it may be asked again.
func TestUnreachable(t *testing.T) {
	allAway(t, "127.0.0.1:1", "refused")
}

// TestHangsUp: a Kafka that starts or stops takes connections and closes them at once.
func TestHangsUp(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	t.Cleanup(func() { must(t, l.Close()) })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			_ = c.Close()
		}
	}()
	allAway(t, l.Addr().String(), "")
}

func allAway(t *testing.T, seeds, why string) {
	t.Helper()
	b := open(t, seeds, &kafkabroker.Options{Patience: 2 * time.Second})
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
	defer cancel()
	_, incarnation := b.Incarnation(ctx)
	_, subscribe := b.Subscribe(ctx, broker.Group{Name: "g", Topics: []string{"t"}})
	for act, err := range map[string]error{
		"publish":     b.Publish(t.Context(), numbered(0, 1)).Wait(t.Context()),
		"incarnation": incarnation,
		"subscribe":   subscribe,
		"make topics": b.MakeTopics(ctx, 1, "t"),
	} {
		if !errors.Is(err, broker.ErrUnavailable) || !strings.Contains(err.Error(), why) {
			t.Errorf("%s: %v", act, err)
		}
		if errors.Is(err, broker.ErrNoTopic) {
			t.Errorf("%s: an outage is no missing topic: %v", act, err)
		}
	}
}

// TestNotReadyToMakeTopics: a cluster that elects its controller, or has not all its brokers yet, is away.
func TestNotReadyToMakeTopics(t *testing.T) {
	for _, code := range []*kerr.Error{kerr.NotController, kerr.InvalidReplicationFactor} {
		fake := newFake(t)
		b := open(t, fake.seeds, nil)
		fake.ControlKey(kmsg.CreateTopics.Int16(), func(r kmsg.Request) (kmsg.Response, error, bool) {
			fake.KeepControl()
			out := r.ResponseKind().(*kmsg.CreateTopicsResponse)
			for _, asked := range r.(*kmsg.CreateTopicsRequest).Topics {
				one := kmsg.NewCreateTopicsResponseTopic()
				one.Topic, one.ErrorCode = asked.Topic, code.Code
				out.Topics = append(out.Topics, one)
			}
			return out, nil, true
		})
		ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
		if err := b.MakeTopics(ctx, 1, "t"); !errors.Is(err, broker.ErrUnavailable) {
			t.Errorf("%s: %v", code.Message, err)
		}
		cancel()
	}
}
