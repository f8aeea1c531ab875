package saga_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/skald-go/skald/httpidem"
	"github.com/skald-go/skald/saga"
)

// TestStartedByAnEndpoint: an endpoint starts a saga in its commit. A request that fails starts none, and a
// repeated request starts no other.
func TestStartedByAnEndpoint(t *testing.T) {
	pool, db, schema := onPostgres(t)
	def := saga.New("trip", &saga.Options[trip]{Key: tripKey}, pgLedger(schema, "hotel", nil))
	engine := pgEngine(t, db, saga.EngineOptions{}, def)
	fail := true
	h := httpidem.Handle(db, "trips", httpidem.OneTenant,
		&httpidem.Options{Logger: slog.New(slog.DiscardHandler)},
		func(ctx context.Context, tx pgx.Tx, q httpidem.Request[trip]) (httpidem.Reply[string], error) {
			started, err := saga.Bind(engine, def).Start(ctx, tx, q.Body)
			if err == nil && fail {
				err = errors.New("not this time")
			}
			return httpidem.Accepted(started.ID, "/trips/"+q.Body.ID), err
		})
	post := func(key string) *httptest.ResponseRecorder {
		r := httptest.NewRequest(http.MethodPost, "/trips", strings.NewReader(`{"id":"t-1"}`))
		r.Header.Set("Content-Type", "application/json")
		r.Header.Set(httpidem.KeyHeader, key)
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		return w
	}
	sagas := func(want int) {
		t.Helper()
		var n int
		if err := pool.QueryRow(t.Context(),
			fmt.Sprintf("SELECT count(*) FROM %s.skald_saga", schema)).Scan(&n); err != nil || n != want {
			t.Errorf("%d sagas, %v, want %d", n, err, want)
		}
	}
	if w := post("k-1"); w.Code != http.StatusInternalServerError {
		t.Errorf("a request that fails: %d %s", w.Code, w.Body)
	}
	sagas(0)
	fail = false
	first := post("k-1")
	for _, key := range []string{"k-1", "k-2"} { // the repeated request, and another one for the same saga
		if again := post(key); again.Code != http.StatusAccepted ||
			again.Body.String() != first.Body.String() {
			t.Errorf("%s: %d %s, first %s", key, again.Code, again.Body, first.Body)
		}
	}
	sagas(1)
	for busy := true; busy; {
		var err error
		if busy, err = engine.Step(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	if n := pgRows(t, pool, schema, "t-1"); n != 1 {
		t.Errorf("its step took effect %d times", n)
	}
}
