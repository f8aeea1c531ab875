package pgstore

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/skald-go/skald"
	"github.com/skald-go/skald/broker/membroker"
	"github.com/skald-go/skald/inbox"
	"github.com/skald-go/skald/internal/need"
	"github.com/skald-go/skald/store"
)

// crew is two instances that handle the same topics in batches.
type crew struct {
	b     *bed
	level store.Isolation
	many  bool

	mu     sync.Mutex
	failed map[string]bool // failed once
}

var countedEvent = skald.Event[int]{Topic: "orders", Type: "told"}

// one is the work of a handler: it appends to the history of its key, and reads and writes a common
// counter.
func (c *crew) one(ctx context.Context, tx pgx.Tx, m skald.Received[int]) error {
	if m.Value%40 == 7 {
		return skald.Reject(errors.New("no"))
	}
	c.mu.Lock()
	first := !c.failed[m.ID]
	c.failed[m.ID] = true
	c.mu.Unlock()
	if m.Value%40 == 11 && first {
		return errors.New("not yet")
	}
	var n int
	err := tx.QueryRow(ctx, c.b.q(`SELECT count(*) FROM {kv} WHERE key LIKE $1`), string(m.Key)+"/%").Scan(&n)
	if err == nil {
		_, err = tx.Exec(ctx, c.b.q(`INSERT INTO {kv} VALUES ($1, $2)`), fmt.Sprintf("%s/%04d", m.Key, n),
			fmt.Sprint(m.Value))
	}
	if err == nil {
		err = tx.QueryRow(ctx, c.b.q(`SELECT coalesce(max(value::int), 0) FROM {kv} WHERE key = $1`),
			fmt.Sprint("count", m.Value%3)).Scan(&n)
	}
	if err == nil {
		_, err = tx.Exec(ctx,
			c.b.q(`INSERT INTO {kv} VALUES ($1, $2) ON CONFLICT (key) DO UPDATE SET value = excluded.value`),
			fmt.Sprint("count", m.Value%3), fmt.Sprint(n+1))
	}
	return err
}

func (c *crew) inbox(t *testing.T, bus *membroker.Broker) *inbox.Inbox[pgx.Tx] {
	in := inbox.New[pgx.Tx](c.b.store(t), bus.Client(), "stock",
		&inbox.Options{Batch: 30, Workers: 3, Transaction: inbox.Transaction{Isolation: c.level,
			Entities: func(m skald.Message) []store.Lock {
				n, _ := strconv.Atoi(string(m.Data))
				return []store.Lock{{Space: "count", Key: strconv.Itoa(n % 3)},
					{Space: "key", Key: string(m.Key)}}
			}}, Retry: inbox.Retry{InitialInterval: time.Millisecond, MaxInterval: time.Millisecond},
			Logger: slog.New(slog.DiscardHandler)})
	if !c.many {
		inbox.On(in, countedEvent, c.one)
	}
	if c.many {
		inbox.OnBatch(in, countedEvent, func(ctx context.Context, tx pgx.Tx, ms []skald.Received[int]) error {
			for i, m := range ms {
				if err := c.one(ctx, tx, m); err != nil {
					return inbox.FailMessage(i, err)
				}
			}
			return nil
		})
	}
	return in
}

// TestBatchesOfRivals checks two instances that handle the same keys and entities in batches, with
// rejections, failures and repeats: each effect exists once, those of a key in order, and no update is
// lost.
// Interleaving 14.
func TestBatchesOfRivals(t *testing.T) {
	t.Parallel()
	need.Postgres(t)
	for name, c := range map[string]*crew{"read committed": {}, "serializable": {level: store.Serializable},
		"at once": {many: true}} {
		t.Run(name, func(t *testing.T) {
			c.b, c.failed = newBed(t), map[string]bool{}
			const messages, keys = 600, 20
			bus := membroker.New(nil)
			if err := bus.MakeTopics(t.Context(), 4, "orders"); err != nil {
				t.Fatal(err)
			}
			var all []skald.Message
			for n := range messages {
				all = append(all, skald.Message{ID: fmt.Sprintf("m-%d", n), Source: "/other", Type: "told",
					Topic: "orders", Key: fmt.Append(nil, "k", n%keys), Data: fmt.Append(nil, n)})
			}
			if err := bus.Publish(t.Context(), append(all, all[:100]...)).Wait(t.Context()); err != nil {
				t.Fatal(err)
			}
			ctx, stop := context.WithCancel(t.Context())
			var wg sync.WaitGroup
			for range 2 {
				in := c.inbox(t, bus)
				wg.Go(func() {
					if err := in.Run(ctx); err != nil {
						t.Error(err)
					}
				})
			}
			finished := func() bool {
				return one[int](t, c.b, `SELECT count(*) FROM {skald_mark}`) == messages &&
					one[int](t, c.b, `SELECT count(*) FROM {skald_parked}`) == 0
			}
			for deadline := time.Now().Add(5 * time.Minute); !finished() && time.Now().Before(deadline); {
				select {
				case <-time.After(20 * time.Millisecond):
				case <-t.Context().Done():
				}
			}
			stop()
			wg.Wait()
			c.check(t, messages, keys)
		})
	}
}

func (c *crew) check(t *testing.T, messages, keys int) {
	t.Helper()
	kept, err := store.ListParked(t.Context(), c.b.store(t), store.ParkedQuery{Limit: 10})
	if err != nil || len(kept) > 0 {
		t.Errorf("still parked: %+v, %v", kept, err)
	}
	for k := range keys {
		var want []string
		for n := k; n < messages; n += keys {
			if n%40 != 7 {
				want = append(want, fmt.Sprint(n))
			}
		}
		got := one[string](t, c.b,
			fmt.Sprintf(
				`SELECT coalesce(string_agg(value, ' ' ORDER BY key), '') FROM {kv} WHERE key LIKE 'k%d/%%'`,
				k))
		if got != strings.Join(want, " ") {
			t.Errorf("k%d has %s, want %v", k, got, want)
		}
	}
	if n, want := one[int](t, c.b,
		`SELECT sum(value::int) FROM {kv} WHERE key LIKE 'count%'`), messages-messages/40; n != want {
		t.Errorf("%d are counted, want %d", n, want)
	}
	if n := one[int](t, c.b,
		`SELECT count(*) FROM {skald_mark} AS m LEFT JOIN {skald_answer} AS a ON a.arrival = m.arrival WHERE coalesce(a.outcome, m.outcome) = 2`); n != messages/40 {
		t.Errorf("%d are rejected, want %d", n, messages/40)
	}
}

// The marks of a batch arrive in the order of its messages, for any IDs. The auditor of the shop reads that
// order.
func TestMarksOfABatchArriveInOrder(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	var in store.Intake
	for n := range 20 {
		m := aMark()
		m.ID, m.KeyOrder, m.Key = fmt.Sprintf("m-%02d", 99-n), store.Arriving, []byte("k")
		in.Marks = append(in.Marks, m)
	}
	u, err := b.store(t).Begin(t.Context(), in)
	if err == nil {
		err = u.Commit(t.Context())
	}
	if err != nil {
		t.Fatal(err)
	}
	got := one[string](t, b, `SELECT string_agg(id, ' ' ORDER BY arrival) FROM {skald_mark}`)
	if want := one[string](t, b, `SELECT string_agg(id, ' ' ORDER BY id DESC) FROM {skald_mark}`); got != want {
		t.Errorf("the marks arrived in the order %s", got)
	}
}
