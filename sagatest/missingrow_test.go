package sagatest_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/skald-go/skald"
	"github.com/skald-go/skald/inbox"
	"github.com/skald-go/skald/store"
	"github.com/skald-go/skald/store/pgstore"
)

// TestSeededBugOfALockOnAMissingRow: SELECT … FOR UPDATE locks nothing if the row does not exist, so one of
// two first reservations of an article is lost. The first lock of an entity of Options.Transaction.Entities
// creates its row, so there is always a row to lock.
func TestSeededBugOfALockOnAMissingRow(t *testing.T) {
	for name, c := range map[string]struct {
		entity, there bool
		want          int64 // of two reservations
	}{
		"an entity":                   {entity: true, want: 2},
		"the bug":                     {want: 1},
		"the bug, with a row by luck": {there: true, want: 2},
	} {
		t.Run(name, func(t *testing.T) {
			if got := firstReservations(t, c.entity, c.there); got != c.want {
				t.Errorf("%d of two reservations are there, want %d", got, c.want)
			}
		})
	}
}

// firstReservations runs two reservations. Between the read and the write of one reservation, the other has
// time to read and write, or to wait for its lock.
func firstReservations(t *testing.T, entity, there bool) (n int64) {
	pool, schema := fewConnections(t, 6)
	ctx, in := t.Context(), func(q string) string { return fmt.Sprintf(q, schema+".reserved") }
	if _, err := pool.Exec(ctx, in(`CREATE TABLE %s (sku text PRIMARY KEY, n bigint NOT NULL)`)); err != nil {
		t.Fatal(err)
	}
	if there {
		if _, err := pool.Exec(ctx, in(`INSERT INTO %s VALUES ('tea', 0)`)); err != nil {
			t.Fatal(err)
		}
	}
	bus, meanwhile := clash(t, 1), func() {}
	gaveUp := false
	db := &lookedAt[pgx.Tx]{Driver: pgstore.New(pool, &pgstore.Options{Schema: schema}),
		outage: func() { gaveUp = true }}
	consumer := func(topic string, wait time.Duration) *inbox.Inbox[pgx.Tx] {
		o := &inbox.Options{Logger: slog.New(slog.DiscardHandler),
			Retry:    inbox.Retry{InitialInterval: time.Millisecond, MaxInterval: 20 * time.Millisecond},
			Timeouts: inbox.Timeouts{Wait: wait, Handle: 5 * time.Minute}}
		if entity {
			o.Transaction.Entities = func(skald.Message) []store.Lock {
				return []store.Lock{{Space: "sku",
					Key: "tea"}}
			}
		}
		c := inbox.New(db, bus.Client(), topic, o)
		c.Handle(topic, topic, func(ctx context.Context, tx pgx.Tx, _ skald.Message) error {
			var had int64
			err := tx.QueryRow(ctx, in(`SELECT n FROM %s WHERE sku = 'tea' FOR UPDATE`)).Scan(&had)
			if err != nil && !errors.Is(err, pgx.ErrNoRows) {
				return err
			}
			do := meanwhile
			meanwhile = func() {}
			do()
			_, err = tx.Exec(ctx,
				in(`INSERT INTO %s VALUES ('tea', $1) ON CONFLICT (sku) DO UPDATE SET n = excluded.n`), had+1)
			return err
		})
		return c
	}
	step := func(c *inbox.Inbox[pgx.Tx], enough func(inbox.Health) bool) {
		for !enough(c.Health()) && !t.Failed() {
			if _, err := c.Step(ctx); err != nil {
				t.Error(err)
			}
		}
	}
	first, second := consumer("updates", 5*time.Minute), consumer("cancels", 30*time.Millisecond)
	meanwhile = func() {
		step(second, func(h inbox.Health) bool { return h.Handled == 1 || (entity || there) && gaveUp })
	}
	done := func(h inbox.Health) bool { return h.Handled == 1 }
	step(first, done)
	step(second, done)
	if err := pool.QueryRow(ctx, in(`SELECT n FROM %s WHERE sku = 'tea'`)).Scan(&n); err != nil {
		t.Error(err)
	}
	return n
}

// lookedAt reports each wait for a lock that timed out: the wait for an entity, and the wait for a row.
type lookedAt[TTx any] struct {
	store.Driver[TTx]
	outage func()
}

func (d *lookedAt[TTx]) Begin(ctx context.Context, in store.Intake) (store.Unit[TTx], error) {
	u, err := d.Driver.Begin(ctx, in)
	if err != nil {
		d.outage()
	}
	return lookedAtUnit[TTx]{u, d}, err
}

type lookedAtUnit[TTx any] struct {
	store.Unit[TTx]
	d *lookedAt[TTx]
}

// Found hides that the next unit could begin with the commit, because such a unit would not be wrapped.
func (u lookedAtUnit[TTx]) Found() store.Found {
	f := u.Unit.Found()
	f.Follows = false
	return f
}

func (u lookedAtUnit[TTx]) Outage(ctx context.Context, err error) bool {
	is := u.Unit.Outage(ctx, err)
	if is {
		u.d.outage()
	}
	return is
}

func (d *lookedAt[TTx]) Outage(err error) bool {
	is := d.Driver.Outage(err)
	if is {
		d.outage()
	}
	return is
}
