package saga_test

import (
	"context"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/skald-go/skald/call"
	"github.com/skald-go/skald/saga"
	"github.com/skald-go/skald/store"
	"github.com/skald-go/skald/store/memstore"
)

// hangingSteps returns steps, each with one function that calls hang.
func hangingSteps(hang func(key string)) map[string]saga.StepOf[trip] {
	type run = saga.Run[trip]
	nothing := func(context.Context, tx, run) (int, error) { return 0, nil }
	long := saga.Retry(saga.Policy{Timeout: time.Hour})
	child := saga.New("child", &saga.Options[trip]{Key: tripKey}, ledger("a"))
	request := saga.Request[tx, trip, string, string]{
		At:     call.NewProvider("p", nil),
		Intent: func(_ context.Context, _ tx, r run) (string, error) { return r.Key, nil },
		Do:     func(context.Context, string, string) (string, error) { return "", nil },
	}
	intent, do := request, request
	intent.Intent = func(_ context.Context, _ tx, r run) (string, error) {
		hang(r.Key)
		return r.Key, nil
	}
	do.Do = func(_ context.Context, key, _ string) (string, error) { hang(key); return "", nil }
	return map[string]saga.StepOf[trip]{
		"Do": saga.Do("s", func(_ context.Context, _ tx, r run) (int, error) {
			hang(r.Key)
			return 0, nil
		}, nil, saga.NoEffect(), long),
		"When": saga.Do("s", nothing, nil, saga.NoEffect(),
			saga.When(func(r run) bool { hang(r.Key); return true })),
		"Each": saga.Do("s", nothing, nil, saga.NoEffect(),
			saga.Each(func(r run) []string { hang(r.Key); return []string{"a"} })),
		"Until": saga.Until("s", func(r run) time.Time { hang(r.Key); return time.Unix(1, 0) }),
		"Lock": saga.Lock("s", func(r run) []store.Lock {
			hang(r.Key)
			return []store.Lock{{Space: "s", Key: r.Key}}
		}),
		"Child": saga.Child("s", child, func(r run) trip {
			hang(r.Key)
			return trip{ID: "child of " + r.Key}
		}),
		"Command": saga.Command("s", packIt, func(r run) stand { hang(r.Key); return stand{} },
			saga.Reply(packed), saga.NoEffect()),
		"Intent":  saga.CallWith("s", intent, nil, saga.NoEffect()),
		"Request": saga.CallWith("s", do, nil, saga.NoEffect()),
	}
}

// TestFunctionsThatNeverReturn checks each function of a step that may hang. Sagas of other keys go on, the
// step of a function without a context fails with an error, and Run ends soon after its Drain.
func TestFunctionsThatNeverReturn(t *testing.T) {
	for name := range hangingSteps(nil) {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				end := make(chan bool)
				defer synctest.Wait()
				defer close(end)
				step := hangingSteps(func(key string) {
					if key == "hangs" {
						<-end
					}
				})[name]
				neverReturns(t, name, step)
			})
		})
	}
}

func neverReturns(t *testing.T, name string, step saga.StepOf[trip]) {
	db := memstore.New(nil)
	d := saga.New("d", &saga.Options[trip]{Key: tripKey}, step)
	e, err := saga.NewEngine(db, &saga.EngineOptions{Logger: slog.New(slog.DiscardHandler), Workers: 2}, d)
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- e.Run(ctx) }()
	begin(t, db, e, d, trip{ID: "hangs"})
	time.Sleep(time.Minute)
	s := awaitStanding(t, db, "hangs", func(store.Saga) bool { return true })
	pure := name != "Do" && name != "Request" // these have their own time
	if pure && !strings.Contains(s.Error, "not return") && s.Status != "compensated" {
		t.Errorf("the saga that hangs is %+v", s.SagaStatus)
	}
	begin(t, db, e, d, trip{ID: "other"})
	time.Sleep(time.Minute)
	s = awaitStanding(t, db, "other", func(store.Saga) bool { return true })
	if s.Ended.IsZero() && name != "Command" {
		t.Errorf("the other saga is %+v", s.SagaStatus)
	}
	stop()
	select {
	case err := <-ended:
		if err != nil {
			t.Error(err)
		}
	case <-time.After(30 * time.Second):
		t.Error("Run does not end")
	}
}
