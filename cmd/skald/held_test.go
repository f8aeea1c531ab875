package main_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/skald-go/skald"
	"github.com/skald-go/skald/examples/shop/event"
	"github.com/skald-go/skald/examples/shop/order"
	"github.com/skald-go/skald/examples/shop/place"
	"github.com/skald-go/skald/examples/shop/service"
	"github.com/skald-go/skald/status"
)

// The command that an order's status names frees the order, word for word, as a shell reads it.
func TestCommandOfAStatusFreesTheOrder(t *testing.T) {
	t.Parallel()
	for state, attempts := range map[string]int{"parked": 25, "dead": 1} {
		t.Run(state, func(t *testing.T) {
			t.Parallel()
			folder := filepath.Join(t.TempDir(), "the shop's")
			orders, steps := shopOn(t, folder, attempts)
			file := filepath.Join(folder, "inventory.db")
			exec1(t, file,
				"CREATE TRIGGER sick BEFORE INSERT ON reservations BEGIN SELECT RAISE(ABORT, 'the shelf fell'); END")
			r := httptest.NewRequest(http.MethodPost, "/orders",
				bytes.NewBufferString(`{"customer":"ada","items":[{"sku":"tea","quantity":2}]}`))
			r.Header.Set("Idempotency-Key", "mine")
			var now standing
			answered(t, orders, r, &now.Summary)
			ask := func() int { return askHeld(t, orders, &now) }
			stepped(t, steps, func() bool { return ask() == 1 })
			if now.Held[0].State != state {
				t.Fatalf("held by %+v", now.Held)
			}
			exec1(t, file, "DROP TRIGGER sick")
			typed := exec.CommandContext(t.Context(), "sh", "-c",
				strings.Replace(now.Held[0].Command, " --store ", " --yes --store ", 1))
			typed.Env = append(os.Environ(), "PATH="+filepath.Dir(binary())+":"+os.Getenv("PATH"))
			if said, err := typed.CombinedOutput(); err != nil {
				t.Fatalf("%s: %v\n%s", now.Held[0].Command, err, said)
			}
			stepped(t, steps, func() bool { return ask() == 0 && now.Summary.State == order.Confirmed })
		})
	}
}

// shopOn is a whole shop on SQLite whose consumers do not try again by themselves for an hour.
func shopOn(t *testing.T, folder string, attempts int) (orders http.Handler, steps []skald.Stepper) {
	t.Helper()
	d := place.SQLite(folder)
	bus, err := place.OpenBus("mem:")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := errors.Join(bus.Close(), d.Close()); err != nil {
			t.Error(err)
		}
	})
	o := &service.Options{}
	r := &o.Inbox.Retry
	r.InitialInterval, r.MaxInterval, r.Attempts = time.Hour, time.Hour, attempts
	for _, name := range service.Names() {
		client, err := bus.Connect(name)
		if err == nil {
			err = errors.Join(place.MakeTopics(t.Context(), client, event.New(""), 0),
				d.Prepare(t.Context(), name))
		}
		if err != nil {
			t.Fatal(err)
		}
		one, err := d.Service(t.Context(), name, client, o)
		if err != nil {
			t.Fatal(err)
		}
		if h := one.HTTP(); h != nil {
			orders = h
		}
		steps = append(steps, one.Steppers()...)
	}
	return orders, steps
}

func answered(t *testing.T, h http.Handler, r *http.Request, into any) {
	t.Helper()
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	if err := json.Unmarshal(w.Body.Bytes(), into); err != nil || w.Code >= http.StatusMultipleChoices {
		t.Fatalf("%s %s: %d, %v: %s", r.Method, r.URL, w.Code, err, w.Body)
	}
}

// A standing is where an order stands: by its own state, and by its status.
type standing struct {
	order.Summary
	status.Answer
}

// askHeld is how many messages hold the order. A service that gave no answer in time, on a slow machine, is
// asked again.
func askHeld(t *testing.T, orders http.Handler, now *standing) int {
	t.Helper()
	for end := time.Now().Add(5 * time.Minute); ; {
		at := "/orders/" + now.ID
		answered(t, orders, httptest.NewRequest(http.MethodGet, at, nil), &now.Summary)
		w := httptest.NewRecorder()
		orders.ServeHTTP(w, httptest.NewRequest(http.MethodGet, at+"/status", nil))
		now.Answer = status.Answer{}
		if err := json.Unmarshal(w.Body.Bytes(), &now.Answer); err != nil {
			t.Fatalf("%d, %v: %s", w.Code, err, w.Body)
		}
		if len(now.Silent) == 0 {
			return len(now.Held)
		}
		if time.Now().After(end) {
			t.Fatalf("silent are %+v", now.Silent)
		}
	}
}

// stepped lets all work until done, for five minutes at most.
func stepped(t *testing.T, steps []skald.Stepper, done func() bool) {
	t.Helper()
	ctx, stop := context.WithTimeout(t.Context(), 5*time.Minute)
	defer stop()
	for !done() {
		for _, one := range steps {
			if _, err := one.Step(ctx); err != nil {
				t.Fatal(err)
			}
		}
	}
}
