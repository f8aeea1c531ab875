package gateway_test

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"testing"
	"time"

	"github.com/skald-go/skald/examples/shop/gateway"
	"github.com/skald-go/skald/examples/shop/table"
	"github.com/skald-go/skald/store/sqlitestore"
)

// counter returns a gateway with these moods behind HTTP, and its ledger's clock.
func counter(t *testing.T, r gateway.Rates) (gateway.Gateway, *time.Time) {
	t.Helper()
	db, err := sqlitestore.Open(filepath.Join(t.TempDir(), "gateway.db"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	now := time.Now()
	l, err := gateway.NewLedger(table.SQLite(db, nil), &gateway.Options{Memory: time.Hour,
		Funds: map[string]int64{"ada": 100}, Now: func() time.Time { return now }})
	if err == nil {
		err = l.Prepare(t.Context())
	}
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(gateway.NewServer(l, gateway.NewMoods(1, r)).Handler())
	t.Cleanup(server.Close)
	return gateway.NewClient(server.URL), &now
}

func order(cents int64) gateway.Move {
	return gateway.Move{Customer: "ada", Order: "o/1", Cents: cents}
}

func TestKeysAreRememberedForATime(t *testing.T) {
	g, now := counter(t, gateway.Rates{})
	ctx := t.Context()
	first, err := g.Charge(ctx, "k/1", order(40))
	if err != nil || first.ID == "" || first.Move != order(40) {
		t.Fatalf("%+v, %v", first, err)
	}
	if again, err := g.Charge(ctx, "k/1", order(40)); err != nil || again != first {
		t.Errorf("again: %+v, %v", again, err)
	}
	if _, err := g.Charge(ctx, "k/1", order(41)); !errors.Is(err, gateway.ErrOther) {
		t.Errorf("other: %v", err)
	}
	var no *gateway.RefusedError
	for range 2 {
		if _, err := g.Charge(ctx, "k2", order(61)); !errors.As(err, &no) || no.Reason != gateway.NoMoney {
			t.Errorf("more than there is: %v", err)
		}
	}
	if _, err := g.Refund(ctx, "k3", order(40)); err != nil {
		t.Error(err)
	}
	if _, err := g.Charge(ctx, "k2", order(61)); !errors.As(err, &no) { // a refusal is remembered, too
		t.Errorf("again: %v", err)
	}
	*now = now.Add(2 * time.Hour)
	if found, there, err := g.Find(ctx, "k/1"); err != nil || !there || found != first {
		t.Errorf("look-up: %+v, %v, %v", found, there, err)
	}
	if r, err := g.Charge(ctx, "k/1", order(40)); err != nil || r.ID == first.ID {
		t.Errorf("of a forgotten key: %+v, %v", r, err)
	}
	if _, err := g.Charge(ctx, "", order(1)); !errors.Is(err, gateway.ErrInvalid) {
		t.Errorf("no key: %v", err)
	}
	if _, there, err := g.Find(ctx, "unheard of"); there || err != nil {
		t.Errorf("look-up of nothing: %v, %v", there, err)
	}
}

func TestCancelUsesTheKeyUp(t *testing.T) {
	g, _ := counter(t, gateway.Rates{})
	ctx := t.Context()
	if _, done, err := g.Cancel(ctx, "k1"); done || err != nil {
		t.Errorf("cancel: %v, %v", done, err)
	}
	var no *gateway.RefusedError
	if _, err := g.Charge(ctx, "k1", order(1)); !errors.As(err, &no) || no.Reason != gateway.Cancelled {
		t.Errorf("a charge that comes late: %v", err)
	}
	r, err := g.Charge(ctx, "k2", order(1))
	if err != nil {
		t.Fatal(err)
	}
	if was, done, err := g.Cancel(ctx, "k2"); !done || was != r || err != nil {
		t.Errorf("cancel of what was done: %+v, %v, %v", was, done, err)
	}
}

func TestMoods(t *testing.T) {
	var busy *gateway.BusyError
	var no *gateway.RefusedError
	for name, c := range map[string]struct {
		rates gateway.Rates
		is    func(error) bool
		moved bool
	}{
		"busy":     {gateway.Rates{Busy: 1}, func(err error) bool { return errors.As(err, &busy) }, false},
		"declines": {gateway.Rates{Decline: 1}, func(err error) bool { return errors.As(err, &no) }, false},
		"fails": {gateway.Rates{Fail: 1},
			func(err error) bool { return err != nil && !errors.As(err, &no) && !errors.As(err, &busy) },
			true},
		"hangs": {gateway.Rates{Hang: 1, HangFor: time.Hour},
			func(err error) bool { return errors.Is(err, context.DeadlineExceeded) }, true},
		"forgets": {gateway.Rates{Forget: 1}, func(err error) bool { return err == nil }, true},
	} {
		t.Run(name, func(t *testing.T) {
			g, _ := counter(t, c.rates)
			most := 5 * time.Minute
			if name == "hangs" { // this ends with the caller's patience
				most = 3 * time.Second
			}
			ctx, cancel := context.WithTimeout(t.Context(), most)
			defer cancel()
			_, err := g.Charge(ctx, "k", order(1))
			if !c.is(err) {
				t.Errorf("charge: %v", err)
			}
			if name == "busy" {
				return
			}
			// The effect happens even if the client has disconnected.
			for deadline := time.Now().Add(5 * time.Minute); ; {
				_, there, err := g.Find(t.Context(), "k")
				if err == nil && there == c.moved {
					break
				}
				if time.Now().After(deadline) {
					t.Fatalf("moved: %v, %v", there, err)
				}
			}
		})
	}
}

// Errors are problem+json.
func TestProblems(t *testing.T) {
	server := httptest.NewServer(gateway.NewServer[int](nil,
		gateway.NewMoods(1, gateway.Rates{Busy: 1})).Handler())
	defer server.Close()
	answer, err := http.Get(server.URL + "/moves/k")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = answer.Body.Close() }()
	if answer.StatusCode != http.StatusServiceUnavailable ||
		answer.Header.Get("Content-Type") != "application/problem+json" ||
		answer.Header.Get("Retry-After") != "1" {
		t.Errorf("%d %v", answer.StatusCode, answer.Header)
	}
}
