package sagatest_test

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"testing"

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
