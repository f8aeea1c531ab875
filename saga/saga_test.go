package saga_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/skald-go/skald"
	"github.com/skald-go/skald/call"
	"github.com/skald-go/skald/saga"
	"github.com/skald-go/skald/store/memstore"
)

type (
	tx    = *memstore.Tx
	order struct {
		ID    string   `json:"id"`
		Lines []string `json:"lines"`
		Cents int      `json:"cents"`
	}
	hold    struct{ SKU string }
	receipt struct{ Number string }
	parcel  struct{ SKU string }
	shipped struct{ Track string }
)

func reserve(context.Context, tx, saga.Run[order]) (hold, error) { return hold{"tea"}, nil }
func release(context.Context, tx, saga.Run[order], hold) error   { return nil }
func orderID(o order) string                                     { return o.ID }
func bill() saga.Request[tx, order, int, receipt] {
	return saga.Request[tx, order, int, receipt]{At: call.NewProvider("bank", nil),
		Intent: func(_ context.Context, _ tx, r saga.Run[order]) (int, error) { return r.In.Cents, nil },
		Do:     func(_ context.Context, _ int, key string) (receipt, error) { return receipt{key}, nil },
	}
}

func refund() saga.UndoRequest[tx, order, receipt, string, bool] {
	return saga.UndoRequest[tx, order, receipt, string, bool]{At: call.NewProvider("bank", nil),
		Intent: func(_ context.Context, _ tx, _ saga.Run[order], out receipt) (string, error) {
			return out.Number, nil
		},
		Do: func(context.Context, string, string) (bool, error) { return true, nil },
	}
}

// TestDefinition has one step of each kind: all types are inferred, except the input of a Wait.
func TestDefinition(t *testing.T) {
	var (
		ship     = skald.Event[parcel]{Topic: "shipping", Type: "ship"}
		unship   = skald.Event[parcel]{Topic: "shipping", Type: "unship"}
		wasSent  = skald.Event[shipped]{Topic: "shipped", Type: "shipped"}
		wasNot   = skald.Event[string]{Topic: "shipped", Type: "not shipped"}
		wasHeld  = skald.Event[bool]{Topic: "shipped", Type: "unshipped"}
		approved = saga.Signal[string]{Name: "approved"}
	)
	notes := saga.New("note", &saga.Options[string]{Key: func(s string) string { return s }},
		saga.Do("write", func(context.Context, tx, saga.Run[string]) (bool, error) { return true, nil }, nil,
			saga.NoEffect()))
	held := saga.Do("hold", reserve, release,
		saga.Each(func(r saga.Run[order]) []string { return r.In.Lines }))
	approve := saga.Wait[order]("approve", approved, saga.Timeout(time.Hour), saga.AtStart())
	charge := saga.CallWith("charge", bill(), refund(), saga.After(held, approve),
		saga.When(func(r saga.Run[order]) bool { return r.In.Cents > 0 }))
	pack := func(r saga.Run[order]) parcel { return parcel{held.Outputs(r)["tea"].SKU} }
	shipping := saga.Command("ship", ship, pack,
		saga.Reply(wasSent, saga.RefusedBy(wasNot, func(s string) string { return s })),
		saga.UndoBy(unship, pack, saga.Reply(wasHeld)), saga.Pivot())
	cool := saga.Until("cool off", func(saga.Run[order]) time.Time { return time.Now().Add(time.Hour) })
	note := saga.Child("note", notes, func(r saga.Run[order]) string { return r.Key })
	orders := saga.New("order", &saga.Options[order]{Key: orderID, Deadline: time.Hour}, held, approve,
		charge, shipping, cool, note)
	if err := orders.Faults(); err != nil {
		t.Fatal(err)
	}
	if orders.Hash() == notes.Hash() || len(orders.Hash()) != 32 {
		t.Error("hashes", orders.Hash(), notes.Hash())
	}
}

// TestFaults: all faults are reported together.
func TestFaults(t *testing.T) {
	a := saga.Do("a", reserve, nil)
	b := saga.Do("b", reserve, release, saga.NoEffect(), saga.After(a))
	c := saga.CallWith("c", saga.Request[tx, order, int, receipt]{}, nil, saga.Pivot())
	d := saga.Do("d",
		func(context.Context, context.Context, saga.Run[order]) (int,
			error) {
			return 0, errors.New("other")
		}, nil, saga.AtStart(), saga.NoEffect())
	e := saga.Wait[order]("e", saga.Signal[int]{}, saga.SkipOnTimeout())
	f := saga.Do("f", reserve, release, saga.After(c), saga.When(func(saga.Run[string]) bool { return true }))
	err := saga.New("", &saga.Options[order]{Deadline: -1, MaxBytes: 1 << 20}, a, b, c, d, e, f, nil,
		saga.Do("d", reserve, release, saga.After(a))).Faults()
	if err == nil {
		t.Fatal("no faults")
	}
	for _, want := range []string{
		`its name`, `Options.Key`, `deadline -1ns`, `MaxBytes is 1048576`, `step "d" is listed twice`,
		`step 7 is nil`,
		`a Request needs At, Intent and Do`, `takes context.Context`, `its signal has no name`,
		`SkipOnTimeout is for a Wait with a Timeout`,
		`its When takes string`, `has an undo and NoEffect`,
		`step "f" has an undo, and comes after the pivot`,
		`step "d" runs in parallel with the pivot "c"`, `step "a" has no undo`,
	} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("the error does not contain %q:\n%v", want, err)
		}
	}
}

// TestFaultsOfACallNameTheStep: the faults of a Call and of its undo name the step.
func TestFaultsOfACallNameTheStep(t *testing.T) {
	c := saga.CallWith("c", saga.Request[tx, order, int, receipt]{},
		saga.UndoRequest[tx, order, receipt, int, bool]{})
	err := saga.New("order", &saga.Options[order]{Key: orderID}, c).Faults()
	if want := `saga "order": step "c": a Request needs At, Intent and Do
step "c": its undo: a Request needs At, Intent and Do`; err == nil || err.Error() != want {
		t.Errorf("%v\nwant\n%s", err, want)
	}
}

// TestOptionsWithoutAFunction: an option without its function is a fault of the definition.
func TestOptionsWithoutAFunction(t *testing.T) {
	err := saga.New("order", &saga.Options[order]{Key: orderID},
		saga.Do("a", reserve, release, saga.When[order](nil), saga.Each[order](nil))).Faults()
	for _, want := range []string{"its When has no function", "its Each has no function"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
}

// TestFaultsOfADuplicateName: a duplicate name hides no other fault, and causes none.
func TestFaultsOfADuplicateName(t *testing.T) {
	a := saga.Do("a", reserve, release)
	err := saga.New("order", &saga.Options[order]{Key: orderID}, a, saga.Do("b", reserve, nil),
		saga.Do("a", reserve, nil), saga.Do("pay", reserve, nil, saga.Pivot()),
		saga.Do("late", reserve, release, saga.AtStart()), saga.Do("c", reserve, release,
			saga.After(a))).Faults()
	want := `saga "order": step "a" is listed twice: each step needs its own name
step "b" has no undo: add one, or NoEffect if there is nothing to undo
step "a (again)" has no undo: add one, or NoEffect if there is nothing to undo
step "late" runs in parallel with the pivot "pay": it must come before or after it
step "c" runs in parallel with the pivot "pay": it must come before or after it`
	if err == nil || err.Error() != want {
		t.Errorf("%v\nwant\n%s", err, want)
	}
}
