package store_test

import (
	"context"
	"errors"
	"testing"

	"github.com/skald-go/skald/store"
)

// uncountable returns a backlog, but fails or hangs when it counts sagas.
type uncountable struct{ err error }

func (u uncountable) Status(ctx context.Context, q store.StatusQuery) (s store.Status, err error) {
	if q.Backlog {
		s.Pending = 3
	}
	if !q.Sagas {
		return s, nil
	}
	if u.err == nil { // another transaction has the table locked
		<-ctx.Done()
		return store.Status{}, ctx.Err()
	}
	return store.Status{}, u.err
}

// TestBacklogWhereSagasCannotBeCounted checks that a failed or hanging count of sagas does not hide the rest.
func TestBacklogWhereSagasCannotBeCounted(t *testing.T) {
	for _, err := range []error{errors.New("permission denied"), nil} {
		want := err
		if err == nil {
			want = context.DeadlineExceeded
		}
		b, failed := store.ReadBacklog(t.Context(), uncountable{err})
		if failed != nil || b.Pending != 3 || !errors.Is(b.Uncounted, want) {
			t.Errorf("backlog %+v, %v", b, failed)
		}
	}
}
