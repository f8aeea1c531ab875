package sagatest_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/skald-go/skald"
	"github.com/skald-go/skald/outbox"
	"github.com/skald-go/skald/saga"
	"github.com/skald-go/skald/sagatest"
	"github.com/skald-go/skald/store/memstore"
)

var (
	booked   = skald.Event[seats]{Topic: "bookings", Type: "booking.confirmed"}
	unbooked = skald.Event[string]{Topic: "bookings", Type: "booking.cancelled"}
)

// ExampleEmitsIfDone: the guest gets one confirmation, or one cancellation.
func ExampleEmitsIfDone() {
	out := outbox.New(memstore.New(nil), nil)
	booking := saga.New("booking", &saga.Options[seats]{Key: func(s seats) string { return s.Show }},
		saga.Exec("confirm", func(ctx context.Context, tx *memstore.Tx, r saga.Run[seats]) error {
			return out.Write(ctx, tx, booked.New(r.Key, r.In)) // too early: the next step may reject
		}, func(ctx context.Context, tx *memstore.Tx, r saga.Run[seats]) error {
			return out.Write(ctx, tx, unbooked.New(r.Key, "sorry"))
		}),
		saga.Do("book", book, unbook, saga.Pivot()))
	c := sagatest.Check(quiet{}, booking, seats{"hamlet", 2},
		sagatest.Given(func(_ context.Context, tx *memstore.Tx) error { return tx.Put("free", "9") }),
		sagatest.EmitsIfDone(booked))
	fmt.Println(strings.ReplaceAll(c.Failures[0].Broken[0], ", and its", ",\nand its"))
	// Output:
	// a promise is broken: the saga is compensated,
	// and its functions wrote the event booking.confirmed on bookings 1 times instead of 0
}

// emitting returns a saga that emits two events: its last step confirms a booking, and the undo of its first
// step cancels the booking.
func emitting(confirm, cancel func(context.Context, mtx, saga.Run[seats]) error) *saga.Definition[seats] {
	return saga.New("booking", &saga.Options[seats]{Key: func(s seats) string { return s.Show }},
		saga.Do("open", func(context.Context, mtx, saga.Run[seats]) (bool, error) { return true, nil },
			func(ctx context.Context, tx mtx, r saga.Run[seats], _ bool) error { return cancel(ctx, tx, r) }),
		saga.Do("book", book, unbook),
		saga.Exec("confirm", confirm, nil, saga.Pivot()))
}

// TestCheckOfEmittedEvents: a promise about emitted events finds an event that is lost, repeated or emitted
// at the wrong end. It also finds an event that survives the rollback of its transaction.
func TestCheckOfEmittedEvents(t *testing.T) {
	out := outbox.New(memstore.New(nil), nil)
	confirm := func(ctx context.Context, tx mtx, r saga.Run[seats]) error {
		return out.Write(ctx, tx, booked.New(r.Key, r.In))
	}
	cancel := func(ctx context.Context, tx mtx, r saga.Run[seats]) error {
		return out.Write(ctx, tx, unbooked.New(r.Key, "sorry"))
	}
	twice := func(ctx context.Context, tx mtx, r saga.Run[seats]) error {
		return errors.Join(confirm(ctx, tx, r), confirm(ctx, tx, r))
	}
	known := func(text string) func(ctx context.Context, tx mtx, r saga.Run[seats]) error {
		return func(ctx context.Context, tx mtx, _ saga.Run[seats]) error {
			first, again := booked.New("k", seats{"hamlet", 2}), booked.New("k", seats{text, 2})
			first.ID = "01980000-0000-7000-8000-000000000001"
			again.ID = first.ID
			return out.Write(ctx, tx, first, again)
		}
	}
	elsewhere := func(ctx context.Context, _ mtx, r saga.Run[seats]) error {
		other := memstore.New(nil).BeginTx()
		return out.Write(ctx, other, booked.New(r.Key, r.In))
	}
	nothing := func(context.Context, mtx, saga.Run[seats]) error { return nil }
	for name, c := range map[string]struct {
		confirm, cancel func(context.Context, mtx, saga.Run[seats]) error
		want            string
	}{
		"holds":                    {confirm, cancel, ""},
		"twice":                    {twice, cancel, "booking.confirmed on bookings 2 times instead of 1"},
		"lost":                     {nothing, cancel, "the saga is done, and its functions wrote the event booking.confirmed on bookings 0"},
		"no undo tells":            {confirm, nothing, "done: false, and the cancellations are []"},
		"an id that is repeated":   {known("hamlet"), cancel, ""},
		"an id of another message": {known("lear"), cancel, "under the id 01980000-0000-7000-8000-000000000001 of another"},
		"a transaction of its own": {elsewhere, cancel, "not the handler's transaction"},
	} {
		t.Run(name, func(t *testing.T) {
			r := &recorder{T: t}
			sagatest.Check(r, emitting(c.confirm, c.cancel), seats{"hamlet", 2},
				sagatest.Given(func(ctx context.Context, tx mtx) error {
					err := out.Write(ctx, tx, booked.New("other", seats{})) // belongs to no saga
					return errors.Join(err, tx.Put("free", "9"))
				}),
				sagatest.EmitsIfDone(booked),
				sagatest.Promise(func(_ context.Context, _ mtx, end sagatest.End) error {
					began, err := end.Output("open", "", new(bool))
					sorry, failed := sagatest.Emitted(end, unbooked)
					if want := began && !end.Done; want != slices.Equal(sorry, []string{"sorry"}) {
						failed = errors.Join(failed,
							fmt.Errorf("done: %t, and the cancellations are %q", end.Done, sorry))
					}
					return errors.Join(err, failed)
				}))
			if said := strings.Join(r.said, "\n"); (said == "") != (c.want == "") ||
				!strings.Contains(said, c.want) {
				t.Errorf("want %q, got %q", c.want, said)
			}
		})
	}
}

// TestCheckOnSeveralDatabases checks that AlsoOn runs schedules in parallel, and that WithoutPairs omits
// second faults.
func TestCheckOnSeveralDatabases(t *testing.T) {
	out := outbox.New(memstore.New(nil), nil)
	d := emitting(func(ctx context.Context, tx mtx, r saga.Run[seats]) error {
		return out.Write(ctx, tx, booked.New(r.Key, r.In))
	}, func(context.Context, mtx, saga.Run[seats]) error { return nil })
	const wait = 3 * time.Minute // normally the other run is there at once
	here, there := make(chan bool), make(chan bool)
	runs := 0
	fresh := func(context.Context) (sagatest.Beginner[mtx], error) {
		if runs++; runs == 3 { // two runs without a fault come first
			select {
			case here <- true:
				<-there
			case <-time.After(wait):
				return nil, errors.New("no run on the other database at the same time")
			}
		}
		return memstore.New(nil), nil
	}
	met := false
	other := func(context.Context) (sagatest.Beginner[mtx], error) {
		if !met {
			met = <-here
			there <- true
		}
		return memstore.New(nil), nil
	}
	terms := []sagatest.Term{sagatest.EmitsIfDone(booked),
		sagatest.Given(func(_ context.Context, tx mtx) error { return tx.Put("free", "9") })}
	both := sagatest.CheckOn(t, fresh, d, seats{"hamlet", 2}, append(terms, sagatest.AlsoOn(other))...)
	alone := sagatest.Check(t, d, seats{"hamlet", 2}, terms...)
	few := sagatest.Check(t, d, seats{"hamlet", 2}, append(terms, sagatest.WithoutPairs())...)
	if both.Runs != alone.Runs || few.Runs >= alone.Runs || few.Runs < 15 {
		t.Errorf("%d runs on two databases, %d on one, %d in short", both.Runs, alone.Runs, few.Runs)
	}
	r := &deadly{recorder{T: t}}
	defer func() {
		if said := fmt.Sprint(recover()); !strings.Contains(said, "omit AlsoOn") {
			t.Errorf("with a fake outside: %s", said)
		}
	}()
	sagatest.CheckOn(r, other, d, seats{"hamlet", 2}, append(terms, sagatest.AlsoOn(other),
		sagatest.Outside(func() {}, nil))...)
}
