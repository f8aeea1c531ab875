package console_test

import (
	"context"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/skald-go/skald"
	"github.com/skald-go/skald/console"
	"github.com/skald-go/skald/operate"
	"github.com/skald-go/skald/store"
	"github.com/skald-go/skald/store/memstore"
)

// The data of a signal is a payload: no page shows it to a viewer.
func TestDataOfSignals(t *testing.T) {
	db := memstore.New(nil)
	run := operate.NewSagaRun("signal-1", operate.SagaSelection{Name: "order", Status: "running"},
		operate.SagaChange{Verb: operate.SignalSaga, Signal: "paid", Data: []byte(`{"card":"4711"}`)}, 2,
		operate.Order{Author: "ann", Reason: "by phone"})
	if err := operate.BeginRun(t.Context(), db, run); err != nil {
		t.Fatal(err)
	}
	b := open(t, of(db),
		&console.Options{User: func(*http.Request) (console.User, error) {
			return console.User{Name: "ben", May: console.View}, nil
		}})
	for _, path := range []string{"/audit", "/audit?has=4711", "/runs", "/run?in=orders&run=signal-1"} {
		for _, kind := range []string{"text/html", "application/json"} {
			w := b.do(http.MethodGet, path, nil, "Accept", kind)
			body := strings.ReplaceAll(w.Body.String(), "has=4711", "")
			body = strings.ReplaceAll(body, `value="4711"`, "")
			if w.Code != http.StatusOK || strings.Contains(body, "4711") {
				t.Errorf("%s as %s: %d: %s", path, kind, w.Code, body)
			}
			if !strings.Contains(body, "paid") && kind == "application/json" &&
				!strings.Contains(path, "has=") {
				t.Errorf("%s does not say which signal: %s", path, body)
			}
		}
	}
	got, err := operate.ReadRun(t.Context(), db, "signal-1")
	// resuming the run needs it
	if err != nil || string(got.Request.Change.Data) != `{"card":"4711"}` {
		t.Errorf("%s, %v", got.Request.Change.Data, err)
	}
}

// Header values pass MaskHeader; without it they are hidden.
func TestMask(t *testing.T) {
	const at = "/message?consumer=payment&id=d-0&in=orders&source=%2Fshop"
	mask := func(skald.Message, []byte) []byte { return []byte("masked") }
	for name, c := range map[string]struct {
		o     console.Options
		shows string
	}{
		"no mask":     {console.Options{}, "tenant: <code>blue</code>"},
		"of payloads": {console.Options{Mask: mask}, "hidden, since Options.MaskHeader is not set"},
		"of headers too": {console.Options{Mask: mask,
			MaskHeader: func(_ skald.Message, name string, value []byte) []byte {
				return []byte(name[:1] + string(value[:1]))
			}}, "tenant: <code>tb</code>"},
	} {
		b := open(t, of(kept(t, 1)), &c.o)
		form := b.form(b.page(at), "/message/payload")
		page := b.do(http.MethodPost, "/message/payload", form).Body.String()
		if !strings.Contains(page, c.shows) || c.o.Mask != nil && (strings.Contains(page, "blue") ||
			strings.Contains(page, "4711") || !strings.Contains(page, "masked")) {
			t.Errorf("%s: %s", name, page)
		}
		body := b.do(http.MethodPost, "/message/payload", form, "Accept", "application/json").Body.String()
		if c.o.Mask != nil && strings.Contains(body, "blue") {
			t.Errorf("%s: %s", name, body)
		}
	}
}

// locked store accepts no write until its context ends.
type locked struct{ store.Driver[*memstore.Tx] }

func (locked) Apply(ctx context.Context, _ ...store.Effect) ([]bool, error) {
	<-ctx.Done()
	return nil, ctx.Err()
}

// forgetful store accepts a write and does not store it.
type forgetful struct{ store.Driver[*memstore.Tx] }

func (forgetful) Apply(_ context.Context, effects ...store.Effect) ([]bool, error) {
	return make([]bool, len(effects)), nil
}

// If the access is not recorded, the page shows no payload and reports it. A write that hangs ends with the
// deadline.
func TestPayloadAccessThatCannotBeRecorded(t *testing.T) {
	message := url.Values{"in": {"orders"}, "consumer": {"payment"}, "source": {"/shop"}, "id": {"d-0"}}
	saga := url.Values{"in": {"orders"}, "name": {"order"}, "key": {"o-0"}}
	for _, look := range []struct {
		path   string
		of     url.Values
		db     store.Driver[*memstore.Tx]
		secret string
	}{{"/message/payload", message, kept(t, 1), "4711"},
		{"/saga/data", saga, newEngine(t, 1).db, "reserved"}} {
		for _, c := range []struct {
			db   store.Driver[*memstore.Tx]
			code int
			says string
		}{
			{look.db, http.StatusOK, look.secret},
			{locked{look.db}, http.StatusServiceUnavailable, "no answer within 1s"},
			{forgetful{look.db}, http.StatusServiceUnavailable,
				"the access could not be recorded, so nothing is shown: try again"},
		} {
			b := open(t, of(c.db), &console.Options{Deadline: time.Second})
			var who struct{ Token string }
			b.get("/session", &who)
			look.of.Set("token", who.Token)
			w := b.do(http.MethodPost, look.path, look.of)
			if body := w.Body.String(); w.Code != c.code || !strings.Contains(body, c.says) ||
				c.code != http.StatusOK && strings.Contains(body, look.secret) {
				t.Errorf("%s of %T: %d: %s", look.path, c.db, w.Code, body)
			}
		}
	}
}
