package saga_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/skald-go/skald"
	"github.com/skald-go/skald/call"
	"github.com/skald-go/skald/saga"
	"github.com/skald-go/skald/store/memstore"
)

type (
	line struct {
		SKU      string
		Quantity int
	}
	basket struct {
		ID    string
		Lines []line
		Notes map[string]string
	}
)

// halve modifies its argument in place, and returns the earlier value.
func halve(in basket) string {
	was := fmt.Sprint(in.Lines, in.Notes)
	for i := range in.Lines {
		in.Lines[i].Quantity /= 2
	}
	in.Notes["spoilt"] = "yes"
	return was
}

// TestEachFunctionSeesTheInputAsStored: a function that modifies its input in place does not affect others:
// in the same process, in a retry, in parallel, or in an undo.
func TestEachFunctionSeesTheInputAsStored(t *testing.T) {
	db, bank := memstore.New(nil), call.NewProvider("bank", nil)
	note := func(tx tx, name string, r saga.Run[basket]) error {
		return tx.Put(fmt.Sprint(name, " ", r.Attempt), halve(r.In))
	}
	step := func(name string, until int, opts ...saga.Option) *saga.Step[basket, map[string]int] {
		return saga.Do(name, func(_ context.Context, tx tx, r saga.Run[basket]) (map[string]int, error) {
			if r.Attempt < until {
				halve(r.In)
				return nil, errors.New("not now")
			}
			return map[string]int{"tea": 4}, note(tx, name+r.Occurrence, r)
		}, func(_ context.Context, tx tx, r saga.Run[basket], out map[string]int) error {
			out["tea"]++
			return note(tx, fmt.Sprint("undo ", name, r.Occurrence), r)
		}, append(opts, saga.Retry(saga.Policy{InitialInterval: time.Millisecond}))...)
	}
	first, late := step("first", 1), step("late", 3)
	left, right := step("left", 1, saga.After(late)), step("right", 2, saga.After(late))
	each := step("each", 1, saga.After(left, right), saga.When(func(r saga.Run[basket]) bool {
		return halve(r.In) != "" // before its occurrences are decided
	}), saga.Each(func(r saga.Run[basket]) []string { return []string{halve(r.In)[:2], "b"} }))
	asked := 0
	ask := saga.CallWith("ask", saga.Request[tx, basket, map[string]int, map[string]int]{At: bank,
		Intent: func(_ context.Context, _ tx, r saga.Run[basket]) (map[string]int, error) {
			first.Output(r)["tea"] = 9
			halve(r.In)
			return first.Output(r), nil
		},
		Do: func(_ context.Context, req map[string]int, _ string) (map[string]int, error) {
			was := req["tea"]
			if req["tea"]++; asked < 2 {
				asked++
				return nil, errors.New("no answer")
			}
			return map[string]int{"asked for": was}, nil
		},
		LookUp: func(_ context.Context, req map[string]int, _ string) (map[string]int, bool, error) {
			req["tea"] = 9
			return nil, false, nil
		},
	}, nil, saga.NoEffect(), saga.Retry(saga.Policy{InitialInterval: time.Millisecond}))
	last := saga.Do("last", func(_ context.Context, _ tx, r saga.Run[basket]) (bool, error) {
		ask.Output(r)["asked for"]++
		return false, skald.Reject(fmt.Errorf("asked for %d", ask.Output(r)["asked for"]))
	}, nil, saga.NoEffect())
	d := saga.New("basket", &saga.Options[basket]{Key: func(b basket) string { return b.ID }}, first, late,
		left, right, each, ask, last)
	e := engineOf(t, db, d)
	running(t, e)
	in := basket{"b-1", []line{{"tea", 4}}, map[string]string{"for": "ada"}}
	want := fmt.Sprint(in.Lines, in.Notes)
	begin(t, db, e, d, in)
	if end := await(t, e, d, "b-1"); end.Done || end.Reason != "rejected: asked for 4" {
		t.Errorf("it ended at %s: %s", end.Step, end.Reason)
	}
	rows := db.User()
	for key, was := range rows {
		if was != want {
			t.Errorf("%s saw %s, and %s is stored", key, was, want)
		}
	}
	if len(rows) != 12 {
		t.Errorf("%d functions wrote: %v", len(rows), rows)
	}
}
