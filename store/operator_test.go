package store_test

import (
	"context"
	"errors"
	"testing"

	"github.com/skald-go/skald/store"
)

// uncountable tells all but how many sagas there are.
type uncountable struct{ err error }

func (u uncountable) Status(ctx context.Context, q store.StatusQuery) (s store.Status, err error) {
	if q.Backlog {
		s.Pending = 3
	}
	if !q.Sagas {
		return s, nil
	}
	if u.err == nil { // somebody has the table locked
		<-ctx.Done()
		return store.Status{}, ctx.Err()
	}
	return store.Status{}, u.err
}

// A count of sagas that fails or hangs hides nothing else.
func TestBacklogWhereSagasCannotBeCounted(t *testing.T) {
	for _, err := range []error{errors.New("permission denied"), nil} {
		want := err
		if err == nil {
			want = context.DeadlineExceeded
		}
		b, failed := store.ReadBacklog(t.Context(), uncountable{err})
		if failed != nil || b.Pending != 3 || !errors.Is(b.Uncounted, want) {
			t.Errorf("it tells %+v, %v", b, failed)
		}
	}
}
