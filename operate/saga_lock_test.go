package operate_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/skald-go/skald"
	"github.com/skald-go/skald/operate"
	"github.com/skald-go/skald/saga"
	"github.com/skald-go/skald/store"
	"github.com/skald-go/skald/store/memstore"
)

// newLockBench has sagas that hold accounts: those of their key after its name, "one a b".
func newLockBench(t *testing.T, broken *bool, opts ...saga.Option) *sagaBench {
	t.Helper()
	accounts := func(r saga.Run[string]) (out []store.Lock) {
		for _, key := range strings.Fields(r.Key)[1:] {
			out = append(out, store.Lock{Space: "account", Key: key})
		}
		return out
	}
	work := func(_ context.Context, tx sagaTx, r saga.Run[string]) (string, error) {
		if *broken {
			return "", skald.Permanent(errors.New("the table is gone"))
		}
		return "", tx.Put(r.Key, "done")
	}
	d := saga.New("order", &saga.Options[string]{Key: func(s string) string { return s }},
		saga.Lock("lock", accounts, opts...), saga.Wait[string]("wait", goAhead),
		saga.Do("pivot", func(context.Context, sagaTx, saga.Run[string]) (string, error) {
			return "", nil
		}, nil, saga.Pivot()),
		saga.Do("b", work, nil))
	db := memstore.New(nil)
	e, err := saga.NewEngine(db, &saga.EngineOptions{Logger: slog.New(slog.DiscardHandler)}, d)
	if err != nil {
		t.Fatal(err)
	}
	return &sagaBench{t, db, e, d}
}

func (b *sagaBench) tells(key string, parts ...string) (one operate.SagaProgress) {
	b.t.Helper()
	explained, one, plain := b.told(key)
	for _, part := range parts {
		if !strings.Contains(explained+"\n"+plain, part) {
			b.t.Errorf("of %s it is not said that %q:\n%s\n%s", key, part, explained, plain)
		}
	}
	if strings.Contains(explained, "undo") || strings.Contains(plain, "undone") {
		b.t.Errorf("a Lock is no effect:\n%s\n%s", explained, plain)
	}
	return one
}

// Of a saga that waits for entities it is told for which, who holds them and how that one stands, and what
// can be done; of one that holds them, who waits.
func TestToldOfALock(t *testing.T) {
	broken := true
	b := newLockBench(t, &broken)
	b.start("one a b", "two a", "three b c a")
	if one := b.tells("one a b", "It holds account a, account b, until its end. Waiting behind it: "+
		"account a: 2, account b: 1."); len(one.Undo)+len(one.Stays) > 0 {
		t.Errorf("%+v", one)
	}
	three := b.tells("three b c a", "lock waits in line for account a, account b, account c, since 20",
		" To go on without them, although others may change them meanwhile: skald saga skip --store s.db --step "+
			"lock --reason '…' -- order 'three b c a'",
		"account a (2 places before this saga), account b are held since 20", "Z by order one a b, which is running, "+
			"at wait. More: skald saga explain --store s.db -- order 'one a b'",
		"It is first in line for account c.",
		"lock waits until other sagas release account a, account b, account c, since 20")
	if w := three.Waiting; len(w) != 1 || w[0].Kind != operate.WaitEntities || len(w[0].For) != 3 ||
		w[0].Due != nil || w[0].More != 0 || time.Since(*w[0].Since) > time.Hour || len(three.Undo) > 0 {
		t.Errorf("it waits for %+v", three)
	}
	explained, _, plain := b.told("three b c a")
	if text := explained + plain; strings.Contains(text, "time is up") || strings.Contains(text, "at most") {
		t.Errorf("it waits without end: %s", text)
	}
	left, err := b.change(operate.SagaSelection{Key: "two a"},
		operate.SagaChange{Verb: operate.RetrySaga, Step: "lock"})
	if err == nil || len(left.Left) != 1 ||
		left.Left[0].Why != "lock waits for entities that other sagas hold, so there is no attempt to repeat" {
		t.Errorf("retry: %+v, %v", left, err)
	}

	// The holder is stuck, and paused: who waits is told so.
	b.must("one a b", operate.SagaChange{Verb: operate.SignalSaga, Signal: "go", Data: json.RawMessage(`"x"`)})
	b.must("one a b", operate.SagaChange{Verb: operate.PauseSaga})
	b.tells("two a", "account a is held since 20", "by order one a b, which is running, stuck, paused, at b. "+
		"That failed once, last with: ", "the table is gone. More: skald saga explain")
	b.must("three b c a", operate.SagaChange{Verb: operate.SkipSaga, Step: "lock"})
	b.stands("three b c a", "running wait")
	b.tells("three b c a", "It goes on without account a, account b, and keeps its place in line until its end.", "It is first in line for account c.")
	broken = false
	b.must("one a b", operate.SagaChange{Verb: operate.ResumeSaga})
	b.must("one a b", operate.SagaChange{Verb: operate.RetrySaga})
	b.stands("one a b", "done")
	b.stands("two a", "running wait")
	b.tells("two a", "It holds account a, until its end. Waiting behind it: account a: 1.")
}

// The end of its time is told, not when it looks again; and of many entities the first.
func TestToldOfALockOfMany(t *testing.T) {
	b := newLockBench(t, new(bool), saga.Timeout(time.Hour))
	var all strings.Builder
	for i := range 30 {
		fmt.Fprintf(&all, " k%d", i)
	}
	b.start("one"+all.String(), "two"+all.String())
	two := b.tells("two"+all.String(), "account k17 and 20 more, since", " Its time is up at 20")
	if w := two.Waiting; len(w) != 1 || len(w[0].For) != 10 || w[0].More != 20 || w[0].Due == nil ||
		time.Until(*w[0].Due) < 50*time.Minute {
		t.Errorf("it waits for %+v", w)
	}
	read, err := operate.ReadSaga(t.Context(), b.db, "order", "two"+all.String())
	if err != nil {
		t.Fatal(err)
	}
	if text := strings.Join(read.Explain(""), "\n"); strings.Count(text, "are held since") != 1 ||
		!strings.Contains(text, "account k17 are held ") || strings.Contains(text, "account k18") {
		t.Errorf("explained: %s", text)
	}
	if d := read.Detail(false); time.Until(*d.Runs[0].Due) < 50*time.Minute {
		t.Errorf("it is due %v", d.Runs[0].Due)
	}
	if text, err := read.Draw("text"); err != nil || strings.Contains(text, "undo") ||
		!strings.Contains(text, " lock ") {
		t.Errorf("%s, %v", text, err)
	}
}

// What a child has locked its parent holds: who waits is led to that one.
func TestToldOfALockOfAChild(t *testing.T) {
	account := func(saga.Run[string]) []store.Lock { return []store.Lock{{Space: "account", Key: "a"}} }
	inner := saga.New("inner", &saga.Options[string]{Key: func(s string) string { return s }},
		saga.Lock("lock", account))
	outer := saga.New("order", &saga.Options[string]{Key: func(s string) string { return s }},
		saga.Child("in", inner, func(r saga.Run[string]) string { return r.In }),
		saga.Wait[string]("wait", goAhead))
	db := memstore.New(nil)
	e, err := saga.NewEngine(db, &saga.EngineOptions{Logger: slog.New(slog.DiscardHandler)}, outer)
	if err != nil {
		t.Fatal(err)
	}
	b := &sagaBench{t, db, e, outer}
	b.start("one", "two")
	for name, want := range map[string]string{"inner": "lock waits in line for account a, since ",
		"order": "by order one, which is running, at wait. More: skald saga explain -- order one"} {
		read, err := operate.ReadSaga(t.Context(), db, name, "two")
		if err != nil {
			t.Fatal(err)
		}
		if text := strings.Join(read.Explain(""), "\n"); !strings.Contains(text, want) {
			t.Errorf("explained: %s", text)
		}
	}
	read, err := operate.ReadSaga(t.Context(), db, "order", "one")
	if text := strings.Join(read.Explain(""), "\n"); err != nil ||
		!strings.Contains(text, "It holds account a, until its end. Waiting behind it: account a: 1.") {
		t.Errorf("explained: %s, %v", text, err)
	}
}
