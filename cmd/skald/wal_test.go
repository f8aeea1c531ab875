package main_test

import (
	"context"
	"fmt"
	"strings"
	"syscall"
	"testing"
	"time"

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

// The process that reads the slot is paused for longer than its lease. Another one publishes what is written
// meanwhile, by looking, as the server gives the slot to nobody else. The paused one goes on where that one
// is: none is lost, and each key keeps its order.
func TestRelayWALPaused(t *testing.T) {
	t.Parallel()
	at, conn := postgres(t)
	bus, prefix, adm := kafka(t)
	topic := event.New(prefix).Topics()[0]
	_, err := adm.CreateTopic(t.Context(), 2, -1, nil, topic)
	must(t, err)
	cl, err := kgo.NewClient(kgo.SeedBrokers(strings.TrimPrefix(bus, "kafka://")), kgo.ConsumeTopics(topic), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
	must(t, err)
	t.Cleanup(cl.Close)
	came := &topicLog{t: t, cl: cl, last: map[string]int{}}
	env := []string{"SKALD_STORE=" + at, "SKALD_BROKER=" + bus}
	start(t, env, "migrate").expect(0)
	slot := "skald_" + conn.Config().Database + "_public"
	t.Cleanup(func() { _, _ = conn.Exec(context.Background(), dropSlot(slot)) })
	readers := func() int {
		return count(conn, "SELECT count(*) FROM pg_replication_slots WHERE active AND slot_name = '"+slot+"'")
	}
	const keys = 5
	written := 0
	write := func(times int) {
		for range times {
			written++
			_, err := conn.Exec(t.Context(), "INSERT INTO skald_outbox (topic, key, type, data) SELECT $1, 'k' || k, 'x', $2::int::text FROM generate_series(0, $3::int - 1) AS k", topic, written, keys)
			must(t, err)
		}
	}
	first := start(t, env, "relay", "--wal")
	first.until("reading the slot", func() bool { return readers() == 1 })
	second := start(t, env, "relay", "--wal")
	write(20)
	came.until(keys, written)
	for range 2 {
		write(5)
		first.signal(syscall.SIGSTOP)
		write(20)
		came.until(keys, written)
		first.signal(syscall.SIGCONT)
		write(20)
		came.until(keys, written)
	}
	first.until("one reads the slot", func() bool { return readers() == 1 })
	for _, p := range []*program{first, second} {
		p.signal(syscall.SIGTERM)
		p.expect(0)
	}
	eventually(t, "an idle slot", func() bool { return readers() == 0 })
}

// A relay by WAL publishes each row once. Killed in the flow, it is followed by one that polls, and that by
// one by WAL: none is lost and each key keeps its order. The slot stays as it was made until somebody drops
// it, and the doctor names it while nobody reads it.
func TestRelayWAL(t *testing.T) {
	t.Parallel()
	at, conn := postgres(t)
	bus, prefix, adm := kafka(t)
	topic := event.New(prefix).Topics()[0]
	_, err := adm.CreateTopic(t.Context(), 2, -1, nil, topic)
	must(t, err)
	cl, err := kgo.NewClient(kgo.SeedBrokers(strings.TrimPrefix(bus, "kafka://")), kgo.ConsumeTopics(topic), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
	must(t, err)
	t.Cleanup(cl.Close)
	came := &topicLog{t: t, cl: cl, last: map[string]int{}}
	env := []string{"SKALD_STORE=" + at, "SKALD_BROKER=" + bus}
	start(t, env, "migrate").expect(0)

	slot := "skald_" + conn.Config().Database + "_public"
	t.Cleanup(func() { _, _ = conn.Exec(context.Background(), dropSlot(slot)) })
	reads := func(active bool) func() bool {
		return func() bool {
			return count(conn, fmt.Sprintf("SELECT count(*) FROM pg_replication_slots WHERE slot_name = '%s' AND active = %t", slot, active)) == 1
		}
	}
	byWAL := func() *program {
		t.Helper()
		p := start(t, env, "relay", "--wal")
		p.until("reading the slot", reads(true))
		return p
	}
	const keys = 5
	r := byWAL()
	written := 0
	write := func() {
		written++
		_, err := conn.Exec(t.Context(), "INSERT INTO skald_outbox (topic, key, type, data) SELECT $1, 'k' || k, 'x', $2::int::text FROM generate_series(0, $3::int - 1) AS k", topic, written, keys)
		must(t, err)
	}
	for range 40 {
		write()
	}
	came.until(keys, written)
	r.until("nothing pending", func() bool { return count(conn, "SELECT pending FROM skald_backlog") == 0 })
	ends, err := adm.ListEndOffsets(t.Context(), topic)
	must(t, err)
	published := int64(0)
	ends.Each(func(o kadm.ListedOffset) { published += o.Offset })
	if published != int64(keys*written) {
		t.Errorf("%d records are there of %d rows: in peace each is published once", published, keys*written)
	}

	// It dies while rows are written, and so does the next.
	flow := func(p *program, more int) {
		t.Helper()
		for range more {
			write()
		}
		came.until(keys, written-more/2) // some are on their way
		p.kill()
		write()
	}
	flow(r, 40)
	eventually(t, "an idle slot", reads(false))
	polls := start(t, env, "relay")
	came.until(keys, written)
	if !reads(false)() {
		t.Error("a relay without --wal reads the slot, or removes it")
	}
	doctor(t, 0, map[string]string{"store/replication slots": "warning " + slot + " (active: false)"}, "--store", at)
	flow(polls, 40)
	r = byWAL()
	if said := r.errs.String(); strings.Contains(said, "made a replication slot") {
		t.Errorf("it made the slot anew: %s", said)
	}
	for range 20 {
		write()
	}
	came.until(keys, written)

	// Ended in peace it leaves the slot, as one does that will come back.
	r.signal(syscall.SIGTERM)
	r.expect(0, "stopping")
	eventually(t, "an idle slot", reads(false))
	do(t, conn, dropSlot(slot))
	polls = start(t, env, "relay")
	write()
	came.until(keys, written)
	if n := count(conn, "SELECT count(*) FROM pg_replication_slots WHERE database = current_database()"); n != 0 {
		t.Errorf("%d slots are there", n)
	}
	polls.signal(syscall.SIGTERM)
	polls.expect(0)
}

func dropSlot(name string) string {
	return "SELECT pg_drop_replication_slot(slot_name) FROM pg_replication_slots WHERE slot_name = '" + name + "'"
}
