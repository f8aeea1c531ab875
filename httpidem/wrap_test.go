package httpidem_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/skald-go/skald"
	"github.com/skald-go/skald/httpidem"
	"github.com/skald-go/skald/once"
	"github.com/skald-go/skald/store"
	"github.com/skald-go/skald/store/memstore"
)

// old is a handler without support for keys.
type old struct {
	runs atomic.Int64
	do   http.HandlerFunc
}

func (o *old) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	o.runs.Add(1)
	o.do(w, r)
}

func wrapped(db httpidem.LeaseStore, o *httpidem.Options, next http.Handler) http.Handler {
	return httpidem.Wrap(db, "old", httpidem.OneTenant, o, next)
}

// impatient returns options that do not wait for another request.
func impatient() *httpidem.Options {
	o := quiet()
	o.Wait = -1
	return o
}

func TestWrap(t *testing.T) {
	everywhere(t, func(t *testing.T) { testWrap[mem](t, inMemory(t)) },
		func(t *testing.T) { testWrap[*sql.Tx](t, onSQLite(t)) },
		func(t *testing.T) { testWrap[pgx.Tx](t, onPgx(t)) },
		func(t *testing.T) { testWrap[*sql.Tx](t, onDatabaseSQL(t)) })
}

// Wrap stores status, headers and body of an answer. Like Handle, it does not store answers with certain
// statuses.
func testWrap[TTx any](t *testing.T, g *ground[TTx]) {
	o := &old{}
	one, two := wrapped(g.db, quiet(), o), wrapped(g.db, quiet(), o)
	for _, code := range []int{201, 204, 404, 403, 429, 500} {
		o.do = func(w http.ResponseWriter, r *http.Request) {
			body, _ := io.ReadAll(r.Body)
			w.Header().Set("X-Old", string(body))
			w.Header().Set("Set-Cookie", "session=1")
			w.WriteHeader(code)
			_, _ = fmt.Fprintf(w, "<p>%d</p>", o.runs.Load())
		}
		before := o.runs.Load()
		p := post{key: fmt.Sprint("k-", code), body: `{"SKU":"größe"}`}
		first, second := p.to(one), p.to(two)
		stored := code == 201 || code == 204 || code == 404
		if replayed(t, second, stored); first.Code != code || second.Code != code ||
			o.runs.Load()-before != map[bool]int64{true: 1, false: 2}[stored] {
			t.Errorf("%d: %d, then %d, %d runs", code, first.Code, second.Code, o.runs.Load()-before)
		}
		if first.Header().Get("Set-Cookie") == "" || stored && second.Header().Get("Set-Cookie") != "" {
			t.Errorf("%d: a cookie: %v, then %v", code, first.Header(), second.Header())
		}
		if stored && (first.Body.String() != second.Body.String() || second.Header().Get("X-Old") != p.body ||
			second.Header().Get("Content-Type") != first.Header().Get("Content-Type")) {
			t.Errorf("%d: %s %v, then %s %v", code, first.Body, first.Header(), second.Body, second.Header())
		}
		if stored {
			p.body = "other"
			answers(t, p.to(two), 422, "reused")
		}
	}
}

// If two processes receive a request, the second one answers 409 while the first has the key. Later it sends
// the stored answer.
func TestWrapInProgress(t *testing.T) {
	g := inMemory(t)
	inHand, goOn := make(chan struct{}), make(chan struct{})
	o := &old{do: func(w http.ResponseWriter, _ *http.Request) {
		close(inHand)
		<-goOn
		_, _ = io.WriteString(w, "done")
	}}
	one, two := wrapped(g.db, impatient(), o), wrapped(g.db, impatient(), o)
	p := post{key: "k", body: "{}"}
	first := make(chan *httptest.ResponseRecorder)
	go func() { first <- p.to(one) }()
	<-inHand
	w := p.to(two)
	answers(t, w, 409, "request-in-progress")
	// The rest of the lease.
	if after, err := strconv.Atoi(w.Header().Get("Retry-After")); err != nil || after < 1 || after > 60 {
		t.Errorf("Retry-After: %v", w.Header())
	}
	other := p
	other.body = "[]"
	answers(t, other.to(two), 422, "reused")
	waits := make(chan *httptest.ResponseRecorder)
	patient := quiet()
	patient.Wait = 10 * time.Minute
	go func() { waits <- p.to(wrapped(g.db, patient, o)) }()
	close(goOn)
	answers(t, <-first, 200, "done")
	for _, w := range []*httptest.ResponseRecorder{<-waits, p.to(two)} {
		answers(t, w, 200, "done")
		replayed(t, w, true)
	}
}

// If a handler is paused for longer than its lease, it cannot overwrite the answer of the process that took
// over. Its client gets that answer.
func TestWrapPausedPastItsLease(t *testing.T) {
	var mu sync.Mutex
	now := time.Now()
	pass := func(d time.Duration) {
		mu.Lock()
		defer mu.Unlock()
		now = now.Add(d)
	}
	db := memstore.New(&memstore.Options{Now: func() time.Time {
		mu.Lock()
		defer mu.Unlock()
		return now
	}})
	inHand, goOn := make(chan struct{}), make(chan struct{})
	o := &old{}
	o.do = func(w http.ResponseWriter, _ *http.Request) {
		n := o.runs.Load()
		if n == 1 {
			close(inHand)
			<-goOn
		}
		_, _ = fmt.Fprint(w, "run ", n)
	}
	one, two := wrapped(db, impatient(), o), wrapped(db, impatient(), o)
	p := post{key: "k", body: "{}"}
	first := make(chan *httptest.ResponseRecorder)
	go func() { first <- p.to(one) }()
	<-inHand
	pass(59 * time.Second)
	answers(t, p.to(two), 409, "in-progress")
	pass(2 * time.Second) // the lease of a minute is over: as after a crash
	answers(t, p.to(two), 200, "run 2")
	close(goOn)
	answers(t, <-first, 200, "run 2")
	answers(t, p.to(wrapped(db, impatient(), o)), 200, "run 2")
}

// After a panic the key stays reserved until the lease ends, because the effect is unknown. After an answer
// of 500 the key is free immediately.
func TestWrapPanic(t *testing.T) {
	now := time.Now()
	db := memstore.New(&memstore.Options{Now: func() time.Time { return now }})
	o := &old{do: func(http.ResponseWriter, *http.Request) { panic("after the effect") }}
	h := wrapped(db, impatient(), o)
	p := post{key: "k", body: "{}"}
	answers(t, p.to(h), 500, "the service failed")
	answers(t, p.to(h), 409, "in-progress")
	now = now.Add(2 * time.Minute)
	o.do = func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "done") }
	answers(t, p.to(h), 200, "done")
	if o.runs.Load() != 2 {
		t.Errorf("%d runs", o.runs.Load())
	}
}

// TestWrapInvalidStatus checks that an invalid HTTP status has the result of a panic. The key stays reserved
// until the lease ends.
func TestWrapInvalidStatus(t *testing.T) {
	for _, code := range []int{1234, 600, 99, 0, -1} {
		now := time.Now()
		db := memstore.New(&memstore.Options{Now: func() time.Time { return now }})
		o := &old{do: func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(code)
			w.WriteHeader(http.StatusServiceUnavailable)
			_, _ = io.WriteString(w, "done")
		}}
		h := wrapped(db, impatient(), o)
		p := post{key: "k", body: "{}"}
		answers(t, p.to(h), 500, "the service failed")
		for range 3 {
			answers(t, p.to(h), 409, "in-progress")
		}
		if o.runs.Load() != 1 {
			t.Errorf("%d: %d runs", code, o.runs.Load())
		}
	}
}

// A handler that streams or hijacks gets an error that names the problem. An answer that is too large is
// stored as done.
func TestWrapRefuses(t *testing.T) {
	g := inMemory(t)
	o := &old{}
	h := wrapped(g.db, quiet(), o)
	for name, c := range map[string]struct {
		do   http.HandlerFunc
		says string
	}{
		"hijack": {func(w http.ResponseWriter, _ *http.Request) {
			_, _, _ = http.NewResponseController(w).Hijack()
		}, "cannot hijack"},
		"events": {func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "text/event-stream")
			_, _ = io.WriteString(w, "data: 1\n\n")
		}, "cannot stream"},
	} {
		o.do = c.do
		answers(t, post{key: name, body: "{}"}.to(h), 500, c.says)
	}
	o.runs.Store(0)
	chunk := make([]byte, 1<<20)
	for _, megabytes := range []int{1, 33} {
		o.do = func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Location", "/report/1")
			for range megabytes {
				_, _ = w.Write(chunk)
			}
		}
		p := post{key: fmt.Sprint("large-", megabytes), body: "{}"}
		w := p.to(h)
		if megabytes == 1 && (w.Code != 200 || w.Body.Len() != 1<<20) {
			t.Errorf("%d, %d bytes", w.Code, w.Body.Len())
		}
		if megabytes > 32 {
			answers(t, w, 409, "/report/1")
		}
		answers(t, p.to(wrapped(g.db, quiet(), o)), 409, `"instance":"/report/1"`)
	}
	if o.runs.Load() != 2 {
		t.Errorf("%d runs", o.runs.Load())
	}
}

// If the answer of the store is lost, Wrap tries again, also if the call took effect.
func TestWrapAnswerLost(t *testing.T) {
	g := inMemory(t)
	o := &old{do: func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "done") }}
	for i, takes := range []bool{true, false} {
		db := &loses{Driver: g.db, left: 1, takes: takes}
		p := post{key: fmt.Sprint("k-", i), body: "{}"}
		for range 2 {
			answers(t, p.to(wrapped(db, quiet(), o)), 200, "done")
		}
	}
	if o.runs.Load() != 2 {
		t.Errorf("%d runs", o.runs.Load())
	}
}

// loses is a database that loses answers of Apply.
type loses struct {
	store.Driver[mem]
	left  int
	takes bool
}

func (l *loses) Apply(ctx context.Context, es ...store.Effect) ([]bool, error) {
	if l.left == 0 {
		return l.Driver.Apply(ctx, es...)
	}
	l.left--
	if l.takes {
		_, _ = l.Driver.Apply(ctx, es...)
	}
	return make([]bool, len(es)), errAway
}

// On the client side, the key of a message is the same in each attempt.
func TestTransport(t *testing.T) {
	s := &shop[mem]{ground: inMemory(t)}
	server := httptest.NewServer(s.endpoint(quiet()))
	t.Cleanup(server.Close)
	client := &http.Client{Transport: &httpidem.Transport{Base: server.Client().Transport}}
	ask := func(ctx context.Context, method string) (*http.Response, error) {
		r, err := http.NewRequestWithContext(ctx, method, server.URL+"/orders",
			strings.NewReader(`{"SKU":"tea"}`))
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Content-Type", "application/json")
		w, err := client.Do(r)
		if err == nil {
			_ = w.Body.Close()
			if r.Header.Get("Idempotency-Key") != "" {
				t.Error("the caller's request was changed")
			}
		}
		return w, err
	}
	message := skald.WithCause(t.Context(), skald.Message{Source: "/shop", ID: "m-1"})
	step := httpidem.WithKey(message, `step "1"`)
	for i, ctx := range []context.Context{message, message, step, step} {
		if w, err := ask(ctx, "POST"); err != nil || w.StatusCode != 201 ||
			(w.Header.Get("Idempotent-Replayed") == "true") != (i%2 == 1) {
			t.Errorf("%d: %v, %v", i, w, err)
		}
	}
	s.wantList(t, "placed", "tea tea")
	for _, bad := range []context.Context{t.Context(), httpidem.WithKey(t.Context(), ""),
		httpidem.WithKey(t.Context(), "größe")} {
		if _, err := ask(bad, "POST"); err == nil {
			t.Error("a request without a key that can be sent is sent")
		}
	}
	if w, err := ask(t.Context(), "GET"); err != nil || w.StatusCode != 400 {
		t.Errorf("GET: %v, %v", w, err)
	}
}

// Wrap uses once.Reserve. This test checks the errors of once.Reserve.
func TestReserveErrors(t *testing.T) {
	g := inMemory(t)
	q := once.Request{Scope: "s", Key: "k", Payload: []byte("1")}
	mine, err := once.Reserve(t.Context(), g.db, q, time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	var held *once.InProgressError
	if _, err := once.Reserve(t.Context(), g.db, q, time.Minute); !errors.As(err, &held) ||
		!errors.Is(err, store.ErrBusy) || held.Left > time.Minute {
		t.Errorf("a second one: %v", err)
	}
	if err := mine.Finish(t.Context(),
		once.Answer{Result: strings.Repeat("x", once.MaxResult+1)}); err == nil {
		t.Error("a result that is too large is kept")
	}
	if err := mine.GiveBack(t.Context()); err != nil {
		t.Error(err)
	}
	if err := mine.Finish(t.Context(), once.Answer{Result: "late"}); !errors.Is(err, store.ErrLost) {
		t.Errorf("finished after it was given back: %v", err)
	}
	if _, done, err := once.Look(t.Context(), g.db, q); done || err != nil {
		t.Errorf("done: %v, %v", done, err)
	}
	if _, err := once.Reserve(t.Context(), g.db, once.Request{Scope: "s"}, time.Minute); err == nil {
		t.Error("an empty key")
	}
}
