package sagatest_test

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/skald-go/skald"
	"github.com/skald-go/skald/broker/kafkabroker"
	"github.com/skald-go/skald/internal/need"
	"github.com/skald-go/skald/outbox"
	"github.com/skald-go/skald/relay"
	"github.com/skald-go/skald/store"
	"github.com/skald-go/skald/store/memstore"
)

// remade is an outbox with two topics on Kafka, one of which is recreated.
type remade struct {
	*testing.T
	seeds      string
	adm        *kadm.Client
	db         *memstore.Store
	out        *outbox.Outbox[*memstore.Tx]
	anew, kept string

	mu    sync.Mutex
	wrote map[string][]string // by topic and key
	n     int
}

func newRemade(t *testing.T) *remade {
	r := &remade{T: t, seeds: need.Kafka(t), db: memstore.New(nil), wrote: map[string][]string{}}
	client, err := kgo.NewClient(kgo.SeedBrokers(strings.Split(r.seeds, ",")...))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.Close)
	r.out, r.adm = outbox.New(r.db, nil), kadm.NewClient(client)
	name := fmt.Sprintf("remade.%x", time.Now().UnixNano())
	r.anew, r.kept = name+".anew", name+".kept"
	small := "3000" // a larger message is deferred
	r.make(r.anew, map[string]*string{"max.message.bytes": &small})
	r.make(r.kept, nil)
	t.Cleanup(func() { _, _ = r.adm.DeleteTopics(context.Background(), r.anew, r.kept) })
	return r
}

func (r *remade) make(topic string, with map[string]*string) {
	r.until("topic "+topic, func() bool {
		_, err := r.adm.CreateTopic(r.Context(), 4, 1, with, topic)
		return err == nil
	})
}

func (r *remade) until(what string, there func() bool) {
	r.Helper()
	for deadline := time.Now().Add(5 * time.Minute); !there(); <-time.After(20 * time.Millisecond) {
		if time.Now().After(deadline) {
			r.Fatalf("waited too long for %s", what)
		}
	}
}

// write writes one message of each key on both topics. At first the message of the key big is too large for
// the first topic.
func (r *remade) write() {
	r.mu.Lock()
	defer r.mu.Unlock()
	tx := r.db.BeginTx()
	r.n++
	for _, topic := range []string{r.anew, r.kept} {
		for k := range 12 {
			key, v := fmt.Sprint("k", k), fmt.Sprint(r.n)
			if k == 0 {
				key = "big"
				if r.n == 3 {
					v += strings.Repeat("x", 5000)
				}
			}
			if err := r.out.Write(r.Context(), tx, skald.Event[string]{Topic: topic, Type: "said"}.New(key,
				v)); err != nil {
				r.Error(err)
			}
			r.wrote[topic+" "+key] = append(r.wrote[topic+" "+key], fmt.Sprintf("%q", v))
		}
	}
	if err := tx.Commit(); err != nil {
		r.Error(err)
	}
}

// relay runs a relay until stop is called. The stopped relay drops its messages in progress.
func (r *remade) relay(name string) (stop func()) {
	bus, err := kafkabroker.New(r.seeds, nil)
	if err != nil {
		r.Fatal(err)
	}
	ctx, cancel := context.WithCancel(r.Context())
	ended := make(chan error, 1)
	one := relay.New(r.db, bus, &relay.Options{Owner: name, Drain: time.Nanosecond, DeferMost: time.Second,
		Logger: slog.New(slog.DiscardHandler)})
	go func() { ended <- one.Run(ctx) }()
	return sync.OnceFunc(func() {
		cancel()
		if err := <-ended; err != nil {
			r.Error(err)
		}
		_ = bus.Close()
	})
}

func (r *remade) settled(aside bool) func() bool {
	return func() bool {
		b, err := store.ReadBacklog(r.Context(), r.db)
		return err == nil && b.Pending == 0 && (b.Deferred > 0) == aside
	}
}

// held returns the messages of a topic, by key.
func (r *remade) held(topic string) map[string][]string {
	var ends kadm.ListedOffsets
	r.until("the ends of "+topic, func() (there bool) {
		var err error
		ends, err = r.adm.ListEndOffsets(r.Context(), topic)
		return err == nil && ends.Error() == nil && len(ends[topic]) == 4
	})
	left := 0
	ends.Each(func(o kadm.ListedOffset) { left += int(o.Offset) })
	client, err := kgo.NewClient(kgo.SeedBrokers(strings.Split(r.seeds, ",")...), kgo.ConsumeTopics(topic),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
	if err != nil {
		r.Fatal(err)
	}
	defer client.Close()
	out := map[string][]string{}
	ctx, cancel := context.WithTimeout(r.Context(), 5*time.Minute)
	defer cancel()
	for left > 0 && ctx.Err() == nil {
		client.PollFetches(ctx).EachRecord(func(rec *kgo.Record) {
			left--
			out[string(rec.Key)] = append(out[string(rec.Key)], string(rec.Value))
		})
	}
	return out
}

func firsts(all []string) (out []string) {
	seen := map[string]bool{}
	for _, v := range all {
		if !seen[v] {
			out = append(out, v)
		}
		seen[v] = true
	}
	return out
}

// TestRecreatedTopicOnKafka deletes and recreates a topic on Kafka, with concurrent writers, while a relay
// dies. The topic gets all stored messages, with first deliveries in order, and deferred rows, too. The
// other topic gets no message again.
// Interleaving 9.
func TestRecreatedTopicOnKafka(t *testing.T) {
	t.Parallel()
	r := newRemade(t)
	stopA, stopB := r.relay("a"), r.relay("b")
	defer stopA()
	defer stopB()
	for range 10 {
		r.write()
	}
	r.until("the relays, with rows set aside", r.settled(true))
	before, was := r.n, r.held(r.kept)
	stop, wg := make(chan struct{}), sync.WaitGroup{}
	end := sync.OnceFunc(func() { close(stop); wg.Wait() })
	defer end() // also if the test fails meanwhile
	wg.Go(func() {
		for {
			select {
			case <-stop:
				return
			case <-time.After(5 * time.Millisecond):
				r.write()
			}
		}
	})
	if _, err := r.adm.DeleteTopics(t.Context(), r.anew); err != nil {
		t.Fatal(err)
	}
	r.make(r.anew, nil)
	stopA()
	defer r.relay("c")()
	r.until("more rows", func() bool { r.mu.Lock(); defer r.mu.Unlock(); return r.n > before+200 })
	end()
	r.until("the relays", r.settled(false))
	for _, topic := range []string{r.anew, r.kept} {
		held := r.held(topic)
		if len(held) != 12 {
			t.Errorf("%s has %d keys", topic, len(held))
		}
		for key, got := range held {
			if want := r.wrote[topic+" "+key]; !slices.Equal(firsts(got), want) {
				t.Errorf("%s, key %s: first deliveries are not what was written:\n%.1000v\n%.1000v", topic,
					key, firsts(got), want)
			}
			if topic == r.kept && slices.ContainsFunc(got[len(was[key]):],
				func(v string) bool { return slices.Contains(was[key], v) }) {
				t.Errorf("%s, key %s: earlier rows were published again: %.1000v", topic, key, got)
			}
		}
	}
}
