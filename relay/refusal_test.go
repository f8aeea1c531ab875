package relay_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/skald-go/skald"
	"github.com/skald-go/skald/broker"
	"github.com/skald-go/skald/broker/kafkabroker"
	"github.com/skald-go/skald/internal/need"
	"github.com/skald-go/skald/outbox"
	"github.com/skald-go/skald/relay"
)

// TestRefusedRowsDoNotStarveOtherTopics writes 2,000 rows that a topic on Kafka refuses, and then a row of
// another topic. It counts the calls until the last row is published.
func TestRefusedRowsDoNotStarveOtherTopics(t *testing.T) {
	address := need.Kafka(t)
	kafka, err := kafkabroker.New(address, &kafkabroker.Options{Replicas: 1})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = kafka.Close() })
	small, good := fmt.Sprint("small", time.Now().UnixNano()), fmt.Sprint("good", time.Now().UnixNano())
	if err := kafka.MakeTopics(t.Context(), 2, small, good); err != nil {
		t.Fatal(err)
	}
	limitRecords(t, address, small)
	w := newWorld(t)
	bus := &tally{Broker: kafka, topic: good}
	r := relay.New(w.db, bus, &relay.Options{Now: func() time.Time { return w.now }})
	w.writeMany(small, 2000, strings.Repeat("x", 300))
	w.write(good, "k", "1")
	for step := 0; !bus.taken; step++ {
		if bus.calls > 50 || step > 5000 {
			t.Fatalf("not published after %d calls", bus.calls)
		}
		w.step(r, 10*time.Millisecond)
	}
	if n := len(w.db.DeferredRows()); n < 2000 {
		t.Errorf("%d rows deferred", n)
	}
}

// limitRecords lets a topic of Kafka take records of 200 bytes.
func limitRecords(t *testing.T, address, topic string) {
	cl, err := kgo.NewClient(kgo.SeedBrokers(address))
	if err != nil {
		t.Fatal(err)
	}
	defer cl.Close()
	bytes := "200"
	if _, err := kadm.NewClient(cl).AlterTopicConfigs(t.Context(),
		[]kadm.AlterConfig{{Op: kadm.SetConfig, Name: "max.message.bytes", Value: &bytes}},
		topic); err != nil {
		t.Fatal(err)
	}
}

// tally counts calls until a row of its topic is published.
type tally struct {
	broker.Broker
	topic string
	calls int
	taken bool
}

func (b *tally) Publish(ctx context.Context, msgs []skald.Message, only ...broker.Topics) broker.Pending {
	b.calls++
	p := b.Broker.Publish(ctx, msgs, only...)
	err := p.Wait(ctx)
	var part *broker.PublishError
	for i := range msgs {
		if msgs[i].Topic == b.topic && (err == nil || errors.As(err, &part) && part.Refused[i] == nil &&
			part.Failed[i] == nil) {
			b.taken = true
		}
	}
	return p
}

// writeMany writes rows with a key each.
func (w *world) writeMany(topic string, n int, value string) {
	w.t.Helper()
	out := outbox.New(w.db, nil)
	tx := w.db.BeginTx()
	for i := range n {
		if err := out.Write(w.t.Context(), tx, skald.Draft{Topic: topic, Type: "said", Value: value,
			Key: fmt.Appendf(nil, "key%d", i)}); err != nil {
			w.t.Fatal(err)
		}
	}
	if err := tx.Commit(); err != nil {
		w.t.Fatal(err)
	}
}

// TestSharedRefusals writes rows to a topic that refuses a whole call for one bad row, and a row of another
// topic after them. The row of the other topic is published after few calls, and so are the good rows in the
// same calls as the bad row.
func TestSharedRefusals(t *testing.T) {
	w := newWorld(t, "bad", "good")
	calls := 0
	w.bus.refuse = func(m skald.Message, alone bool) error {
		if m.Topic == "bad" && (!alone || string(m.Data) == `"bad"`) {
			return fmt.Errorf("%w: invalid record", broker.ErrShared)
		}
		return nil
	}
	w.bus.after = func() error { calls++; return nil }
	r := relay.New(w.db, w.bus, &relay.Options{DeferMost: time.Hour, DeferFirst: time.Hour,
		Now: func() time.Time { return w.now }})
	w.writeMany("bad", 300, "bad")
	w.write("bad", "innocent", "1", "2")
	w.write("good", "k", "1")
	for published := false; !published; {
		if w.step(r, 10*time.Millisecond); calls > 150 {
			t.Fatalf("not published after %d calls", calls)
		}
		got, _ := w.delivered("good")
		published = len(got["k"]) == 1
	}
	for range 3 {
		w.now = w.now.Add(time.Hour)
		w.quiet(r)
	}
	w.expect("bad", "innocent", "1", "2")
	if n := len(w.db.DeferredRows()); n != 300 {
		t.Errorf("%d rows deferred", n)
	}
}

// TestNewReasonOfARefusalIsLogged changes the reason why a topic refuses rows.
func TestNewReasonOfARefusalIsLogged(t *testing.T) {
	w := newWorld(t, "orders")
	why := "1000 bytes are too large"
	w.bus.refuse = func(skald.Message, bool) error { return errors.New(why) }
	var log bytes.Buffer
	r := relay.New(w.db, w.bus, &relay.Options{Now: func() time.Time { return w.now },
		DeferMost: 5 * time.Second, Logger: slog.New(slog.NewTextHandler(&log, nil))})
	w.writeMany("orders", 3, "x")
	w.step(r, 0)
	why = "1001 bytes are too large"
	w.writeMany("orders", 3, "x")
	w.step(r, 5*time.Millisecond)
	w.step(r, 5*time.Millisecond)
	if n := strings.Count(log.String(), "row deferred"); n != 1 {
		t.Errorf("%d lines: %s", n, log.String())
	}
	why = "no right to write"
	for range 100 { // the rows are retried
		w.step(r, 100*time.Millisecond)
	}
	if n := strings.Count(log.String(), "row deferred"); n != 2 || !strings.Contains(log.String(), why) {
		t.Errorf("%d lines: %s", n, log.String())
	}
}
