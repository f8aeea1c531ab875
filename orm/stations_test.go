package orm

import (
	"context"
	"database/sql"
	"fmt"
	"log/slog"
	"slices"
	"testing"
	"time"

	"github.com/skald-go/skald"
	"github.com/skald-go/skald/broker/membroker"
	"github.com/skald-go/skald/inbox"
	"github.com/skald-go/skald/outbox"
	"github.com/skald-go/skald/relay"
	"github.com/skald-go/skald/store/pgstore"
)

// All stations over lib/pq, whose sessions the server ends again and again, in the midst of whatever they do:
// each message takes effect once, and those of a key in their order.
func TestStationsOverPQWhoseSessionsEnd(t *testing.T) {
	const messages, keys = 200, 8
	b, ctx := newBed(t), t.Context()
	execute(t, b.conn,
		"CREATE TABLE effects (seq bigint GENERATED ALWAYS AS IDENTITY, key text NOT NULL, n bigint NOT NULL)")
	db := b.open(t, "postgres")
	s := pgstore.NewSQL(db, nil)
	bus := membroker.New(nil)
	if err := bus.MakeTopics(ctx, 4, OrderPlaced.Topic); err != nil {
		t.Fatal(err)
	}
	quiet := slog.New(slog.DiscardHandler)
	in := inbox.New(s, bus.Client(), "all",
		&inbox.Options{Retry: inbox.Retry{InitialInterval: time.Millisecond,
			MaxInterval: 50 * time.Millisecond}, Logger: quiet})
	inbox.On(in, OrderPlaced, func(ctx context.Context, tx *sql.Tx, m skald.Received[Order]) error {
		_, err := tx.ExecContext(ctx, "INSERT INTO effects (key, n) VALUES ($1, $2)", m.Value.ID,
			m.Value.Cents)
		return err
	})
	running, end := context.WithCancel(ctx)
	done := make(chan error, 1)
	go func() { done <- skald.Run(running, in, relay.New(s, bus.Client(), &relay.Options{Logger: quiet})) }()

	writer := b.open(t, "pgx") // which is done before sessions end: a writer's own retries are not the point
	out := outbox.New(pgstore.NewSQL(writer, nil), nil)
	for n := range messages {
		tx, err := writer.Begin()
		if err != nil {
			t.Fatal(err)
		}
		if err := out.Write(ctx, tx, OrderPlaced.New(fmt.Sprint("k", n%keys),
			Order{ID: fmt.Sprint("k", n%keys), Cents: int64(n / keys)})); err != nil {
			t.Fatal(err)
		}
		if err := tx.Commit(); err != nil {
			t.Fatal(err)
		}
	}
	if err := writer.Close(); err != nil {
		t.Fatal(err)
	}
	deadline := time.After(5 * time.Minute)
	pace := time.NewTicker(20 * time.Millisecond)
	defer pace.Stop()
	for ended := 0; ; {
		select {
		case err := <-done:
			t.Fatalf("they ended: %v", err)
		case <-deadline:
			t.Fatalf("%d of %d messages are finished", b.Count(t).Marks, messages)
		case <-pace.C:
		}
		if ended < 40 { // then they are left in peace, to come to an end
			ended += one[int](t, b,
				"SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()")
		} else if b.Count(t).Marks == messages {
			break
		}
	}
	end()
	if err := <-done; err != nil {
		t.Error(err)
	}
	for k := range keys {
		var want []int64
		for n := range int64(messages / keys) {
			want = append(want, n)
		}
		if got := one[[]int64](t, b, "SELECT array_agg(n ORDER BY seq) FROM effects WHERE key = $1",
			fmt.Sprint("k", k)); !slices.Equal(got, want) {
			t.Errorf("the effects of k%d are %v", k, got)
		}
	}
}
