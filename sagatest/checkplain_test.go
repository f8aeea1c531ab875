package sagatest_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/skald-go/skald/call"
	"github.com/skald-go/skald/saga"
	"github.com/skald-go/skald/sagatest"
)

// TestCheckOfPlainCalls: Check runs Calls without transactions. A charge is refunded, unless the saga is
// done.
func TestCheckOfPlainCalls(t *testing.T) {
	charged := map[string]string{}
	bank := call.NewProvider("bank", nil)
	charge := call.NewEndpoint(bank, func(_ context.Context, id, key string) (string, error) {
		charged[key] = id
		return key, nil
	}).WithLookup(func(_ context.Context, _, key string) (string, bool, error) {
		return key, charged[key] != "", nil
	})
	refund := call.NewEndpoint(bank, func(_ context.Context, receipt, _ string) (bool, error) {
		delete(charged, receipt)
		return true, nil
	})
	pay := saga.Call("pay", charge, func(r saga.Run[seats]) string { return r.Key },
		saga.UndoCall(refund, func(_ saga.Run[seats], receipt string) string { return receipt }))
	note := saga.Exec("note", func(_ context.Context, tx mtx, r saga.Run[seats]) error {
		return tx.Put("noted "+r.Key, "yes")
	}, nil, saga.Pivot())
	booking := saga.New("booking", &saga.Options[seats]{Key: func(s seats) string { return s.Show }},
		pay, note)
	c := sagatest.Check(t, booking, seats{"hamlet", 2},
		sagatest.Given(func(context.Context, mtx) error { clear(charged); return nil }),
		sagatest.Promise(func(_ context.Context, _ mtx, end sagatest.End) error {
			if (len(charged) == 1) != end.Done || len(charged) > 1 {
				return fmt.Errorf("%d charges, and the saga is done: %t", len(charged), end.Done)
			}
			return nil
		}))
	if c.Runs < 20 {
		t.Errorf("%d runs", c.Runs)
	}
}
