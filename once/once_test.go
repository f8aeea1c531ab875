package once_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/skald-go/skald"
	"github.com/skald-go/skald/internal/uuid7"
	"github.com/skald-go/skald/once"
	"github.com/skald-go/skald/outbox"
	"github.com/skald-go/skald/store"
	"github.com/skald-go/skald/store/memstore"
)

type tx = *memstore.Tx

var published = skald.Event[string]{Topic: "orders", Type: "said"}

// world is a database in memory with a clock that the test moves.
type world struct {
	t   *testing.T
	db  *memstore.Store
	now time.Time
}

func newWorld(t *testing.T) *world {
	w := &world{t: t, now: time.Now()}
	w.db = memstore.New(&memstore.Options{Now: func() time.Time { return w.now }})
	return w
}

// note appends to a list in the user's table, so that a repeated effect is visible.
func note(t tx, list, what string) error {
	old, _ := t.Get(list)
	return t.Put(list, strings.TrimPrefix(old+" "+what, " "))
}

func (w *world) expect(list, want string) {
	w.t.Helper()
	if got := w.db.User()[list]; got != want {
		w.t.Errorf("%s: %q, want %q", list, got, want)
	}
}

type receipt struct {
	Number int
	Note   string
}

// pay is work that leaves a visible trace when it is repeated.
func pay(w *world, number int) func(context.Context, tx) (receipt, error) {
	out := outbox.New(w.db, nil)
	return func(ctx context.Context, t tx) (receipt, error) {
		if err := out.Write(ctx, t, published.New("k", fmt.Sprint(number))); err != nil {
			return receipt{}, err
		}
		return receipt{number, "größe"}, note(t, "paid", fmt.Sprint(number))
	}
}

func TestOnce(t *testing.T) {
	w := newWorld(t)
	for i := range 3 {
		got, replayed, err := once.Do(t.Context(), w.db, "charge", "key-1",
			map[string]int{"cents": 7}, pay(w, i))
		if err != nil || replayed != (i > 0) || got != (receipt{0, "größe"}) {
			t.Errorf("%d: %+v, replayed %v, %v", i, got, replayed, err)
		}
	}
	_, _, err := once.Do(t.Context(), w.db, "charge", "key-1", map[string]int{"cents": 8}, pay(w, 9))
	var other *once.ConflictError
	if !errors.As(err, &other) || other.ID != "key-1" || other.Consumer != "charge" {
		t.Errorf("another payload: %v", err)
	}
	if _, replayed, err := once.Do(t.Context(), w.db, "refund", "key-1", nil, pay(w, 1)); err != nil ||
		replayed {
		t.Errorf("another scope: replayed %v, %v", replayed, err)
	}
	w.expect("paid", "0 1")
	if rows := w.db.Rows(); len(rows) != 2 {
		t.Errorf("published %+v", rows)
	}
	for _, bad := range [][2]string{{"", "k"}, {"s", ""}} {
		if _, _, err := once.Do(t.Context(), w.db, bad[0], bad[1], nil, pay(w, 2)); err == nil {
			t.Errorf("%q is accepted", bad)
		}
	}
}

// TestOnceRefusedAndFailed checks that a refusal undoes the writes, is stored with its messages, and is
// returned again. Other failures are not stored.
func TestOnceRefusedAndFailed(t *testing.T) {
	w := newWorld(t)
	declined := errors.New("card declined")
	runs := 0
	refuse := func(_ context.Context, t tx) (int, error) {
		runs++
		return 0, errors.Join(note(t, "paid", "no"), skald.Reject(declined, published.New("k", "declined")))
	}
	for i := range 2 {
		_, replayed, err := once.Do(t.Context(), w.db, "charge", "a", "7", refuse)
		var refused *once.RefusedError
		if !errors.As(err, &refused) || refused.Reason != "card declined" || replayed ||
			errors.Is(err, declined) != (i == 0) {
			t.Errorf("%d: replayed %v, %v", i, replayed, err)
		}
	}
	w.expect("paid", "")
	if rows := w.db.Rows(); len(rows) != 1 || runs != 1 {
		t.Errorf("%d runs, published %+v", runs, rows)
	}
	for _, fn := range []func(context.Context, tx) (int, error){
		func(_ context.Context, t tx) (int, error) {
			return 0, errors.Join(note(t, "paid", "x"), errors.New("later"))
		},
		func(context.Context, tx) (int, error) { panic("oh") },
		func(context.Context, tx) (int, error) {
			return 0, skald.Reject(declined, skald.Draft{Topic: "no topic", Type: "x"})
		},
	} {
		if _, _, err := once.Do(t.Context(), w.db, "charge", "b", "7", fn); err == nil {
			t.Error("the call succeeded")
		}
	}
	if got, replayed, err := once.Do(t.Context(), w.db, "charge", "b", "7", pay(w, 3)); err != nil ||
		replayed || got.Number != 3 {
		t.Errorf("after failures: %+v, replayed %v, %v", got, replayed, err)
	}
	w.expect("paid", "3")
}

// TestOnceInATransactionOfOnesOwn checks that the answer is committed or rolled back with the caller's other
// writes.
func TestOnceInATransactionOfOnesOwn(t *testing.T) {
	w := newWorld(t)
	enter := func(t tx, fn func(context.Context, tx) (receipt, error)) (receipt, bool, error) {
		return once.In(w.t.Context(), w.db, t, "charge", "a", "7", fn)
	}
	own := w.db.BeginTx()
	if _, _, err := enter(own, pay(w, 1)); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(note(own, "mine", "x"), own.Rollback()); err != nil {
		t.Fatal(err)
	}
	w.expect("paid", "")
	own = w.db.BeginTx()
	if got, replayed, err := enter(own, pay(w, 2)); err != nil || replayed || got.Number != 2 {
		t.Fatalf("%+v, replayed %v, %v", got, replayed, err)
	}
	if got, replayed, err := enter(own, pay(w, 3)); err != nil || !replayed || got.Number != 2 {
		t.Errorf("again in the same transaction: %+v, replayed %v, %v", got, replayed, err)
	}
	if err := errors.Join(note(own, "mine", "x"), own.Commit()); err != nil {
		t.Fatal(err)
	}
	if got, replayed, err := once.Do(t.Context(), w.db, "charge", "a", []byte("7"), pay(w, 4)); err != nil ||
		!replayed || got.Number != 2 {
		t.Errorf("%+v, replayed %v, %v", got, replayed, err)
	}
	w.expect("paid", "2")
	w.expect("mine", "x")
	own = w.db.BeginTx()
	var refused *once.RefusedError
	_, _, err := once.In(t.Context(), w.db, own, "charge", "b", "7", func(context.Context, tx) (int, error) {
		return 0, skald.Reject(errors.New("no"), published.New("k", "no"))
	})
	if err = errors.Join(err, own.Commit()); !errors.As(err, &refused) {
		t.Fatal(err)
	}
	if _, _, err := once.Do(t.Context(), w.db, "charge", "b", "7", pay(w, 5)); !errors.As(err, &refused) ||
		refused.Reason != "no" {
		t.Errorf("a refusal that was committed: %v", err)
	}
	w.expect("paid", "2")
}

func TestOnceAmongRivals(t *testing.T) {
	w := newWorld(t)
	var wg sync.WaitGroup
	var mu sync.Mutex
	fresh := 0
	for i := range 20 {
		wg.Go(func() {
			got, replayed, err := once.Do(t.Context(), w.db.Session(), "charge", "a", "7", pay(w, 7))
			if err != nil || got.Number != 7 {
				t.Errorf("%d: %+v, %v", i, got, err)
			}
			mu.Lock()
			defer mu.Unlock()
			if !replayed {
				fresh++
			}
		})
	}
	wg.Wait()
	if w.expect("paid", "7"); fresh != 1 {
		t.Errorf("%d of 20 calls ran the work", fresh)
	}
}

// TestOnceTooOld checks that a key with a time is refused after the retention of marks.
func TestOnceTooOld(t *testing.T) {
	w := newWorld(t)
	key := uuid7.New(w.now)
	if _, _, err := once.Do(t.Context(), w.db, "charge", key, "7", pay(w, 1)); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if _, err := w.db.Maintain(t.Context(), store.Maintain{}); err != nil {
			t.Fatal(err)
		}
		w.now = w.now.Add(31 * 24 * time.Hour)
	}
	if _, err := w.db.Maintain(t.Context(), store.Maintain{}); err != nil {
		t.Fatal(err)
	}
	var old *once.TooOldError
	if _, _, err := once.Do(t.Context(), w.db, "charge", key, "7", pay(w, 2)); !errors.As(err, &old) {
		t.Errorf("a forgotten key: %v", err)
	}
	w.expect("paid", "1")
}

// TestRunStepByStep uses Begin and Commit as an HTTP handler does. The key is free, in progress, done, or
// used for another payload.
func TestRunStepByStep(t *testing.T) {
	w, ctx := newWorld(t), t.Context()
	q := once.Request{Scope: "POST /orders", Key: "k", Payload: []byte("7"), Wait: time.Millisecond}
	first, err := once.Begin(ctx, w.db, q)
	if err != nil {
		t.Fatal(err)
	}
	if _, done := first.Answer(); done {
		t.Error("there is an answer before the work is done")
	}
	if err := note(first.Tx(), "orders", "placed"); err != nil {
		t.Fatal(err)
	}
	if _, err := once.Begin(ctx, w.db.Session(), q); !errors.Is(err, store.ErrBusy) {
		t.Errorf("a rival while the work is in progress: %v", err)
	}
	if err := first.Commit(ctx, once.Answer{Code: 201, Result: `{"id":1}`},
		skald.Message{ID: "1", Topic: "orders", Type: "said", Data: []byte("{}")}); err != nil {
		t.Fatal(err)
	}
	again, err := once.Begin(ctx, w.db, q)
	if err != nil {
		t.Fatal(err)
	}
	if a, done := again.Answer(); !done || a != (once.Answer{Code: 201, Result: `{"id":1}`}) {
		t.Errorf("the repeat: %+v, done %v", a, done)
	}
	q.Payload = []byte("8")
	var other *once.ConflictError
	if _, err := once.Begin(ctx, w.db, q); !errors.As(err, &other) {
		t.Errorf("another payload: %v", err)
	}
	if rows := w.db.Rows(); len(rows) != 1 {
		t.Errorf("emitted %+v", rows)
	}
	w.expect("orders", "placed")

	// After a rollback the next run does the work. A rejection undoes the rows and is stored.
	q.Key = "l"
	for i := range 2 {
		run, err := once.Begin(ctx, w.db, q)
		if err != nil {
			t.Fatal(err)
		}
		if err := note(run.Tx(), "orders", "undone"); err != nil {
			t.Fatal(err)
		}
		if i == 0 {
			run.Rollback(ctx)
		} else if err := run.Commit(ctx, once.Answer{Rejected: true, Reason: "sold out", Code: 409,
			Result: "no"}); err != nil {
			t.Fatal(err)
		}
	}
	run, err := once.Begin(ctx, w.db, q)
	if err != nil {
		t.Fatal(err)
	}
	if a, done := run.Answer(); !done ||
		a != (once.Answer{Rejected: true, Reason: "sold out", Code: 409, Result: "no"}) {
		t.Errorf("the refusal: %+v, done %v", a, done)
	}
	w.expect("orders", "placed")
}

// TestRunWithTooLargeAResult checks that a result that is too large is an error and frees the key.
func TestRunWithTooLargeAResult(t *testing.T) {
	w := newWorld(t)
	q := once.Request{Scope: "s", Key: "k", Wait: time.Millisecond}
	run, err := once.Begin(t.Context(), w.db, q)
	if err != nil {
		t.Fatal(err)
	}
	if err := run.Commit(t.Context(),
		once.Answer{Result: strings.Repeat("x", once.MaxResult+1)}); err == nil {
		t.Error("it is stored")
	}
	if run, err = once.Begin(t.Context(), w.db, q); err != nil {
		t.Fatal(err)
	}
	if _, done := run.Answer(); done {
		t.Error("it is answered")
	}
	run.Rollback(t.Context())
}

func TestEmittedMessagesComeBack(t *testing.T) {
	ms := []skald.Message{{ID: "1", Topic: "t", Type: "x", Key: []byte("k\xff"), Data: []byte{0, 255}},
		{ID: "2", Topic: "t", Type: "y"}}
	text, err := once.EncodeEmitted(ms)
	if err != nil {
		t.Fatal(err)
	}
	back, err := once.DecodeEmitted(text)
	if err != nil || len(back) != 2 || string(back[0].Data) != "\x00\xff" || string(back[0].Key) != "k\xff" ||
		back[1].ID != "2" {
		t.Errorf("%+v, %v", back, err)
	}
	if _, err := once.DecodeEmitted("no"); err == nil {
		t.Error("no list is read as one")
	}
}

func TestJudge(t *testing.T) {
	for _, c := range []struct {
		stored, now int64
		want        store.Outcome
	}{{1, 2, store.Conflict}, {1, 1, store.Done}, {0, 2, store.Done}, {1, 0, store.Done}} {
		if got := once.Judge(store.Verdict{Outcome: store.Done, Fingerprint: c.stored},
			c.now); got != c.want {
			t.Errorf("stored %d, now %d: %v", c.stored, c.now, got)
		}
	}
}

// TestKeep checks that each scope keeps its answers as long as its Keep.
func TestKeep(t *testing.T) {
	w := newWorld(t)
	do := func(scope string, keep time.Duration, payload string) (int, bool, error) {
		q := once.Request{Scope: scope, Key: "k", Payload: []byte(payload), Keep: keep}
		return once.DoRequest(t.Context(), w.db, q, func(_ context.Context, run *once.Run[tx]) (int, error) {
			return len(payload), note(run.Tx(), scope, payload)
		})
	}
	want := func(scope string, keep time.Duration, payload string, fresh bool) {
		t.Helper()
		if n, replayed, err := do(scope, keep, payload); err != nil || n != len(payload) ||
			replayed == fresh {
			t.Errorf("%s, %q: %d, replayed %v, %v", scope, payload, n, replayed, err)
		}
	}
	want("a day", 24*time.Hour, "7", true)
	want("as marks", 0, "7", true)
	w.now = w.now.Add(25 * time.Hour)
	want("a day", 24*time.Hour, "another", true)
	want("a day", 24*time.Hour, "another", false)
	want("as marks", 0, "7", false)
	if _, _, err := do("as marks", -time.Second, "7"); err == nil || !strings.Contains(err.Error(), "Keep") {
		t.Errorf("a negative time: %v", err)
	}
	w.expect("a day", "7 another")
}

// TestRefusalHasCodeAndBody checks that a refusal and its repeat have the code and the body.
func TestRefusalHasCodeAndBody(t *testing.T) {
	db := memstore.New(nil)
	for i := range 2 {
		body, again, err := once.Do(t.Context(), db, "charge", "k", nil,
			func(context.Context, *memstore.Tx) (map[string]string, error) {
				return map[string]string{"decline": "no funds"},
					skald.Reject(&once.Refusal{Code: 402, Err: errors.New("declined")})
			})
		var refused *once.RefusedError
		if !errors.As(err, &refused) || again || refused.Code != 402 || refused.Reason != "declined" ||
			body["decline"] != "no funds" {
			t.Errorf("%d: %v, %v, %+v", i, body, again, err)
		}
	}
}

// A result that JSON would change is an error, and its transaction is rolled back: otherwise a repeat would
// get another result.
func TestOnceWithAResultThatIsNotText(t *testing.T) {
	w := newWorld(t)
	says := func(text string) func(context.Context, tx) (string, error) {
		return func(context.Context, tx) (string, error) { return text, nil }
	}
	_, _, err := once.Do(t.Context(), w.db, "s", "k", nil, says("a\x80"))
	if err == nil || !strings.Contains(err.Error(), "not UTF-8") {
		t.Errorf("a result that is not text: %v", err)
	}
	got, replayed, err := once.Do(t.Context(), w.db, "s", "k", nil, says("b"))
	if got != "b" || replayed || err != nil {
		t.Errorf("after it %q, %t, %v", got, replayed, err)
	}
}
