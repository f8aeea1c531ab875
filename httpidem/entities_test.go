package httpidem_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/skald-go/skald/httpidem"
	"github.com/skald-go/skald/store"
)

// The endpoint locks the entities of a request together with its key until the commit. Each commit increases
// their versions. A concurrent request for the same entity gets 409.
func TestEntities(t *testing.T) {
	everywhere(t, func(t *testing.T) { testEntities(t, inMemory(t)) },
		func(t *testing.T) { testEntities(t, onSQLite(t)) },
		func(t *testing.T) { testEntities(t, onPgx(t)) },
		func(t *testing.T) { testEntities(t, onDatabaseSQL(t)) })
}

func testEntities[TTx any](t *testing.T, g *ground[TTx]) {
	o := quiet()
	o.Wait = -1
	o.Entities = func(_ *http.Request, body []byte) []store.Lock {
		switch string(body) {
		case `{}`:
			panic("about nothing")
		case `{"SKU":""}`:
			return []store.Lock{{Space: "order"}}
		}
		return []store.Lock{{Space: "order", Key: string(body)}}
	}
	s := &shop[TTx]{ground: g}
	inHand, goOn := make(chan struct{}), make(chan struct{})
	wait := func() (httpidem.Reply[view], error) {
		close(inHand)
		<-goOn
		return httpidem.OK(view{"waited"}), nil
	}
	one, two := g.locking(s, o), g.locking(s, o) // two processes, as far as memory goes
	tea := func(key string) post { return post{key: key, body: `{"SKU":"tea"}`} }
	for i, h := range []http.Handler{one, two} {
		answers(t, tea(fmt.Sprint("k-", i)).to(h), 201, fmt.Sprintf(`{"ID":"version %d"}`, i+1))
	}
	replayed(t, tea("k-0").to(two), true)
	s.answer = wait
	first := make(chan *httptest.ResponseRecorder, 1)
	go func() { first <- tea("k-2").to(one) }()
	select {
	case <-inHand:
	case w := <-first:
		t.Fatalf("a request that nobody is in the way of is answered %d %s", w.Code, w.Body)
	}
	for _, h := range []http.Handler{one, two} {
		answers(t, tea("k-3").to(h), 409, "for the same entity")
	}
	close(goOn)
	answers(t, <-first, 200, "waited")
	s.answer = nil
	answers(t, tea("k-3").to(two), 201, `{"ID":"version 4"}`)
	for i, no := range []error{errors.New("rolled back"), httpidem.Refuse(402, "declined"),
		httpidem.Refuse(402, "declined")} {
		s.answer = func() (httpidem.Reply[view], error) { return httpidem.Reply[view]{}, no }
		tea(fmt.Sprint("no-", i)).to(one)
	}
	s.answer = nil
	answers(t, tea("k-5").to(two), 201, `{"ID":"version 7"}`)
	for _, body := range []string{`{}`, `{"SKU":""}`} {
		answers(t, post{key: "k-4", body: body}.to(one), 500, "the service failed")
	}
	answers(t, post{key: "k-4", body: `{"SKU":"salt"}`}.to(one), 201, `{"ID":"version 1"}`)
	s.wantList(t, "placed", "tea tea tea tea tea salt")
}

// locking returns an endpoint that answers with the versions of the entities that it locks.
func (g *ground[TTx]) locking(s *shop[TTx], o *httpidem.Options) http.Handler {
	return httpidem.Handle(g.db, "orders", httpidem.OneTenant, o,
		func(ctx context.Context, tx TTx, q httpidem.Request[order]) (httpidem.Reply[view], error) {
			if len(q.Locks) != 1 || q.Locks[0].Space != "order" {
				return httpidem.Reply[view]{}, fmt.Errorf("locked: %v", q.Locks)
			}
			if err := s.note(tx, "placed", q.Body.SKU); err != nil || s.answer == nil {
				return httpidem.Created(view{fmt.Sprint("version ", q.Locks[0].Version)}, "/orders/1"), err
			}
			return s.answer()
		})
}

// Wrap has no transaction for a lock, so it refuses the option.
func TestWrapLocksNothing(t *testing.T) {
	o := quiet()
	o.Entities = func(*http.Request, []byte) []store.Lock { return nil }
	h := httpidem.Wrap(inMemory(t).db, "legacy", httpidem.OneTenant, o, http.NotFoundHandler())
	answers(t, post{key: "k", body: `{}`}.to(h), 500, "the service failed")
}
