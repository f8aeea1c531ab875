package main_test

import (
	"context"
	"fmt"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/skald-go/skald/examples/shop/event"
)

// A topicLog is what came on a topic, in order: each value is a key's name and a number that counts up.
type topicLog struct {
	t    *testing.T
	cl   *kgo.Client
	last map[string]int // by key: the largest number
}

// until polls until that many numbers came of each key. A number that comes first must be one more than the
// last: none is passed over, and none comes late. Others are repeats.
func (l *topicLog) until(keys, each int) {
	l.t.Helper()
	ctx, cancel := context.WithTimeout(l.t.Context(), 5*time.Minute)
	defer cancel()
	there := func() bool {
		for k := range keys {
			if l.last[fmt.Sprint("k", k)] < each {
				return false
			}
		}
		return true
	}
	for !there() {
		if ctx.Err() != nil {
			l.t.Fatalf("there are %v, want %d of each", l.last, each)
		}
		l.cl.PollFetches(ctx).EachRecord(func(r *kgo.Record) {
			var n int
			if _, err := fmt.Sscan(string(r.Value), &n); err != nil {
				l.t.Error(err)
			}
			key := string(r.Key)
			if n > l.last[key]+1 {
				l.t.Errorf("%s: %d comes behind %d", key, n, l.last[key])
			}
			l.last[key] = max(l.last[key], n)
		})
	}
}

// A walled outbox is one whose relays read a slot and publish to a topic of Kafka.
type walled struct {
	t           *testing.T
	conn        *pgx.Conn
	adm         *kadm.Client
	store       string
	env         []string
	topic, slot string
	came        *topicLog
	written     int // of each key
}

// walledKeys are the keys that are written to.
const walledKeys = 5

func newWalled(t *testing.T) *walled {
	t.Helper()
	at, conn := postgres(t)
	bus, prefix, adm := kafka(t)
	w := &walled{t: t, conn: conn, adm: adm, store: at,
		env:   []string{"SKALD_STORE=" + at, "SKALD_BROKER=" + bus},
		topic: event.New(prefix).Topics()[0], slot: "skald_" + conn.Config().Database + "_public"}
	_, err := adm.CreateTopic(t.Context(), 2, -1, nil, w.topic)
	must(t, err)
	cl, err := kgo.NewClient(kgo.SeedBrokers(strings.TrimPrefix(bus, "kafka://")), kgo.ConsumeTopics(w.topic),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
	must(t, err)
	t.Cleanup(cl.Close)
	w.came = &topicLog{t: t, cl: cl, last: map[string]int{}}
	start(t, w.env, "migrate").expect(0)
	t.Cleanup(func() { _, _ = conn.Exec(context.Background(), dropSlot(w.slot)) })
	return w
}

// write writes the next message of each key, so many times.
func (w *walled) write(times int) {
	w.t.Helper()
	for range times {
		w.written++
		_, err := w.conn.Exec(w.t.Context(), "INSERT INTO skald_outbox (topic, key, type, data) "+
			"SELECT $1, 'k' || k, 'x', $2::int::text FROM generate_series(0, $3::int - 1) AS k", w.topic,
			w.written, walledKeys)
		must(w.t, err)
	}
}

// arrived waits for all that was written, but for the last few of each key.
func (w *walled) arrived(but int) {
	w.t.Helper()
	w.came.until(walledKeys, w.written-but)
}

// read tells whether a slot is there that somebody reads, or nobody.
func (w *walled) read(active bool) func() bool {
	return func() bool {
		return count(w.conn,
			fmt.Sprintf("SELECT count(*) FROM pg_replication_slots WHERE slot_name = '%s' AND active = %t",
				w.slot, active)) == 1
	}
}

// byWAL starts a relay, and waits until the slot is read.
func (w *walled) byWAL() *program {
	w.t.Helper()
	p := start(w.t, w.env, "relay", "--wal")
	p.until("reading the slot", w.read(true))
	return p
}

// The process that reads the slot is paused for longer than its lease. Another one publishes what is written
// meanwhile, by looking, as the server gives the slot to nobody else. The paused one goes on where that one
// is: none is lost, and each key keeps its order.
func TestRelayWALPaused(t *testing.T) {
	t.Parallel()
	w := newWalled(t)
	first := w.byWAL()
	second := start(t, w.env, "relay", "--wal")
	w.write(20)
	w.arrived(0)
	for range 2 {
		w.write(5)
		first.signal(syscall.SIGSTOP)
		w.write(20)
		w.arrived(0)
		first.signal(syscall.SIGCONT)
		w.write(20)
		w.arrived(0)
	}
	first.until("one reads the slot", w.read(true))
	for _, p := range []*program{first, second} {
		p.signal(syscall.SIGTERM)
		p.expect(0)
	}
	eventually(t, "an idle slot", w.read(false))
}

// A relay by WAL publishes each row once. Killed in the flow, it is followed by one that polls, and that by
// one by WAL: none is lost and each key keeps its order. The slot stays as it was made until somebody drops
// it, and the doctor names it while nobody reads it.
func TestRelayWAL(t *testing.T) {
	t.Parallel()
	w := newWalled(t)
	r := w.byWAL()
	w.write(40)
	w.arrived(0)
	r.until("nothing pending", func() bool { return count(w.conn, "SELECT pending FROM skald_backlog") == 0 })
	ends, err := w.adm.ListEndOffsets(t.Context(), w.topic)
	must(t, err)
	published := int64(0)
	ends.Each(func(o kadm.ListedOffset) { published += o.Offset })
	if published != int64(walledKeys*w.written) {
		t.Errorf("%d records are there of %d rows: in peace each is published once", published,
			walledKeys*w.written)
	}

	// It dies while rows are written, and so does the next.
	flow := func(p *program, more int) {
		t.Helper()
		w.write(more)
		w.arrived(more / 2) // some are on their way
		p.kill()
		w.write(1)
	}
	flow(r, 40)
	eventually(t, "an idle slot", w.read(false))
	polls := start(t, w.env, "relay")
	w.arrived(0)
	if !w.read(false)() {
		t.Error("a relay without --wal reads the slot, or removes it")
	}
	doctor(t, 0, map[string]string{"store/replication slots": "warning " + w.slot + " (active: false)"},
		"--store", w.store)
	flow(polls, 40)
	r = w.byWAL()
	if said := r.errs.String(); strings.Contains(said, "created a replication slot") {
		t.Errorf("it made the slot anew: %s", said)
	}
	w.write(20)
	w.arrived(0)

	// Ended in peace it leaves the slot, as one does that will come back.
	r.signal(syscall.SIGTERM)
	r.expect(0, "stopping")
	eventually(t, "an idle slot", w.read(false))
	do(t, w.conn, dropSlot(w.slot))
	polls = start(t, w.env, "relay")
	w.write(1)
	w.arrived(0)
	if n := count(w.conn,
		"SELECT count(*) FROM pg_replication_slots WHERE database = current_database()"); n != 0 {
		t.Errorf("%d slots are there", n)
	}
	polls.signal(syscall.SIGTERM)
	polls.expect(0)
}

func dropSlot(name string) string {
	return "SELECT pg_drop_replication_slot(slot_name) FROM pg_replication_slots WHERE slot_name = '" + name +
		"'"
}
