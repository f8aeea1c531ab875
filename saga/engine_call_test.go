package saga_test

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/skald-go/skald"
	"github.com/skald-go/skald/call"
	"github.com/skald-go/skald/saga"
	"github.com/skald-go/skald/store"
	"github.com/skald-go/skald/store/memstore"
)

// bank deduplicates by key. It loses the first Lose answers after they took effect.
type bank struct {
	mu     sync.Mutex
	paid   map[string]int // by key
	voided map[string]bool
	asked  int
	lose   int
	hold   chan struct{} // nil: it answers at once
	asking chan struct{}
	at     *call.Provider
}

func newBank() *bank {
	return &bank{paid: map[string]int{}, voided: map[string]bool{}, asking: make(chan struct{}, 100),
		at: call.NewProvider("bank", &call.ProviderOptions{Timeout: time.Minute, Trip: 1000})}
}

func (b *bank) pay(ctx context.Context, cents int, key string) (string, error) {
	b.asking <- struct{}{}
	if b.hold != nil {
		<-b.hold
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.asked++
	if b.voided[key] || cents < 0 {
		return "", skald.Reject(errors.New("declined"))
	}
	b.paid[key] = cents
	if b.lose > 0 {
		b.lose--
		return "", errors.New("connection reset")
	}
	return "receipt " + key, nil
}

func (b *bank) find(_ context.Context, _ int, key string) (string, bool, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	_, ok := b.paid[key]
	return "receipt " + key, ok, nil
}

func (b *bank) void(_ context.Context, _ int, key string) (string, bool, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	_, ok := b.paid[key]
	b.voided[key] = !ok
	return "receipt " + key, ok, nil
}

func (b *bank) refund(_ context.Context, receipt, _ string) (bool, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.paid, strings.TrimPrefix(receipt, "receipt "))
	return true, nil
}

func (b *bank) payments() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return len(b.paid)
}

// paying returns a saga with a hold, a payment and a parcel. Settle writes a row.
func paying(b *bank, settle error) *saga.Definition[trip] {
	pay := saga.CallWith("pay", saga.Request[tx, trip, int, string]{At: b.at, Do: b.pay, LookUp: b.find,
		Cancel: b.void,
		Intent: func(_ context.Context, _ tx, r saga.Run[trip]) (int, error) {
			return map[bool]int{true: -1, false: 100}[r.In.Fail["pay"] == "decline"], nil
		},
		Settle: func(_ context.Context, tx tx, r saga.Run[trip], o call.Outcome[string]) error {
			if o.Refused {
				return nil
			}
			if err := tx.Put(r.Key+" paid", o.Value); err != nil {
				return err
			}
			return settle
		}},
		saga.UndoRequest[tx, trip, string, string, bool]{At: b.at, Do: b.refund,
			Intent: func(_ context.Context, _ tx, _ saga.Run[trip], receipt string) (string, error) {
				return receipt, nil
			},
			Settle: func(_ context.Context, tx tx, r saga.Run[trip], _ call.Outcome[bool]) error {
				return tx.Delete(r.Key + " paid")
			}},
		saga.Retry(saga.Policy{InitialInterval: time.Millisecond}),
		saga.RetryUndo(saga.Policy{InitialInterval: time.Millisecond}))
	return saga.New("paying", &saga.Options[trip]{Key: tripKey}, ledger("hold"), pay, ledger("pack"))
}

func TestCall(t *testing.T) {
	for name, c := range map[string]struct {
		fail     map[string]string
		lose     int
		settle   error
		done     bool
		why      string
		payments int
	}{
		"well":          {done: true, payments: 1},
		"lost answers":  {lose: 1, done: true, payments: 1},
		"declined":      {fail: map[string]string{"pay": "decline"}, why: "rejected"},
		"refunded":      {fail: map[string]string{"pack": "reject"}, why: "rejected"},
		"settle no":     {settle: skald.Reject(errors.New("no such account")), why: "rejected"},
		"lost, refund":  {lose: 1, fail: map[string]string{"pack": "reject"}, why: "rejected"},
		"settle broken": {settle: skald.Permanent(errors.New("no table")), why: "failed"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b, db := newBank(), memstore.New(nil)
			b.lose = c.lose
			d := paying(b, c.settle)
			e := engineOf(t, db, d)
			running(t, e)
			begin(t, db, e, d, trip{"a", c.fail})
			if name == "settle broken" {
				// the money is taken, but the consequences cannot be written: an operator decides
				awaitStanding(t, db, "a", func(s store.Saga) bool { return s.Stuck })
				if b.payments() != 1 {
					t.Errorf("%d payments", b.payments())
				}
				return
			}
			if end := await(t, e, d, "a"); end.Done != c.done || end.Why != c.why {
				t.Errorf("it ended as %+v", end)
			}
			if n := b.payments(); n != c.payments {
				t.Errorf("%d payments", n)
			}
			if n := left(db, "a"); n != map[bool]int{true: 3, false: 0}[c.done] {
				t.Errorf("%d rows are left: %v", n, db.User())
			}
		})
	}
}

// awaitStanding waits until a saga has a state.
func awaitStanding(t *testing.T, db *memstore.Store, key string, is func(store.Saga) bool) store.Saga {
	t.Helper()
	deadline := time.Now().Add(5 * time.Minute)
	for {
		woken := db.Woken()
		ss, err := store.ListSagas(t.Context(), db, store.SagaQuery{Key: key})
		if err != nil {
			t.Fatal(err)
		}
		if len(ss) == 1 && is(ss[0]) {
			return ss[0]
		}
		if time.Now().After(deadline) {
			t.Fatalf("it never gets into this state: %+v", ss)
		}
		select {
		case <-woken:
		case <-time.After(10 * time.Millisecond):
		}
	}
}
