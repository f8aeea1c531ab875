package sagatest_test

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	mathrand "math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/skald-go/skald"
	"github.com/skald-go/skald/broker"
	"github.com/skald-go/skald/broker/kafkabroker"
	"github.com/skald-go/skald/broker/membroker"
	"github.com/skald-go/skald/internal/need"
	"github.com/skald-go/skald/outbox"
	"github.com/skald-go/skald/relay"
	"github.com/skald-go/skald/store"
	"github.com/skald-go/skald/store/pgstore"
)

var attackFor = flag.Duration("attack.for", 5*time.Second,
	"how long each attack on the order of messages lasts")

const (
	attackTTL  = 500 * time.Millisecond
	attackKeys = 5
)

// attack is an outbox on PostgreSQL with hot keys, and with relays that stop, crash and pause.
type attack struct {
	t        *testing.T
	schema   string
	topic    string
	pool     *pgxpool.Pool
	bus      func(name string) broker.Broker // a relay of that name has its own client
	carry    func(ctx context.Context, name string) error
	dozes    atomic.Int64
	sessions atomic.Int64
}

func newAttack(t *testing.T) *attack {
	t.Helper()
	return newAttackAt(t, need.Postgres(t))
}

func newAttackAt(t *testing.T, url string) *attack {
	t.Helper()
	ctx := context.Background()
	a := &attack{t: t, schema: "attack_" + strings.ToLower(rand.Text()[:10])}
	a.topic, a.carry = a.schema, a.suffer
	cfg, err := pgxpool.ParseConfig(url)
	if err != nil {
		t.Fatal(err)
	}
	cfg.MaxConns = 30
	if a.pool, err = pgxpool.NewWithConfig(ctx, cfg); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		a.exec("DROP SCHEMA IF EXISTS " + a.schema + " CASCADE")
		a.pool.Close()
	})
	a.exec("CREATE SCHEMA " + a.schema)
	if _, err := pgstore.Migrate(ctx, a.pool, &pgstore.MigrateOptions{Schema: a.schema}); err != nil {
		t.Fatal(err)
	}
	a.exec("CREATE TABLE " + a.schema + ".hot (key text PRIMARY KEY, n integer NOT NULL)")
	a.exec("INSERT INTO "+a.schema+".hot SELECT 'k' || g, 0 FROM generate_series(0, $1 - 1) AS g", attackKeys)
	return a
}

func (a *attack) exec(sql string, args ...any) {
	a.t.Helper()
	if _, err := a.pool.Exec(context.Background(), sql, args...); err != nil {
		a.t.Errorf("%s: %v", sql, err)
	}
}

func (a *attack) store() *pgstore.Store {
	return pgstore.New(a.pool, &pgstore.Options{Schema: a.schema})
}

// doze sometimes waits for longer than a lease, as a paused process does.
func (a *attack) doze(ctx context.Context) {
	if mathrand.IntN(60) > 0 {
		return
	}
	a.dozes.Add(1)
	select {
	case <-time.After(attackTTL + attackTTL/2):
	case <-ctx.Done():
	}
}

// dozer is the database of a relay that may pause before and after each call.
type dozer struct {
	*pgstore.Store
	a *attack
}

func (d dozer) Pull(ctx context.Context, w store.Window, limit int) (store.Page, error) {
	d.a.doze(ctx)
	defer d.a.doze(ctx)
	return d.Store.Pull(ctx, w, min(limit, 20)) // so that a window has many pages
}

func (d dozer) Apply(ctx context.Context, es ...store.Effect) ([]bool, error) {
	d.a.doze(ctx)
	defer d.a.doze(ctx)
	return d.Store.Apply(ctx, es...)
}

func (d dozer) Lease(ctx context.Context, ask store.LeaseRequest) (store.Leased, error) {
	d.a.doze(ctx)
	if ask.Owner == "" {
		defer d.a.doze(ctx)
	}
	return d.Store.Lease(ctx, ask)
}

// dozingBus is the broker of a relay that may pause before a publish.
type dozingBus struct {
	broker.Broker
	a *attack
}

func (d dozingBus) Publish(ctx context.Context, ms []skald.Message, only ...broker.Topics) broker.Pending {
	d.a.doze(ctx)
	return d.Broker.Publish(ctx, ms, only...)
}

// suffer runs the sessions of a relay until ctx is done. Some sessions stop normally, others are killed.
func (a *attack) suffer(ctx context.Context, name string) error {
	bus := dozingBus{a.bus(name), a}
	for ctx.Err() == nil {
		o := &relay.Options{Owner: name, TTL: attackTTL, Save: 50 * time.Millisecond,
			MaxPollInterval: 20 * time.Millisecond, InFlight: 200,
			Logger: slog.New(slog.DiscardHandler)}
		if mathrand.IntN(2) == 0 {
			o.Drain = time.Nanosecond
		}
		session, end := context.WithTimeout(ctx, time.Duration(200+mathrand.IntN(1500))*time.Millisecond)
		err := relay.New(dozer{a.store(), a}, bus, o).Run(session)
		end()
		a.sessions.Add(1)
		if err != nil {
			return err
		}
	}
	return nil
}

// write runs a writer. It draws its number early or late, locks late, and commits late or rolls back.
func (a *attack) write(ctx context.Context, out *outbox.Outbox[pgx.Tx]) error {
	tx, err := a.pool.Begin(ctx)
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback(ctx) }()
	pause := func(most float64) error {
		_, err := tx.Exec(ctx, `SELECT pg_sleep($1)`, mathrand.Float64()*most)
		return err
	}
	if mathrand.IntN(2) == 0 {
		_, err := tx.Exec(ctx, `SELECT pg_current_xact_id()`)
		if err = errors.Join(err, pause([]float64{0.01, 0.01, 0.2}[mathrand.IntN(3)])); err != nil {
			return err
		}
	}
	key, n := fmt.Sprint("k", mathrand.IntN(attackKeys)), 0
	if err := tx.QueryRow(ctx, `UPDATE `+a.schema+`.hot SET n = n + 1 WHERE key = $1 RETURNING n`,
		key).Scan(&n); err != nil {
		return err
	}
	if err := out.Write(ctx, tx, skald.Draft{Topic: a.topic, Type: "t", Key: []byte(key),
		Value: n}); err != nil {
		return err
	}
	if err := pause(0.01); err != nil || mathrand.IntN(10) == 0 {
		return err
	}
	return tx.Commit(ctx)
}

// heard is the state of a consumer. For each key it has the largest number up to which all first deliveries
// have arrived without a gap.
type heard struct {
	last     map[string]int
	seen     map[string]bool
	repeats  int
	inverted []string
}

func (h *heard) hear(d broker.Delivery) error {
	if d.Fault != nil {
		return d.Fault
	}
	if h.seen[d.ID] {
		h.repeats++
		return nil
	}
	h.seen[d.ID] = true
	var n int
	if err := json.Unmarshal(d.Data, &n); err != nil {
		return err
	}
	if k := string(d.Key); n != h.last[k]+1 {
		h.inverted = append(h.inverted, fmt.Sprintf("of key %s, %d comes behind %d", k, n, h.last[k]))
	}
	h.last[string(d.Key)] = n
	return nil
}

func (h *heard) receive(ctx context.Context, sub broker.Subscription) error {
	b, err := sub.Receive(ctx, 1000)
	if err != nil {
		return nil // an outage; the deadline reports it
	}
	for _, d := range b.Deliveries {
		if err := h.hear(d); err != nil {
			return err
		}
	}
	return sub.Ack(ctx, b.Deliveries)
}

// run runs the attack for a duration, and returns the errors in the received messages.
func (a *attack) run(span time.Duration) error {
	t := a.t
	t.Helper()
	ctx := context.Background()
	out := outbox.New(a.store(), nil)
	old, err := a.pool.Begin(ctx) // open all the time
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = old.Rollback(ctx) }()
	for n := range 50 {
		if err := out.Write(ctx, old, skald.Draft{Topic: a.topic, Type: "t", Key: []byte("old"),
			Value: n + 1}); err != nil {
			t.Fatal(err)
		}
	}
	over, stop := a.lasting(ctx, span)
	defer stop()
	var writers, relays sync.WaitGroup
	for range 6 {
		writers.Go(func() {
			for over.Err() == nil {
				if err := a.write(ctx, out); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	for _, name := range []string{"a", "b", "c"} {
		relays.Go(func() {
			if err := a.carry(over, name); err != nil {
				t.Errorf("relay %s: %v", name, err)
			}
		})
	}
	sub, err := a.bus("reader").Subscribe(ctx, broker.Group{Name: a.topic, Topics: []string{a.topic}})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = sub.Close(ctx) }()
	h := &heard{last: map[string]int{}, seen: map[string]bool{}}
	writers.Wait()
	relays.Wait()
	if err := old.Commit(ctx); err != nil {
		t.Fatal(err)
	}
	return a.finish(h, sub)
}

// lasting returns a context that ends after the duration, or later: at least some relays must have
// paused, even on a slow machine.
func (a *attack) lasting(ctx context.Context, span time.Duration) (context.Context, context.CancelFunc) {
	ctx, stop := context.WithTimeout(ctx, span+5*time.Minute)
	time.AfterFunc(span, func() {
		for ctx.Err() == nil && a.dozes.Load() < 5 {
			<-time.After(20 * time.Millisecond)
		}
		stop()
	})
	return ctx, stop
}

// finish lets one relay work undisturbed until all committed messages have arrived.
func (a *attack) finish(h *heard, sub broker.Subscription) error {
	t := a.t
	t.Helper()
	ctx, stop := context.WithTimeout(context.Background(), 5*time.Minute)
	defer stop()
	want := map[string]int{"old": 50}
	rows, err := a.pool.Query(ctx, `SELECT key, n FROM `+a.schema+`.hot`)
	if err != nil {
		t.Fatal(err)
	}
	for rows.Next() {
		var k string
		var n int
		if err := rows.Scan(&k, &n); err != nil {
			t.Fatal(err)
		}
		want[k] = n
	}
	rows.Close()
	live, end := context.WithCancel(ctx)
	var last sync.WaitGroup
	last.Go(func() {
		if err := relay.New(a.store(), a.bus("last"),
			&relay.Options{Owner: "last", Logger: slog.New(slog.DiscardHandler)}).Run(live); err != nil {
			t.Errorf("the last relay: %v", err)
		}
	})
	total, tick := 0, time.NewTicker(10*time.Millisecond)
	defer tick.Stop()
	for _, n := range want {
		total += n
	}
	for len(h.seen) < total && ctx.Err() == nil {
		if err := h.receive(ctx, sub); err != nil {
			t.Error(err)
			break
		}
		<-tick.C
	}
	end()
	last.Wait()
	var bad []error
	if n := len(h.seen); n != total {
		bad = append(bad, fmt.Errorf("lost: of %d messages %d came", total, n))
	}
	if len(h.inverted) > 0 {
		bad = append(bad, fmt.Errorf("%d inverted first deliveries: %s", len(h.inverted),
			strings.Join(h.inverted[:min(5, len(h.inverted))], "; ")))
	}
	var epochs int
	if err := a.pool.QueryRow(context.Background(), `SELECT sum(epoch) FROM `+a.schema+
		`.skald_shard`).Scan(&epochs); err != nil {
		t.Fatal(err)
	}
	t.Logf(
		"%d messages, %d repeats, %d lives of relays, %d pauses longer than a lease, shards taken %d times",
		len(h.seen), h.repeats, a.sessions.Load(), a.dozes.Load(), epochs)
	if a.dozes.Load() == 0 {
		t.Error("nothing went wrong")
	}
	return errors.Join(bad...)
}

// TestAttackOnOrder has hot keys, writers that draw their numbers early and commit late, a transaction that
// stays open, and relays that are stopped, killed, and paused within a batch for longer than their leases.
// No message is lost, and the first deliveries of each key have the order of the commits.
// Interleaving 15.
func TestAttackOnOrder(t *testing.T) {
	t.Parallel()
	attackOnOrder(t, newAttack(t))
}

// TestAttackOnOrderThroughPgBouncer: another client gets the session after each transaction.
func TestAttackOnOrderThroughPgBouncer(t *testing.T) {
	t.Parallel()
	at := need.PgBouncer(t)
	attackOnOrder(t, newAttackAt(t, at+"&default_query_exec_mode=cache_describe"))
}

func attackOnOrder(t *testing.T, a *attack) {
	t.Helper()
	bus := membroker.New(nil)
	if err := bus.MakeTopics(t.Context(), 4, a.topic); err != nil {
		t.Fatal(err)
	}
	a.bus = func(string) broker.Broker { return bus.Client() }
	if err := a.run(*attackFor); err != nil {
		t.Error(err)
	}
}

// poll publishes rows as tutorials do. It claims a batch with SKIP LOCKED, publishes the batch, and marks its
// rows.
func (a *attack) poll(ctx context.Context, name string) error {
	bus := dozingBus{a.bus(name), a}
	for ctx.Err() == nil {
		err := pgx.BeginFunc(context.Background(), a.pool, func(tx pgx.Tx) error {
			rows, err := tx.Query(ctx, `SELECT seq, id::text, key, data FROM `+a.schema+`.skald_outbox AS o
				WHERE erased_at IS NULL ORDER BY seq LIMIT 10 FOR UPDATE OF o SKIP LOCKED`)
			if err != nil {
				return err
			}
			var ms []skald.Message
			var seqs []int64
			for rows.Next() {
				var seq int64
				m := skald.Message{Source: "/s", Type: "t", Topic: a.topic, ContentType: "application/json",
					Time: time.Now()}
				if err := rows.Scan(&seq, &m.ID, &m.Key, &m.Data); err != nil {
					return err
				}
				ms, seqs = append(ms, m), append(seqs, seq)
			}
			if rows.Err() != nil || len(ms) == 0 {
				return rows.Err()
			}
			if err := bus.Publish(ctx, ms).Wait(ctx); err != nil {
				return err
			}
			// any column will do
			_, err = tx.Exec(ctx, `UPDATE `+a.schema+
				`.skald_outbox SET erased_at = now() WHERE seq = ANY ($1::bigint[])`, seqs)
			return err
		})
		if err != nil && ctx.Err() == nil {
			return err
		}
	}
	return nil
}

// TestAttackFindsSkipLocked runs the same attack on pollers that claim with SKIP LOCKED. It finds that they
// overtake each other.
// Interleaving 15.
func TestAttackFindsSkipLocked(t *testing.T) {
	t.Parallel()
	for deadline := time.Now().Add(5 * time.Minute); ; { // by chance they may not meet
		a := newAttack(t)
		bus := membroker.New(nil)
		if err := bus.MakeTopics(t.Context(), 4, a.topic); err != nil {
			t.Fatal(err)
		}
		a.bus, a.carry = func(string) broker.Broker { return bus.Client() }, a.poll
		err := a.run(*attackFor)
		t.Log(err)
		if err != nil && strings.Contains(err.Error(), "inverted") {
			return
		}
		if t.Failed() || time.Now().After(deadline) {
			t.Fatalf("claims with SKIP LOCKED were not found to overtake each other: %v", err)
		}
	}
}

// TestAttackOnOrderKafka runs the attack with Kafka.
// Interleaving 15.
func TestAttackOnOrderKafka(t *testing.T) {
	t.Parallel()
	seeds := need.Kafka(t)
	a := newAttack(t)
	var mu sync.Mutex
	a.bus = func(string) broker.Broker {
		b, err := kafkabroker.New(seeds, nil)
		if err != nil {
			t.Error(err)
			return nil
		}
		mu.Lock()
		defer mu.Unlock()
		t.Cleanup(func() { _ = b.Close() })
		return b
	}
	if err := a.bus("").MakeTopics(t.Context(), 4, a.topic); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		client, err := kgo.NewClient(kgo.SeedBrokers(seeds))
		if err != nil {
			t.Fatal(err)
		}
		defer client.Close()
		if _, err := kadm.NewClient(client).DeleteTopics(context.Background(), a.topic); err != nil {
			t.Error(err)
		}
	})
	if err := a.run(*attackFor); err != nil {
		t.Error(err)
	}
}
