package sagatest_test

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"testing"
	"time"

	"github.com/skald-go/skald"
	"github.com/skald-go/skald/saga"
	"github.com/skald-go/skald/sagatest"
	"github.com/skald-go/skald/store/memstore"
)

type seats struct {
	Show  string
	Seats int
}

func book(_ context.Context, tx *memstore.Tx, r saga.Run[seats]) (int, error) {
	old, _ := tx.Get("free")
	free, err := strconv.Atoi(old)
	if err == nil && free < r.In.Seats {
		err = skald.Reject(errors.New("sold out"))
	}
	return r.In.Seats, errors.Join(err, tx.Put("free", strconv.Itoa(free-r.In.Seats)))
}

func unbook(_ context.Context, tx *memstore.Tx, _ saga.Run[seats], n int) error {
	old, _ := tx.Get("free")
	free, err := strconv.Atoi(old)
	return errors.Join(err, tx.Put("free", strconv.Itoa(free+n)))
}

func tell(_ context.Context, tx *memstore.Tx, r saga.Run[seats]) (bool, error) {
	return true, tx.Put("letter "+r.Key, "dear guest")
}

func TestBooking(t *testing.T) {
	booking := saga.New("booking", &saga.Options[seats]{Key: func(s seats) string { return s.Show }},
		saga.Do("book", book, unbook),
		saga.Do("tell", tell, nil, saga.Pivot()))
	sagatest.Check(t, booking, seats{"hamlet", 2},
		sagatest.Given(func(_ context.Context, tx *memstore.Tx) error { return tx.Put("free", "9") }),
		sagatest.Rival(seats{"macbeth", 3}),
		sagatest.Promise(func(_ context.Context, tx *memstore.Tx, end sagatest.End) error {
			if _, told := tx.Get("letter " + end.Key); told != end.Done {
				return fmt.Errorf("a letter was written: %v, and the seats are booked: %v", told, end.Done)
			}
			return nil
		}))
}

type approval struct{ By string }

// approved has the name of the approver, or "" for a refusal.
var approved = saga.Signal[approval]{Name: "approved"}

// ExampleSignal gives Check the decisions of a person: an approval, and a refusal, which this saga ignores.
func ExampleSignal() {
	approve := saga.Wait[seats]("approve", approved, saga.Timeout(24*time.Hour))
	booking := saga.New("booking", &saga.Options[seats]{Key: func(s seats) string { return s.Show }},
		saga.Do("book", book, unbook),
		approve,
		saga.Do("tell", tell, nil, saga.Pivot()))
	c := sagatest.Check(quiet{}, booking, seats{"hamlet", 2},
		sagatest.Given(func(_ context.Context, tx *memstore.Tx) error { return tx.Put("free", "9") }),
		sagatest.Signal(approved, approval{By: "ada"}, approval{}),
		sagatest.Promise(func(_ context.Context, _ *memstore.Tx, end sagatest.End) error {
			var who approval
			if _, err := end.Output("approve", "", &who); err != nil || end.Done && who.By == "" {
				return errors.Join(err, errors.New("a letter was written, and nobody has approved"))
			}
			return nil
		}))
	for _, f := range c.Failures {
		fmt.Println(f.Broken)
		fmt.Print(f.Trace)
	}
	// Output:
	// [a promise is broken: a letter was written, and nobody has approved]
	//    1  run book
	//    2  signal approved brings {"By":""}
	//    3  run tell
}

// quiet is a T for an example; a test has *testing.T.
type quiet struct{}

func (quiet) Helper()                      {}
func (quiet) Name() string                 { return "Example" }
func (quiet) Context() context.Context     { return context.Background() }
func (quiet) Logf(string, ...any)          {}
func (quiet) Errorf(string, ...any)        {}
func (quiet) Fatalf(text string, a ...any) { fmt.Printf(text+"\n", a...) }
