package sagatest_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/skald-go/skald"
	"github.com/skald-go/skald/failure"
	"github.com/skald-go/skald/internal/need"
	"github.com/skald-go/skald/internal/uuid7"
	"github.com/skald-go/skald/once"
	"github.com/skald-go/skald/outbox"
	"github.com/skald-go/skald/sagatest"
	"github.com/skald-go/skald/store"
)

// payment is the result of once.Do.
type payment struct{ Cents int }

// till is a database of payments, for tests of once.Do.
type till[TTx any] struct {
	*ground[TTx]
	// waited reports whether a transaction waits for a lock. It returns true if the test cannot find out.
	waited func(tx TTx) (bool, error)
}

// TestOnceOnRealDatabases: once.Do on real databases, by the contents of their tables: a new key, a
// repetition, another payload, a rival at the same time, a refusal, and a failure.
func TestOnceOnRealDatabases(t *testing.T) {
	t.Parallel()
	t.Run("SQLite", func(t *testing.T) {
		atTill(t, onSQLite(t), func(*sql.Tx) (bool, error) { return true, nil })
	})
	t.Run("PostgreSQL", func(t *testing.T) {
		look := connect(t, need.Postgres(t))
		atTill(t, onPostgres(t), func(tx pgx.Tx) (waits bool, err error) {
			var pid int32
			if err := tx.QueryRow(t.Context(), "SELECT pg_backend_pid()").Scan(&pid); err != nil {
				return false, err
			}
			err = look.QueryRow(t.Context(),
				"SELECT EXISTS (SELECT FROM pg_stat_activity WHERE $1::integer = ANY (pg_blocking_pids(pid)))", pid).Scan(&waits)
			return waits, err
		})
	})
}

func atTill[TTx any](t *testing.T, open opening[TTx], waited func(tx TTx) (bool, error)) {
	for name, test := range map[string]func(*testing.T, *till[TTx]){
		"again": againAtTill[TTx], "rival": rivalsAtTill[TTx], "refused": refusedAtTill[TTx],
		"failed": failedAtTill[TTx], "written": writtenAtTill[TTx],
	} {
		t.Run(name, func(t *testing.T) {
			// This world has no processes. It only closes the databases at its end.
			_, err := sagatest.Search(t.Context(), func(w *sagatest.World) error {
				on, err := open(w)
				if err == nil {
					test(t, &till[TTx]{on, waited})
				}
				return err
			}, &sagatest.Options{Schedules: []sagatest.Schedule{{}}})
			if err != nil {
				t.Fatal(err)
			}
		})
	}
}

// pay is an effect that would be visible if it happened twice.
func (d *till[TTx]) pay(cents int) func(context.Context, TTx) (payment, error) {
	out := outbox.New(d.raw, nil)
	return func(ctx context.Context, tx TTx) (payment, error) {
		err := d.update(tx, "paid", func(old string) string { return old + fmt.Sprint(cents, " ") })
		return payment{cents}, errors.Join(err, out.Write(ctx, tx, told.New("k", "paid")))
	}
}

// has compares the tables with the expected contents.
func (d *till[TTx]) has(t *testing.T, paid string, said, marks int) {
	t.Helper()
	want := map[string]string{}
	if paid != "" {
		want["paid"] = paid
	}
	user, err := d.user()
	keys, bad := d.said()
	ms, worse := d.marked()
	if err := errors.Join(err, bad, worse); err != nil {
		t.Fatal(err)
	}
	if !maps.Equal(user, want) || len(keys) != said || len(ms) != marks {
		t.Errorf("the user's rows are %v, the outbox has %d, marks are %v; want %v, %d and %d", user,
			len(keys), ms, want, said, marks)
	}
}

func againAtTill[TTx any](t *testing.T, d *till[TTx]) {
	for i := range 3 {
		got, replayed, err := once.Do(t.Context(), d.raw, "charge", "a",
			map[string]int{"cents": 7}, d.pay(7+i))
		if err != nil || replayed != (i > 0) || got.Cents != 7 {
			t.Errorf("%d: %+v, replayed %v, %v", i, got, replayed, err)
		}
	}
	var other *once.ConflictError
	if _, _, err := once.Do(t.Context(), d.raw, "charge", "a", map[string]int{"cents": 8},
		d.pay(8)); !errors.As(err, &other) || other.Consumer != "charge" || other.ID != "a" {
		t.Errorf("another payload: %v", err)
	}
	d.has(t, "7 ", 1, 1)
	if got, replayed, err := once.Do(t.Context(), d.raw, "refund", "a", nil, d.pay(9)); err != nil ||
		replayed || got.Cents != 9 {
		t.Errorf("another scope: %+v, replayed %v, %v", got, replayed, err)
	}
	d.has(t, "7 9 ", 2, 2)
}

// writtenAtTill repeats a transaction whose message has an id: after a rollback, after a commit, and with
// another message.
func writtenAtTill[TTx any](t *testing.T, d *till[TTx]) {
	out := outbox.New(d.raw, nil)
	id := uuid7.New(time.Now())
	work := func(what string, commits bool, ids ...string) (err error) {
		u, err := d.raw.Begin(t.Context(), store.Intake{})
		if err != nil {
			t.Fatal(err)
		}
		var drafts []skald.Draft
		for _, id := range ids {
			draft := told.New("k", what)
			draft.ID = id
			drafts = append(drafts, draft)
		}
		if err = out.Write(t.Context(), u.Tx(), drafts...); err == nil && commits {
			return u.Commit(t.Context())
		}
		_, undone := u.Rollback(t.Context())
		return errors.Join(err, undone)
	}
	for i, c := range []struct {
		what    string
		commits bool
		ids     []string
		want    error
		rows    int
	}{
		{"paid", false, []string{id}, nil, 0},
		{"paid", true, []string{id}, nil, 1},
		{"paid", true, []string{strings.ToUpper(id)}, nil, 1},
		{"refunded", true, []string{id}, outbox.ErrOtherMessage, 1},
		{"paid", true, []string{id, "", uuid7.New(time.Now())}, nil, 3},
		{"paid", true, slices.Repeat([]string{uuid7.New(time.Now())}, 2), nil, 4},
		{"paid", true, []string{"", ""}, nil, 6},
	} {
		if err := work(c.what, c.commits, c.ids...); !errors.Is(err, c.want) {
			t.Errorf("%d: got %v, want %v", i, err, c.want)
		}
		if keys, err := d.said(); err != nil || len(keys) != c.rows {
			t.Errorf("%d: %d rows, want %d; %v", i, len(keys), c.rows, err)
		}
	}
	limit := (*store.LimitError)(nil)
	if err := work("paid", true, "order-7"); !errors.As(err, &limit) {
		t.Errorf("an id that is no UUID: %v", err)
	}
}

// rivalsAtTill starts a rival during the first call. The first call continues only when the rival waits.
func rivalsAtTill[TTx any](t *testing.T, d *till[TTx]) {
	ctx, stop := context.WithTimeout(t.Context(), 5*time.Minute)
	defer stop()
	type answer struct {
		got      payment
		replayed bool
		err      error
	}
	asked, second := make(chan struct{}, 1), make(chan answer, 1)
	rival := func() (a answer) {
		for a.err = store.ErrBusy; errors.Is(a.err, store.ErrBusy) && ctx.Err() == nil; {
			// The first call takes long.
			a.got, a.replayed, a.err = once.Do(ctx, asking[TTx]{d.raw, asked}, "charge", "a", "7", d.pay(8))
		}
		return a
	}
	got, replayed, err := once.Do(ctx, d.raw, "charge", "a", "7",
		func(ctx context.Context, tx TTx) (payment, error) {
			go func() { second <- rival() }()
			select {
			case <-asked:
			case <-ctx.Done():
				return payment{}, ctx.Err()
			}
			for waits := false; !waits; {
				var err error
				if waits, err = d.waited(tx); err == nil {
					err = ctx.Err()
				}
				if err != nil {
					return payment{}, err
				}
				if len(second) > 0 {
					return payment{}, fmt.Errorf("the rival did not wait: %+v", <-second)
				}
			}
			return d.pay(7)(ctx, tx)
		})
	if err != nil || replayed || got.Cents != 7 {
		t.Fatalf("the first: %+v, replayed %v, %v", got, replayed, err)
	}
	if a := <-second; a.err != nil || !a.replayed || a.got.Cents != 7 {
		t.Errorf("the rival: %+v", a)
	}
	d.has(t, "7 ", 1, 1)
}

// asking signals when a transaction is requested.
type asking[TTx any] struct {
	store.Driver[TTx]
	asked chan<- struct{}
}

func (a asking[TTx]) Begin(ctx context.Context, in store.Intake) (store.Unit[TTx], error) {
	select {
	case a.asked <- struct{}{}:
	default: // it was signalled before
	}
	return a.Driver.Begin(ctx, in)
}

// refusedAtTill checks that a refusal rolls back the caller's rows, and keeps the reason and the result.
func refusedAtTill[TTx any](t *testing.T, d *till[TTx]) {
	for i := range 2 {
		got, replayed, err := once.Do(t.Context(), d.raw, "charge", "a", "7",
			func(ctx context.Context, tx TTx) (payment, error) {
				got, err := d.pay(7)(ctx, tx)
				return got, errors.Join(err, skald.Reject(errors.New("declined"), told.New("k", "declined")))
			})
		var no *once.RefusedError
		if !errors.As(err, &no) || no.Reason != "declined" || replayed || got.Cents != 7 {
			t.Errorf("%d: %+v, replayed %v, %v", i, got, replayed, err)
		}
	}
	d.has(t, "", 1, 1)
}

// failedAtTill: a failure stores nothing, and the next call succeeds.
func failedAtTill[TTx any](t *testing.T, d *till[TTx]) {
	later := errors.New("later")
	for name, end := range map[string]func() error{"an error": func() error { return later },
		"a panic": func() error { panic(later) }} {
		got, replayed, err := once.Do(t.Context(), d.raw, "charge", "a", "7",
			func(ctx context.Context, tx TTx) (payment, error) {
				got, err := d.pay(7)(ctx, tx)
				return got, errors.Join(err, end())
			})
		var panicked *failure.PanicError
		if !errors.Is(err, later) && !errors.As(err, &panicked) || replayed || got.Cents != 0 {
			t.Errorf("%s: %+v, replayed %v, %v", name, got, replayed, err)
		}
		d.has(t, "", 0, 0)
	}
	if got, replayed, err := once.Do(t.Context(), d.raw, "charge", "a", "7", d.pay(9)); err != nil ||
		replayed || got.Cents != 9 {
		t.Errorf("after failures: %+v, replayed %v, %v", got, replayed, err)
	}
	d.has(t, "9 ", 1, 1)
	if seen, err := d.raw.Seen(t.Context(), "charge", []store.Identity{{ID: "a"}}); err != nil ||
		!slices.ContainsFunc(seen, func(v store.Verdict) bool { return v.Result == `{"Cents":9}` }) {
		t.Errorf("its mark says %+v, %v", seen, err)
	}
}
