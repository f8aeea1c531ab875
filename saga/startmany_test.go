package saga_test

import (
	"database/sql"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5"
	"go.opentelemetry.io/otel/sdk/metric"

	"github.com/skald-go/skald/saga"
	"github.com/skald-go/skald/store"
)

// TestStartAll: many sagas start in one transaction, or none. Sagas with the same input are found.
func TestStartAll(t *testing.T) { onEach(t, startAllOf[tx], startAllOf[*sql.Tx], startAllOf[pgx.Tx]) }

func startAllOf[TTx any](k *desk[TTx]) {
	s := newSharing(k)
	s.d = saga.New("many", &saga.Options[order]{Key: orderID}, s.step("a"))
	s.e = s.engine(s.db, metric.NewManualReader())
	all := saga.Bind(s.e, s.d)
	start := func(ins ...order) ([]saga.Started, error) {
		u, err := s.db.Begin(s.t.Context(), store.Intake{})
		if err != nil {
			s.t.Fatal(err)
		}
		out, err := all.StartAll(s.t.Context(), u.Tx(), ins)
		if err != nil {
			_, lost := u.Rollback(s.t.Context())
			return nil, errors.Join(err, lost)
		}
		return out, u.Commit(s.t.Context())
	}
	first, err := start(order{ID: "1"}, order{ID: "2"})
	if err != nil {
		s.t.Fatal(err)
	}
	again, err := start(order{ID: "3"}, order{ID: "1"})
	if err != nil || !again[0].New || again[1].New || again[1].ID != first[0].ID ||
		first[0].ID == first[1].ID {
		s.t.Errorf("%v, then %v, %v", first, again, err)
	}
	other := (*saga.OtherError)(nil)
	if _, err := start(order{ID: "4"}, order{ID: "1", Cents: 1}); !errors.As(err, &other) ||
		other.ID != first[0].ID || !strings.Contains(err.Error(), "input 2 of 2") {
		s.t.Error(err)
	}
	if _, err := start(order{ID: "5"}, order{}); err == nil || !strings.Contains(err.Error(), "input 2 of 2") {
		s.t.Error(err)
	}
	s.quiet(s.e)
	ss, err := store.ListSagas(s.t.Context(), s.db, store.SagaQuery{Name: "many"})
	if err != nil || len(ss) != 3 || ss[0].Status != "done" {
		s.t.Errorf("%d sagas: %v, %v", len(ss), ss, err)
	}
}

// TestStartNow: concurrent starts without a transaction share commits. A start that waits for a rival, or
// has another input, does not delay the others.
func TestStartNow(t *testing.T) { onEach(t, startNow[tx], startNow[*sql.Tx], startNow[pgx.Tx]) }

func startNow[TTx any](k *desk[TTx]) {
	s := newSharing(k)
	s.d = saga.New("now", &saga.Options[order]{Key: orderID}, s.step("a"))
	s.e = s.engine(s.db, metric.NewManualReader())
	all := saga.Bind(s.e, s.d)
	if _, err := all.StartNow(s.t.Context(), order{ID: "same", Cents: 1}); err != nil {
		s.t.Fatal(err)
	}
	rival, err := k.db.Begin(s.t.Context(), store.Intake{})
	if err == nil {
		_, err = all.Start(s.t.Context(), rival.Tx(), order{ID: "rival"})
	}
	if err != nil {
		s.t.Fatal(err)
	}
	commits := s.commits.n.Load()
	var starts, others sync.WaitGroup
	one := func(in order, fresh bool, other bool) {
		is, err := all.StartNow(s.t.Context(), in)
		refused := (*saga.OtherError)(nil)
		if is.New != fresh || errors.As(err, &refused) != other || err != nil && !other {
			s.t.Errorf("%s: fresh %v, %v", in.ID, is.New, err)
		}
	}
	starts.Go(func() { one(order{ID: "rival"}, false, false) })
	for i := range 20 {
		others.Go(func() { one(order{ID: fmt.Sprint(i)}, true, false) })
	}
	others.Go(func() { one(order{ID: "same", Cents: 1}, false, false) })
	others.Go(func() { one(order{ID: "same", Cents: 2}, false, true) })
	_, file := any(rival.Tx()).(*sql.Tx)
	if !file { // a file has one writer
		others.Wait()
	}
	if err := rival.Commit(s.t.Context()); err != nil {
		s.t.Error(err)
	}
	others.Wait()
	starts.Wait()
	if n := s.commits.n.Load() - commits; n > 30 || file && n > 5 {
		s.t.Errorf("%d commits of 24 starts", n)
	}
	s.quiet(s.e)
	ss, err := store.ListSagas(s.t.Context(), s.db, store.SagaQuery{Name: "now"})
	if err != nil || len(ss) != 22 {
		s.t.Errorf("%d sagas, %v", len(ss), err)
	}
}
