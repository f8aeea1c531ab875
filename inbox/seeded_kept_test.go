package inbox_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/skald-go/skald"
	"github.com/skald-go/skald/inbox"
	"github.com/skald-go/skald/internal/complete"
	"github.com/skald-go/skald/store"
)

// Known wrong ways to store failures, with their consequences. The inbox has none of these bugs.
// Interleaving 12.
func TestSeededBugsOfParkedMessages(t *testing.T) {
	t.Run("parked in the order of ids", func(t *testing.T) {
		for name, c := range map[string]struct {
			bug  bugOf
			want string
		}{
			"as it is": {nil, "1 2 3"},
			"the bug": {func(d store.Driver[tx]) store.Driver[tx] { return keeps{d, nil, sortsByID} },
				"1 3 2"},
		} {
			t.Run(name, func(t *testing.T) { parkedBehind(t, c.bug, c.want) })
		}
	})
	t.Run("a key is kept as text", func(t *testing.T) {
		for name, c := range map[string]struct {
			bug  bugOf
			kept bool
		}{
			"as it is": {nil, true},
			"the bug": {func(d store.Driver[tx]) store.Driver[tx] { return keeps{d, refusesBytes, nil} },
				false},
		} {
			t.Run(name, func(t *testing.T) { binaryKey(t, c.bug, c.kept) })
		}
	})
	t.Run("an announcement with the payload in it", func(t *testing.T) {
		for name, c := range map[string]struct {
			bug  bugOf
			kept bool
		}{
			"as it is": {nil, true},
			"the bug": {func(d store.Driver[tx]) store.Driver[tx] { return keeps{d, announcesWhole, nil} },
				false},
		} {
			t.Run(name, func(t *testing.T) { tooLargeToSay(t, c.bug, c.kept) })
		}
	})
}

// bugOf removes a safeguard from a store; nil removes none.
type bugOf func(store.Driver[tx]) store.Driver[tx]

func (b bugOf) in(w *world) store.Driver[tx] {
	if b == nil {
		return w.db
	}
	return b(w.db)
}

// parkedBehind runs a key with a first message that fails once. The ids of the later messages are in another
// order than their arrival.
func parkedBehind(t *testing.T, bug bugOf, want string) {
	w, fails := newWorld(t, 1), true
	for i, id := range []string{"a", "z", "b"} {
		m := w.message("k", fmt.Sprint(i+1))
		m.ID = id
		w.publish(m)
	}
	in := w.over(bug.in(w), &inbox.Options{Now: w.clock},
		func(ctx context.Context, tx tx, m skald.Received[string]) error {
			if fails {
				return errors.New("not yet")
			}
			return keep(ctx, tx, m)
		})
	w.quiet(in)
	fails = false
	for range 3 {
		w.pass(time.Minute)
		w.quiet(in)
	}
	w.expect("k", want)
}

// binaryKey runs a message that fails and has a key that is not text. The inbox retries it when it is due,
// not immediately and forever.
func binaryKey(t *testing.T, bug bugOf, kept bool) {
	w, runs := newWorld(t, 1), 0
	w.publish(w.message("k\xff\x00", "1"))
	in := w.over(bug.in(w), &inbox.Options{Now: w.clock},
		func(ctx context.Context, tx tx, m skald.Received[string]) error {
			if runs++; runs < 4 {
				return errors.New("not yet")
			}
			return keep(ctx, tx, m)
		})
	w.quiet(in)
	if got := len(w.kept()) == 1 && w.backlog() == 0; got != kept {
		t.Errorf("it is parked and acknowledged: %v, want %v; it has run %d times", got, kept, runs)
	}
	for range 3 {
		w.pass(time.Minute)
		w.quiet(in)
	}
	if kept {
		w.expect("k\xff\x00", "1")
	}
}

// tooLargeToSay announces a dead letter of the largest possible size.
func tooLargeToSay(t *testing.T, bug bugOf, kept bool) {
	w, runs := newWorld(t, 1), 0
	m := w.message("k", strings.Repeat("x", complete.MaxData-2))
	m.Headers = []skald.Header{{Name: "own",
		Value: []byte(strings.Repeat("y", complete.MaxHeaders-len("own")))}}
	w.publish(m)
	in := w.over(bug.in(w), &inbox.Options{Now: w.clock, Dead: inbox.Dead{Topic: "dead", Copy: true}},
		func(context.Context, tx, skald.Received[string]) error {
			runs++
			return skald.Permanent(errors.New("never"))
		})
	for range 3 {
		w.quiet(in)
		w.pass(time.Minute)
	}
	if got := len(w.dead()) == 1 && len(w.db.Rows()) == 1 && runs == 1; got != kept {
		t.Errorf("it is a dead letter, and announced: %v, want %v; it has run %d times", got, kept, runs)
	}
}

// keeps calls a function before or after an effect that parks a message.
type keeps struct {
	store.Driver[tx]
	before func(context.Context, *store.Effect) error
	behind func(context.Context, store.Driver[tx], *store.Park) error
}

func (d keeps) Begin(ctx context.Context, in store.Intake) (store.Unit[tx], error) {
	u, err := d.Driver.Begin(ctx, in)
	if err != nil {
		return nil, err
	}
	return keepsUnit{u, d}, nil
}

func (d keeps) Apply(ctx context.Context, es ...store.Effect) ([]bool, error) {
	return d.around(ctx, es, d.Driver.Apply)
}

type keepsUnit struct {
	store.Unit[tx]
	d keeps
}

func (u keepsUnit) Rollback(ctx context.Context, instead ...store.Effect) ([]bool, error) {
	stands, err := u.d.around(ctx, instead, u.Unit.Rollback)
	if err != nil {
		_, _ = u.Unit.Rollback(ctx)
	}
	return stands, err
}

func (d keeps) around(ctx context.Context, es []store.Effect,
	do func(context.Context, ...store.Effect) ([]bool, error)) ([]bool, error) {
	for i := range es {
		if es[i].Park != nil && d.before != nil {
			if err := d.before(ctx, &es[i]); err != nil {
				return nil, err
			}
		}
	}
	stands, err := do(ctx, es...)
	for i := range es {
		if err == nil && es[i].Park != nil && d.behind != nil && stands[i] {
			err = d.behind(ctx, d.Driver, es[i].Park)
		}
	}
	return stands, err
}

// sortsByID orders the messages of the key by their ids, as marks are sorted for locking.
func sortsByID(ctx context.Context, d store.Driver[tx], k *store.Park) error {
	all, err := store.ListParked(ctx, d, store.ParkedQuery{Consumer: k.Consumer, Key: k.Message.Key,
		Limit: 100})
	slices.SortFunc(all, func(a, b store.Parked) int { return strings.Compare(a.ID, b.ID) })
	for i := 0; i < len(all) && err == nil; i++ {
		all[i].Place = 0
		_, err = d.Apply(ctx, store.Effect{Finish: &store.Finish{Consumer: all[i].Consumer,
			Identity: all[i].Identity}})
		if err == nil {
			_, err = d.Apply(ctx, store.Effect{Park: &store.Park{Parked: all[i]}})
		}
	}
	return err
}

// refusesBytes behaves as a column of type text.
func refusesBytes(_ context.Context, e *store.Effect) error {
	if key := string(e.Park.Message.Key); !utf8.ValidString(key) || strings.ContainsRune(key, 0) {
		return errors.New("invalid byte sequence for encoding \"UTF8\"")
	}
	return nil
}

// announcesWhole announces a complete copy of a dead letter, or refuses to store it.
func announcesWhole(ctx context.Context, e *store.Effect) (err error) {
	if k := e.Park; k.Dead != nil {
		headers := append(slices.Clone(k.Message.Headers),
			skald.Header{Name: "x-failed-reason", Value: []byte(k.Last.Why)})
		e.Rows, err = complete.Completer{}.Messages(ctx,
			[]skald.Draft{{Topic: "dead", Type: k.Message.Type, Key: k.Message.Key, Headers: headers,
				Value: string(k.Message.Data)}})
	}
	return err
}
