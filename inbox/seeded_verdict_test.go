package inbox_test

import (
	"context"
	"errors"
	"testing"

	"github.com/skald-go/skald"
	"github.com/skald-go/skald/inbox"
	"github.com/skald-go/skald/once"
	"github.com/skald-go/skald/store"
)

// Interleaving 13.
func TestRejectionThatIsNoLongerTrueIsNotStored(t *testing.T) { restocked(t, nil, store.Done) }

// Known wrong ways to store a rejection, with their consequences. The inbox has none of these bugs.
// Interleaving 13.
func TestSeededBugsOfVerdicts(t *testing.T) {
	for name, c := range map[string]struct {
		bug  bugOf
		want store.Outcome
	}{
		"a rejection, as it is": {nil, store.Done},
		"a rejection that compares no versions": {func(d store.Driver[tx]) store.Driver[tx] {
			return unguarded{d, func(e *store.Effect) {
				for i := range e.Locks {
					e.Locks[i].Version = 0
				}
			}}
		}, store.Rejected},
		"a rejection that does not repeat its intake": {func(d store.Driver[tx]) store.Driver[tx] {
			return unguarded{d, func(e *store.Effect) { e.Locks = nil }}
		}, store.Rejected},
	} {
		t.Run(name, func(t *testing.T) { restocked(t, c.bug, c.want) })
	}
	for name, c := range map[string]struct {
		bug  bugOf
		paid string
	}{
		"a failure, as it is": {nil, "1"},
		"a failure that is stored as the last answer": {
			func(d store.Driver[tx]) store.Driver[tx] { return final{d} }, ""},
	} {
		t.Run(name, func(t *testing.T) { triedAgain(t, c.bug, c.paid) })
	}
}

// restocked runs a handler that rejects because no article is left. Between the rollback of its rows and the
// transaction that stores its rejection, another transaction restocks the article.
func restocked(t *testing.T, bug bugOf, want store.Outcome) {
	w := newWorld(t, 1)
	lock := store.Lock{Space: "sku", Key: "tea"}
	restocked := false
	db := &moving{Driver: bug.in(w), between: func() {
		if restocked {
			return
		}
		restocked = true
		u, err := w.db.Begin(t.Context(), store.Intake{Locks: []store.Lock{lock}})
		if err == nil {
			err = errors.Join(u.Tx().Put("stock", "1"), u.Commit(t.Context()))
		}
		if err != nil {
			t.Fatal(err)
		}
	}}
	in := w.over(db, &inbox.Options{Now: w.clock,
		Transaction: inbox.Transaction{
			Entities: func(skald.Message) []store.Lock { return []store.Lock{lock} }}},
		func(_ context.Context, tx tx, m skald.Received[string]) error {
			if n, _ := tx.Get("stock"); n == "" {
				return skald.Reject(errors.New("out of stock"))
			}
			return note(tx, "sold", m.Value)
		})
	w.publish(w.message("k", "1"))
	w.quiet(in)
	sold := map[store.Outcome]string{store.Done: "1", store.Rejected: ""}
	w.expect("sold", sold[want])
	if marks := w.db.Marks(); len(marks) != 1 || marks[0].Outcome != want {
		t.Errorf("marks %+v", marks)
	}
}

// moving is a driver with another transaction, which changes the entity between the rollback of a rejection
// and its second transaction.
type moving struct {
	store.Driver[tx]
	between func()
}

type movingUnit struct {
	store.Unit[tx]
	d *moving
}

func (d *moving) Begin(ctx context.Context, in store.Intake) (store.Unit[tx], error) {
	u, err := d.Driver.Begin(ctx, in)
	return movingUnit{u, d}, err
}

func (u movingUnit) Rollback(ctx context.Context, instead ...store.Effect) ([]bool, error) {
	if _, err := u.Unit.Rollback(ctx); err != nil || len(instead) == 0 {
		return nil, err
	}
	u.d.between()
	return u.d.Apply(ctx, instead...)
}

// unguarded is a store that removes a condition from each effect.
type unguarded struct {
	store.Driver[tx]
	take func(*store.Effect)
}

func (d unguarded) Apply(ctx context.Context, es ...store.Effect) ([]bool, error) {
	for i := range es {
		d.take(&es[i])
	}
	return d.Driver.Apply(ctx, es...)
}

// triedAgain requests work again after it failed temporarily. The work must be done once.
func triedAgain(t *testing.T, bug bugOf, want string) {
	w := newWorld(t, 1)
	db := bug.in(w)
	away := func(context.Context, tx) (receipt, error) { return receipt{}, errors.New("503, try again") }
	if _, _, err := once.Do(t.Context(), db, "charge", "a", "7", away); err == nil {
		t.Fatal("the first request did not fail")
	}
	if _, _, err := once.Do(t.Context(), db, "charge", "a", "7", pay(w, 1)); (err == nil) != (want != "") {
		t.Errorf("the second request: %v", err)
	}
	w.expect("paid", want)
}

// final is a store that stores each error of a transaction as the answer.
type final struct{ store.Driver[tx] }

func (d final) Begin(ctx context.Context, in store.Intake) (store.Unit[tx], error) {
	u, err := d.Driver.Begin(ctx, in)
	return finalUnit{u, in.Marks}, err
}

type finalUnit struct {
	store.Unit[tx]
	marks []store.Mark
}

func (u finalUnit) Rollback(ctx context.Context, instead ...store.Effect) ([]bool, error) {
	if len(instead) == 0 {
		m := u.marks[0]
		m.Outcome, m.Reason = store.Rejected, "503, try again"
		instead = []store.Effect{{Mark: &m}}
	}
	return u.Unit.Rollback(ctx, instead...)
}
