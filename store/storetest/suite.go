package storetest

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/skald-go/skald"
	"github.com/skald-go/skald/internal/uuid7"
	"github.com/skald-go/skald/store"
)

const (
	consumer = "stock"
	shortly  = 50 * time.Millisecond // for rivals that must be seen to wait
	patience = 5 * time.Minute       // for events that must happen eventually
)

// suite is one test on one database.
type suite[TTx any] struct {
	*testing.T
	can Can[TTx]
	db  Database[TTx]
	d   store.Driver[TTx]

	shards []store.Shard // of the suite's own relay, after a row was deferred
	base   string        // the position of the suite in the outbox
}

func sorted[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }

// ok fails the test on an error.
func (s *suite[TTx]) ok(err error, doing string, args ...any) {
	s.Helper()
	if err != nil {
		s.Fatalf(doing+": %v", append(args, err)...)
	}
}

// wantError fails the test unless errors.Is(err, want) is true.
func (s *suite[TTx]) wantError(err, want error, doing string) {
	s.Helper()
	if !errors.Is(err, want) {
		s.Fatalf("%s: got %v, want %v", doing, err, want)
	}
}

func (s *suite[TTx]) begin(d store.Driver[TTx], in store.Intake) store.Unit[TTx] {
	s.Helper()
	u, err := d.Begin(s.Context(), in)
	s.ok(err, "begin")
	return u
}

func (s *suite[TTx]) commit(u store.Unit[TTx], es ...store.Effect) {
	s.Helper()
	s.ok(u.Commit(s.Context(), es...), "commit")
}

func (s *suite[TTx]) rollback(u store.Unit[TTx]) {
	s.Helper()
	_, err := u.Rollback(s.Context())
	s.ok(err, "roll back")
}

func (s *suite[TTx]) put(tx TTx, key, value string) {
	s.Helper()
	s.ok(s.db.Put(tx, key, value), "put %s", key)
}

func (s *suite[TTx]) write(tx TTx, ms ...skald.Message) {
	s.Helper()
	s.ok(s.d.Write(s.Context(), tx, store.Effect{Rows: ms}), "write")
}

// insert writes ms in a transaction of the caller.
func (s *suite[TTx]) insert(ms ...skald.Message) {
	s.Helper()
	tx := s.db.Begin(s)
	s.write(tx, ms...)
	s.ok(s.db.Commit(tx), "commit the caller's transaction")
}

// apply fails the test unless every effect is stored.
func (s *suite[TTx]) apply(es ...store.Effect) {
	s.Helper()
	s.applied(slices.Repeat([]bool{true}, len(es)), es...)
}

func (s *suite[TTx]) applied(want []bool, es ...store.Effect) {
	s.Helper()
	got, err := s.d.Apply(s.Context(), es...)
	s.ok(err, "apply")
	if !slices.Equal(got, want) {
		s.Fatalf("apply: stored %v, want %v", got, want)
	}
}

// wantCounts fails the test unless there are that many rows, marks and deferred rows.
func (s *suite[TTx]) wantCounts(rows, marks, aside int) {
	s.Helper()
	if got, want := s.db.Count(s), (Counts{Rows: rows, Marks: marks, Aside: aside}); got != want {
		s.Fatalf("the database has %+v, want %+v", got, want)
	}
}

// wantUser fails the test unless key has value; "" means missing.
func (s *suite[TTx]) wantUser(key, value string) {
	s.Helper()
	if got, ok := s.db.Get(s, key); got != value || ok != (value != "") {
		s.Fatalf("the user's %s is %q (%v), want %q", key, got, ok, value)
	}
}

func (s *suite[TTx]) seen(m store.Mark, want store.Outcome) {
	s.Helper()
	got, err := s.d.Seen(s.Context(), m.Consumer, []store.Identity{m.Identity})
	s.ok(err, "seen")
	if len(got) != 1 || got[0].Outcome != want {
		s.Fatalf("seen %+v: %+v, want %v", m.Identity, got, want)
	}
}

func (s *suite[TTx]) found(u store.Unit[TTx], want ...store.Outcome) {
	s.Helper()
	var got []store.Outcome
	for _, v := range u.Found().Marks {
		got = append(got, v.Outcome)
	}
	if !slices.Equal(got, want) {
		s.Fatalf("the intake found %v, want %v", got, want)
	}
}

// waitUntil calls f again and again until f returns true. It fails the test after the time patience.
func (s *suite[TTx]) waitUntil(what string, f func() bool) {
	s.Helper()
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	for deadline := time.Now().Add(patience); !f(); <-tick.C {
		if time.Now().After(deadline) {
			s.Fatalf("not after %v: %s", patience, what)
		}
	}
}

// wantBlocked fails the test if the channel ended is closed within a short time. On a slow machine this
// check may miss an error, but it never fails wrongly.
func (s *suite[TTx]) wantBlocked(ended <-chan struct{}, what string) {
	s.Helper()
	timer := time.NewTimer(shortly)
	defer timer.Stop()
	select {
	case <-ended:
		s.Fatalf("%s: it did not wait", what)
	case <-timer.C:
	}
}

func (s *suite[TTx]) comes(done <-chan struct{}, what string) {
	s.Helper()
	timer := time.NewTimer(patience)
	defer timer.Stop()
	select {
	case <-done:
	case <-timer.C:
		s.Fatalf("%s: it did not happen", what)
	}
}

// meanwhile runs f in a goroutine and returns a channel that is closed when f returns.
func meanwhile(f func()) <-chan struct{} {
	done := make(chan struct{})
	go func() {
		defer close(done)
		f()
	}()
	return done
}

// cancelled returns a context that is cancelled.
func (s *suite[TTx]) cancelled() context.Context {
	ctx, stop := context.WithCancel(s.Context())
	stop()
	return ctx
}

func (s *suite[TTx]) yes(is bool, what string) {
	s.Helper()
	if !is {
		s.Fatalf("no: %s", what)
	}
}

// mark returns a new mark of consumer, with outcome Done.
func mark() store.Mark {
	return store.Mark{Consumer: consumer, Identity: store.Identity{Source: "/orders", ID: newID()},
		Outcome: store.Done}
}

func rejected(m store.Mark, reason string) store.Mark {
	m.Outcome, m.Reason = store.Rejected, reason
	return m
}

func intake(ms ...store.Mark) store.Intake { return store.Intake{Marks: ms, Wait: patience} }

func locking(keys ...string) store.Intake {
	in := store.Intake{Wait: patience}
	for _, k := range keys {
		in.Locks = append(in.Locks, store.Lock{Space: "order", Key: k})
	}
	return in
}

func newID() string { return uuid7.New(time.Now()) }

// message returns the n-th message about key.
func message(key string, n int) skald.Message {
	id := newID()
	m := skald.Message{
		ID: id, Type: "order.placed", Topic: "orders", Time: time.Now().UTC().Truncate(time.Microsecond),
		CorrelationID: id, ContentType: "application/json", Data: fmt.Appendf(nil, `{"n":%d}`, n),
	}
	if key != "" {
		m.Key = []byte(key)
	}
	return m
}

func rows(ms ...skald.Message) store.Effect { return store.Effect{Rows: ms} }
