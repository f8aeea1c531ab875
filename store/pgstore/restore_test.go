package pgstore_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/skald-go/skald"
	"github.com/skald-go/skald/broker/membroker"
	"github.com/skald-go/skald/inbox"
	"github.com/skald-go/skald/internal/need"
	"github.com/skald-go/skald/store"
	"github.com/skald-go/skald/store/pgstore"
)

// reader is a consumer in two instances, on its own cluster, that works while messages arrive.
type reader struct {
	*testing.T
	*need.Cluster
	bus  *membroker.Broker
	ins  []*inbox.Inbox[pgx.Tx]
	sent atomic.Int64
}

func newReader(t *testing.T) *reader {
	r := &reader{T: t, Cluster: need.NewCluster(t),
		bus: membroker.New(&membroker.Options{Partitions: 4, Retain: -1})}
	r.SQL("postgres", "CREATE DATABASE stock")
	if err := r.bus.MakeTopics(t.Context(), 0, "orders"); err != nil {
		t.Fatal(err)
	}
	for i := range 2 {
		pool, err := pgxpool.New(t.Context(), r.URL("stock"))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(pool.Close)
		if i == 0 {
			if _, err := pgstore.Migrate(t.Context(), pool, nil); err != nil {
				t.Fatal(err)
			}
			r.SQL("stock", "CREATE TABLE effect (n bigserial, key text, id text)")
		}
		in := inbox.New(pgstore.New(pool, nil), r.bus.Client(), "stock",
			&inbox.Options{Instance: inbox.Instance{Member: fmt.Sprint("i", i)}, Workers: 4,
				Retry: inbox.Retry{MaxInterval: time.Second}, Logger: slog.New(slog.DiscardHandler)})
		in.Handle("orders", "said", func(ctx context.Context, tx pgx.Tx, m skald.Message) error {
			_, err := tx.Exec(ctx, "INSERT INTO effect (key, id) VALUES ($1, $2)", string(m.Key), m.ID)
			return err
		})
		r.ins = append(r.ins, in)
	}
	return r
}

// work runs the instances and a producer until they are stopped.
func (r *reader) work() (silence, stop func()) {
	ctx, cancel := context.WithCancel(r.Context())
	quiet := make(chan struct{})
	var wg, producer sync.WaitGroup
	for _, in := range r.ins {
		wg.Go(func() {
			if err := in.Run(ctx); err != nil {
				r.Errorf("the consumer ended: %v", err)
			}
		})
	}
	producer.Go(func() {
		tick := time.NewTicker(2 * time.Millisecond)
		defer tick.Stop()
		for {
			select {
			case <-quiet:
				return
			case <-ctx.Done(): // the test has failed meanwhile
				return
			case <-tick.C:
			}
			n := r.sent.Load()
			m := skald.Message{ID: fmt.Sprintf("m-%06d", n), Source: "/other", Topic: "orders", Type: "said",
				Key: fmt.Append(nil, "k", n%7), Data: []byte("{}")}
			if err := r.bus.Publish(ctx, []skald.Message{m}).Wait(ctx); err != nil {
				if ctx.Err() == nil {
					r.Errorf("publish: %v", err)
				}
				return
			}
			r.sent.Add(1)
		}
	})
	return func() { close(quiet); producer.Wait() }, func() { cancel(); wg.Wait(); producer.Wait() }
}

func (r *reader) handled() (n int64) {
	for _, in := range r.ins {
		n += in.Health().Handled
	}
	return n
}

func (r *reader) until(what string, ok func() bool) {
	r.Helper()
	for deadline := time.Now().Add(longest); !ok(); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			r.Fatalf("timeout: %s; %d published, %d handled, %+v", what, r.sent.Load(), r.handled(),
				r.ins[0].Health())
		}
	}
}

// TestConsumerOfADatabaseThatWentBack restores the consumer's database under load to a backup of five
// seconds ago, while its instances run. The broker delivers the messages since then again, although they
// were acknowledged: in the end every effect exists once, in order.
// Interleaving 5.
func TestConsumerOfADatabaseThatWentBack(t *testing.T) {
	t.Parallel()
	r := newReader(t)
	silence, stop := r.work()
	defer stop()
	// The backup cannot have the position of a shard that the database never had.
	r.until("some are taken, of all shards", func() bool {
		return r.handled() > 200 &&
			strings.TrimSpace(r.SQL("stock", "SELECT count(*) FROM skald_checkpoint")) == "4"
	})
	early := r.Backup()
	then, at := r.handled(), time.Now()
	r.until("more are taken, for five seconds",
		func() bool { return r.handled() > then+300 && time.Since(at) > 5*time.Second })
	r.Stop("immediate")
	before := r.handled()
	r.Restore(early)
	r.Start()
	r.until("it goes on", func() bool { return r.handled() > before+200 })
	silence()
	count := func() string { return strings.TrimSpace(r.SQL("stock", "SELECT count(*) FROM effect")) }
	r.until("all are taken", func() bool { return count() == fmt.Sprint(r.sent.Load()) })
	stop()
	if again := r.handled() - r.sent.Load(); again < 200 {
		t.Errorf("only %d messages were taken a second time: was the database put back?", again)
	}
	all := strings.Fields(r.SQL("stock", "SELECT key || '/' || id FROM effect ORDER BY n"))
	last := map[string]string{}
	for _, one := range all {
		key, id, _ := strings.Cut(one, "/")
		if id <= last[key] {
			t.Errorf("%s took effect behind %s", id, last[key])
		}
		last[key] = id
	}
	slices.Sort(all)
	if n := len(slices.Compact(all)); int64(n) != r.sent.Load() {
		t.Errorf("%d different effects of %d messages", n, r.sent.Load())
	}
}

// TestConsumerEndsWhereNumbersAreTaken checks that a running consumer ends when it gets shards from a new
// server whose sequences return used numbers, and that a new one does not start. Neither handles a message.
func TestConsumerEndsWhereNumbersAreTaken(t *testing.T) {
	t.Parallel()
	r := newReader(t)
	running := make(chan error, 1)
	go func() { running <- r.ins[0].Run(t.Context()) }()
	say := func(id string) {
		t.Helper()
		m := skald.Message{ID: id, Source: "/other", Topic: "orders", Type: "said", Key: []byte("k"),
			Data: []byte("{}")}
		if err := r.bus.Publish(t.Context(), []skald.Message{m}).Wait(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	say("m-1")
	r.until("it is taken", func() bool { return r.handled() == 1 })
	r.SQL("stock", "ALTER SEQUENCE skald_arrival RESTART") // as at the other end of a replication
	r.Stop("immediate")
	r.Start()
	ended := func(err error) {
		t.Helper()
		var moved *store.MovedError
		if !errors.As(err, &moved) || !strings.Contains(err.Error(), "skald_arrival") ||
			!strings.Contains(err.Error(), "skald outbox recover") {
			t.Fatalf("it ends with %v", err)
		}
	}
	var err error
	r.until("the one that runs has ended", func() bool {
		select {
		case err = <-running:
			return true
		default:
			return false
		}
	})
	ended(err)
	say("m-2")
	ended(r.ins[1].Run(t.Context()))
	if n := strings.TrimSpace(r.SQL("stock", "SELECT count(*) FROM effect")); n != "1" {
		t.Errorf("%s messages took effect", n)
	}
}
