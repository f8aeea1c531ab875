package httpidem_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/skald-go/skald"
	"github.com/skald-go/skald/httpidem"
	"github.com/skald-go/skald/once"
	"github.com/skald-go/skald/store"
	"github.com/skald-go/skald/store/memstore"
)

type bomb struct{}

func (bomb) MarshalJSON() ([]byte, error) { panic("in the middle of it") }

func (bomb) Error() string { panic("in its text") }

// A panic after the handler is rolled back like a panic of the handler. The test does this more often than
// there are connections. The key is free each time.
func TestPanicAfterTheHandler(t *testing.T) {
	everywhere(t, func(t *testing.T) { testPanics[mem](t, inMemory(t)) },
		func(t *testing.T) { testPanics[*sql.Tx](t, onSQLite(t)) },
		func(t *testing.T) { testPanics[pgx.Tx](t, onPgx(t)) },
		func(t *testing.T) { testPanics[*sql.Tx](t, onDatabaseSQL(t)) })
}

func testPanics[TTx any](t *testing.T, g *ground[TTx]) {
	for name, ends := range map[string]func() (any, error){
		"reply":       func() (any, error) { return bomb{}, nil },
		"refusal":     func() (any, error) { return nil, skald.Reject(bomb{}) },
		"goroutine":   func() (any, error) { runtime.Goexit(); return nil, nil },
		"no refusal":  func() (any, error) { return nil, skald.Reject(nil) },
		"nil problem": func() (any, error) { return nil, skald.Reject((*httpidem.Problem)(nil)) },
		"what it says": func() (any, error) {
			return nil, skald.Reject(errors.New("no"),
				skald.Draft{Topic: "orders", Type: "placed", Value: bomb{}})
		},
		"status not kept": func() (any, error) {
			return nil, httpidem.Refuse(http.StatusServiceUnavailable, "not now")
		},
	} {
		bad := true
		h := httpidem.Handle(g.db, "bombs", httpidem.OneTenant, quiet(),
			func(_ context.Context, tx TTx, _ httpidem.Request[order]) (httpidem.Reply[any], error) {
				if err := g.note(tx, name, "ran"); err != nil || !bad {
					return httpidem.OK[any]("done"), err
				}
				body, err := ends()
				return httpidem.OK(body), err
			})
		p := post{key: name, body: `{"SKU":"tea"}`}
		for range 6 { // there are four connections
			answers(t, p.to(h), 500, "")
		}
		bad = false
		answers(t, p.to(h), 200, "done")
		g.wantList(t, name, "ran")
	}
	s := &shop[TTx]{ground: g}
	s.answer = func() (httpidem.Reply[view], error) { runtime.Goexit(); return httpidem.Reply[view]{}, nil }
	h := s.endpoint(quiet())
	for range 6 {
		gone := make(chan struct{})
		go func() {
			defer close(gone)
			post{key: "exit", body: `{"SKU":"tea"}`}.to(h)
		}()
		<-gone
	}
	s.answer = nil
	answers(t, post{key: "exit", body: `{"SKU":"tea"}`}.to(h), 201, "o-7")
	for range 6 {
		if _, _, err := once.Do(t.Context(), g.db, "bombs", "k", "p",
			func(context.Context, TTx) (bomb, error) { return bomb{}, nil }); err == nil {
			t.Error("a result that panics was stored")
		}
	}
}

// A handler that commits its own transaction gets an error, and so does a repeat of its request. No row of
// the work remains.
func TestHandlerEndsItsTransaction(t *testing.T) {
	t.Run("pgx", func(t *testing.T) {
		g := onPgx(t)
		commits(t, g, func(ctx context.Context, tx pgx.Tx) error {
			_, err := tx.Exec(ctx, "COMMIT")
			return err
		})
	})
	t.Run("database-sql", func(t *testing.T) {
		commits(t, onDatabaseSQL(t), func(_ context.Context, tx *sql.Tx) error { return tx.Commit() })
	})
}

func commits[TTx any](t *testing.T, g *ground[TTx], commit func(context.Context, TTx) error) {
	h := httpidem.Handle(g.db, "commits", httpidem.OneTenant, quiet(),
		func(ctx context.Context, tx TTx, _ httpidem.Request[order]) (httpidem.Reply[view], error) {
			return httpidem.Created(view{"o-1"}, "/orders/1"),
				errors.Join(g.note(tx, "commits", "ran"), commit(ctx, tx))
		})
	p := post{key: "k", body: `{"SKU":"tea"}`}
	answers(t, p.to(h), 500, "the service failed")
	w := p.to(h)
	answers(t, w, 500, "the service failed") // PostgreSQL refused the COMMIT: nothing stands
	g.wantList(t, "commits", "")
}

// A handler under Wrap may call Flush, but nothing is sent before the answer is stored. The work is done
// once.
func TestWrapFlushes(t *testing.T) {
	behind := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, "a part, ")
		_ = http.NewResponseController(w).Flush() // so it is chunked, and a proxy flushes too
		_, _ = io.WriteString(w, "and the rest")
	}))
	defer behind.Close()
	at, err := url.Parse(behind.URL)
	if err != nil {
		t.Fatal(err)
	}
	for name, do := range map[string]http.HandlerFunc{
		"flush": func(w http.ResponseWriter, r *http.Request) {
			w.WriteHeader(http.StatusCreated)
			_ = http.NewResponseController(w).Flush()
			_, _ = io.WriteString(w, "a part, and the rest")
		},
		"proxy": httputil.NewSingleHostReverseProxy(at).ServeHTTP,
	} {
		o := &old{do: do}
		h := wrapped(inMemory(t).db, quiet(), o)
		p := post{key: name, body: "{}"}
		first, second := p.to(h), p.to(h)
		if replayed(t, second, true); first.Code >= 300 || first.Code != second.Code ||
			first.Body.String() != "a part, and the rest" || second.Body.String() != first.Body.String() ||
			o.runs.Load() != 1 {
			t.Errorf("%s: %d %s, then %d %s, %d runs", name, first.Code, first.Body, second.Code, second.Body,
				o.runs.Load())
		}
	}
}

// If the answer is refused with an error, the key stays reserved, because the effect is unknown.
func TestWrapRefusalKeepsTheKey(t *testing.T) {
	o := &old{do: func(w http.ResponseWriter, _ *http.Request) {
		_, _, _ = http.NewResponseController(w).Hijack()
	}}
	h := wrapped(inMemory(t).db, impatient(), o)
	p := post{key: "k", body: "{}"}
	answers(t, p.to(h), 500, "cannot hijack")
	if answers(t, p.to(h), 409, "in-progress"); o.runs.Load() != 1 {
		t.Errorf("%d runs", o.runs.Load())
	}
}

// A handler that returns long after its lease stores its answer, if no other process has stored one.
func TestWrapLongAfterItsLease(t *testing.T) {
	o := &old{do: func(w http.ResponseWriter, r *http.Request) {
		<-r.Context().Done()
		_, _ = io.WriteString(w, "done")
	}}
	db := &slowly{Driver: memstore.New(nil)}
	options := quiet()
	options.Lease = time.Millisecond
	p := post{key: "k", body: "{}"}
	answers(t, p.to(wrapped(db, options, o)), 200, "done")
	if left := time.Until(db.until); left < time.Second {
		t.Errorf("what stored the answer had %v left", left)
	}
	if replayed(t, p.to(wrapped(db, options, o)), true); o.runs.Load() != 1 {
		t.Errorf("%d runs", o.runs.Load())
	}
}

// slowly records the shortest time limit of a call of Apply.
type slowly struct {
	store.Driver[mem]
	until time.Time
}

func (s *slowly) Apply(ctx context.Context, es ...store.Effect) ([]bool, error) {
	s.until, _ = ctx.Deadline()
	return s.Driver.Apply(ctx, es...)
}

// An answer that is too large is stored as done, for each spelling of the path.
func TestLargeAnswerOfALongPath(t *testing.T) {
	g := inMemory(t)
	large := strings.Repeat("x", once.MaxResult+1)
	o := &old{do: func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, large) }}
	doors := map[string]http.Handler{
		"wrap": wrapped(g.db, quiet(), o),
		"handle": httpidem.Handle(g.db, "large", httpidem.OneTenant, quiet(),
			func(context.Context, mem, httpidem.Request[[]byte]) (httpidem.Reply[[]byte], error) {
				o.runs.Add(1)
				return httpidem.OK([]byte(large)), nil
			}),
	}
	for name, h := range doors {
		for _, path := range []string{"/" + strings.Repeat("&", 3000), "/" + strings.Repeat("a", 20_000)} {
			o.runs.Store(0)
			ask := func() *httptest.ResponseRecorder {
				r := httptest.NewRequest(http.MethodPost, path, strings.NewReader("{}"))
				r.Header.Set(httpidem.KeyHeader, fmt.Sprintf("%q", name+path[:2]))
				w := httptest.NewRecorder()
				h.ServeHTTP(w, r)
				return w
			}
			answers(t, ask(), 200, "xxx")
			if answers(t, ask(), 409, "too large to be stored"); o.runs.Load() != 1 {
				t.Errorf("%s: %d runs", name, o.runs.Load())
			}
		}
	}
}

// If a client disconnects while the endpoint reserves its key, the key is free afterwards.
func TestWrapClientLeavesWhileItsKeyIsReserved(t *testing.T) {
	db := &leaving{Driver: memstore.New(nil)}
	o := &old{do: func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "done") }}
	h := wrapped(db, quiet(), o)
	ctx, leave := context.WithCancel(t.Context())
	db.leave = leave
	r := httptest.NewRequest(http.MethodPost, "/", strings.NewReader("{}")).WithContext(ctx)
	r.Header.Set(httpidem.KeyHeader, `"k"`)
	h.ServeHTTP(httptest.NewRecorder(), r)
	if answers(t, post{key: "k", body: "{}"}.to(h), 200, "done"); o.runs.Load() != 1 {
		t.Errorf("%d runs", o.runs.Load())
	}
}

// leaving is a database that makes the client disconnect at the moment when the key is reserved.
type leaving struct {
	store.Driver[mem]
	leave func()
}

func (l *leaving) Reserve(ctx context.Context, r store.Reservation) (store.Reserved, error) {
	got, err := l.Driver.Reserve(ctx, r)
	if l.leave != nil {
		l.leave()
		l.leave = nil
		err = errors.Join(err, ctx.Err())
	}
	return got, err
}

// Requests that wait in memory for the answer of another request do not get its cookies.
func TestNoCookieOfAnotherRequest(t *testing.T) {
	began, goOn := make(chan struct{}), make(chan struct{})
	o := &old{do: func(w http.ResponseWriter, _ *http.Request) {
		close(began)
		<-goOn
		w.Header().Set("Set-Cookie", "session=1")
	}}
	h := wrapped(inMemory(t).db, quiet(), o)
	p := post{key: "k", body: "{}"}
	both := make(chan *httptest.ResponseRecorder, 2)
	go func() { both <- p.to(h) }()
	<-began
	go func() { both <- p.to(h) }()
	close(goOn)
	cookies := 0
	for range 2 {
		if w := <-both; w.Header().Get("Set-Cookie") != "" {
			cookies++
		}
	}
	if cookies != 1 || o.runs.Load() != 1 {
		t.Errorf("%d got the cookie, %d runs", cookies, o.runs.Load())
	}
}
