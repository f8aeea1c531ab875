package saga_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"

	"github.com/skald-go/skald"
	"github.com/skald-go/skald/call"
	"github.com/skald-go/skald/saga"
	"github.com/skald-go/skald/store/memstore"
)

// ExampleCall: the gateway charges, but its answer is lost. The engine looks the charge up. A later
// step is rejected, so the engine refunds the charge.
func ExampleCall() {
	bank := call.NewProvider("bank", nil)
	charges := map[string]int{}
	charge := call.NewEndpoint(bank, func(_ context.Context, cents int, key string) (string, error) {
		charges[key] = cents
		return "", errors.New("connection reset")
	}).WithLookup(func(_ context.Context, _ int, key string) (string, bool, error) {
		_, found := charges[key]
		return "a receipt", found, nil
	})
	refund := call.NewEndpoint(bank, func(_ context.Context, receipt, _ string) (bool, error) {
		fmt.Println("refund by", receipt)
		return true, nil
	})
	pay := saga.Call("pay", charge, func(r saga.Run[Order]) int { return r.In.Cents },
		saga.UndoCall(refund, func(_ saga.Run[Order], receipt string) string { return receipt }))
	ship := saga.Exec("ship", func(context.Context, *memstore.Tx, saga.Run[Order]) error {
		return skald.Reject(errors.New("no such address"))
	}, nil, saga.Pivot())
	definition := saga.New("order", &saga.Options[Order]{Key: func(o Order) string { return o.ID }},
		pay, ship)

	db := memstore.New(nil)
	engine, err := saga.NewEngine(db, &saga.EngineOptions{Logger: slog.New(slog.DiscardHandler)}, definition)
	if err != nil {
		fmt.Println(err)
	}
	orders := saga.Bind(engine, definition)
	ctx, stop := context.WithCancel(context.Background())
	done := make(chan error)
	go func() { done <- engine.Run(ctx) }()
	tx := db.BeginTx()
	_, err = orders.Start(ctx, tx, Order{ID: "o-1", Cents: 500})
	err = errors.Join(err, tx.Commit())
	end, failed := orders.Await(ctx, "o-1")
	stop()
	fmt.Println(end.Step, end.Reason, len(charges), errors.Join(err, failed, <-done))
	// Output:
	// refund by a receipt
	// ship rejected: no such address 1 <nil>
}

// TestCallUndoneLocally: a Call with an undo in a transaction has the type of that transaction.
func TestCallUndoneLocally(t *testing.T) {
	at := call.NewEndpoint(call.NewProvider("bank", nil),
		func(_ context.Context, id, _ string) (string, error) { return "receipt of " + id, nil })
	request := func(r saga.Run[trip]) string { return r.In.ID }
	undone := func(_ context.Context, tx tx, r saga.Run[trip], receipt string) error {
		return tx.Put(r.Key+" undone", receipt)
	}
	no := saga.Exec("no", func(context.Context, tx, saga.Run[trip]) error {
		return skald.Reject(errors.New("no"))
	}, nil, saga.Pivot())
	db := memstore.New(nil)
	d := saga.New("trip", &saga.Options[trip]{Key: tripKey},
		saga.Call("book", at, request, saga.UndoLocal(undone)), no)
	e := engineOf(t, db, d)
	running(t, e)
	begin(t, db, e, d, trip{ID: "a"})
	if end := await(t, e, d, "a"); end.Done || db.User()["a undone"] != "receipt of a" {
		t.Errorf("it ended as %+v with %v", end, db.User())
	}
}

// TestFaultsOfPlainCalls: NewEngine reports an undo that does not fit its step, and a Call without a
// function.
func TestFaultsOfPlainCalls(t *testing.T) {
	at := call.NewEndpoint(call.NewProvider("bank", nil),
		func(_ context.Context, id, _ string) (string, error) { return id, nil })
	request := func(r saga.Run[trip]) string { return r.In.ID }
	other := saga.UndoCall(at, func(_ saga.Run[trip], cents int) string { return "" })
	for want, s := range map[string]saga.StepOf[trip]{
		"its UndoCall takes": saga.Call("s", at, request, other),
		"UndoCall is for a Call without another undo": saga.Exec("s",
			func(context.Context, tx, saga.Run[trip]) error { return nil }, nil, other),
		"call.NewEndpoint": saga.Call("s", call.Endpoint[string, string]{}, request, saga.NoEffect()),
		"no function that makes its request": saga.Call[trip, string, string]("s", at, nil,
			saga.NoEffect()),
		"its UndoBy is for a Command": saga.Call("s", at, request, saga.NoEffect(), saga.UndoBy(unpackIt,
			func(saga.Run[trip]) stand { return stand{} }, saga.Reply(unpacked))),
	} {
		err := saga.New("trip", &saga.Options[trip]{Key: tripKey}, s).Faults()
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q is not in %v", want, err)
		}
	}
}
