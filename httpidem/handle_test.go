package httpidem_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/skald-go/skald"
	"github.com/skald-go/skald/httpidem"
	"github.com/skald-go/skald/once"
	"github.com/skald-go/skald/outbox"
	"github.com/skald-go/skald/store"
)

type order struct {
	SKU      string
	Quantity int
}

type view struct{ ID string }

var placed = skald.Event[string]{Topic: "orders", Type: "order.placed"}

func quiet() *httpidem.Options {
	return &httpidem.Options{Logger: slog.New(slog.DiscardHandler)}
}

// shop is an endpoint that counts its runs. Its answer is configurable.
type shop[TTx any] struct {
	*ground[TTx]
	runs   atomic.Int64
	answer func() (httpidem.Reply[view], error) // nil means 201
}

func (s *shop[TTx]) endpoint(o *httpidem.Options) http.Handler {
	return httpidem.Handle(s.db, "orders", httpidem.OneTenant, o, s.serve)
}

func (s *shop[TTx]) serve(ctx context.Context, tx TTx,
	q httpidem.Request[order]) (httpidem.Reply[view], error) {
	n, out := s.runs.Add(1), outbox.New[TTx](s.db, nil)
	if err := errors.Join(s.note(tx, "placed", q.Body.SKU),
		out.Write(ctx, tx, placed.New("k", q.Body.SKU))); err != nil {
		return httpidem.Reply[view]{}, err
	}
	if s.answer != nil {
		return s.answer()
	}
	return httpidem.Created(view{fmt.Sprint("o-", n)}, fmt.Sprint("/orders/o-", n)), nil
}

// wantOutbox checks the number of messages in the outbox.
func (s *shop[TTx]) wantOutbox(t *testing.T, want int64) {
	t.Helper()
	if back, err := store.ReadBacklog(t.Context(), s.db); err != nil || back.Pending != want {
		t.Errorf("%d messages wait, %v, want %d", back.Pending, err, want)
	}
}

func everywhere(t *testing.T, memory, sqlite, pg, dbsql func(*testing.T)) {
	t.Run("memory", memory)
	t.Run("sqlite", sqlite)
	t.Run("pgx", pg)
	t.Run("database-sql", dbsql)
}

// One commit has the row, the message and the answer. Each repeat gets the same answer, also from another
// process. Another payload is refused.
func TestHandle(t *testing.T) {
	everywhere(t, func(t *testing.T) { testHandle(t, inMemory(t)) },
		func(t *testing.T) { testHandle(t, onSQLite(t)) },
		func(t *testing.T) { testHandle(t, onPgx(t)) },
		func(t *testing.T) { testHandle(t, onDatabaseSQL(t)) })
}

func testHandle[TTx any](t *testing.T, g *ground[TTx]) {
	s := &shop[TTx]{ground: g}
	one, two := s.endpoint(quiet()), s.endpoint(quiet()) // two processes, as far as memory goes
	tea := post{key: `"k-1"`, body: `{"SKU":"tea","Quantity":1}`}
	for i, h := range []http.Handler{one, one, two, two} {
		w := tea.to(h)
		answers(t, w, 201, `{"ID":"o-1"}`)
		if replayed(t, w, i > 0); w.Header().Get("Location") != "/orders/o-1" ||
			w.Header().Get("Content-Type") != "application/json" {
			t.Errorf("%d: %v", i, w.Header())
		}
	}
	for _, h := range []http.Handler{one, s.endpoint(quiet())} {
		answers(t, post{key: "k-1", body: `{"SKU":"salt","Quantity":1}`}.to(h), 422, "idempotency-key-reused")
	}
	answers(t, post{key: "k-2", body: `{"SKU":"salt","Quantity":1}`}.to(one), 201, `{"ID":"o-2"}`)
	s.wantList(t, "placed", "tea salt")
	s.wantOutbox(t, 2)
}

// The test checks which results are stored, and which are rolled back and done again.
func TestHandlePolicy(t *testing.T) {
	everywhere(t, func(t *testing.T) { testPolicy(t, inMemory) },
		func(t *testing.T) { testPolicy(t, onSQLite) },
		func(t *testing.T) { testPolicy(t, onPgx) }, func(t *testing.T) { testPolicy(t, onDatabaseSQL) })
}

func testPolicy[TTx any](t *testing.T, open func(*testing.T) *ground[TTx]) {
	s := &shop[TTx]{ground: open(t)}
	h := s.endpoint(quiet())
	reply := func(code int) func() (httpidem.Reply[view], error) {
		return func() (httpidem.Reply[view], error) {
			return httpidem.Reply[view]{Code: code, Header: http.Header{"X-Run": {fmt.Sprint(s.runs.Load())},
				"Content-Type": {"application/problem+json"}}}, nil
		}
	}
	fails := func(err error) func() (httpidem.Reply[view], error) {
		return func() (httpidem.Reply[view], error) { return httpidem.Reply[view]{}, err }
	}
	for i, c := range []struct {
		answer func() (httpidem.Reply[view], error)
		code   int
		stored bool
		rows   bool // of the handler stay
	}{
		{reply(200), 200, true, true}, {reply(204), 204, true, true}, {reply(303), 303, true, true},
		{reply(404), 404, true, true}, {reply(422), 422, true, true},
		{reply(401), 401, false, false}, {reply(403), 403, false, false}, {reply(408), 408, false, false},
		{reply(409), 409, false, false},
		{reply(425), 425, false, false}, {reply(429), 429, false, false}, {reply(500), 500, false, false},
		{reply(503), 503, false, false},
		{reply(700), 500, false, false},
		{fails(errors.New("a secret")), 500, false, false},
		{fails(&httpidem.Problem{Status: 404, Detail: "no such order"}), 404, false, false},
		{fails(skald.RetryAfter(3e9, errors.New("later"))), 503, false, false},
		{fails(httpidem.Refuse(402, "declined")), 402, true, false},
		{fails(skald.Reject(errors.New("sold out"))), 422, true, false},
		{fails(skald.Reject(errors.New("x"), skald.Draft{Topic: "no topic"})), 500, false, false},
		{func() (httpidem.Reply[view], error) { panic("oh") }, 500, false, false},
	} {
		s.answer = c.answer
		list, before := fmt.Sprint("sku-", i), s.runs.Load()
		p := post{key: fmt.Sprint("k-", i), body: fmt.Sprintf(`{"SKU":%q}`, list)}
		first, second := p.to(h), p.to(h)
		if first.Code != c.code || second.Code != c.code || strings.Contains(first.Body.String(), "secret") {
			t.Errorf("%d: %d, then %d, %s, want %d", i, first.Code, second.Code, first.Body, c.code)
		}
		if runs := s.runs.Load() - before; runs != map[bool]int64{true: 1, false: 2}[c.stored] {
			t.Errorf("%d (%d): %d runs, stored is to be %v", i, c.code, runs, c.stored)
		}
		if replayed(t, second, c.stored); c.stored && (first.Body.String() != second.Body.String() ||
			first.Header().Get("X-Run") != second.Header().Get("X-Run")) {
			t.Errorf("%d: %s %v, then %s %v", i, first.Body, first.Header(), second.Body, second.Header())
		}
		all, err := s.list("placed")
		if err != nil || strings.HasSuffix(all, list) != c.rows {
			t.Errorf("%d: the rows of %d stay: %q, %v", i, c.code, all, err)
		}
	}
	s.wantOutbox(t, 5)
}

// Of ten thousand concurrent equal requests one is done. All get the same answer, although there are only a
// few connections.
func TestManyAtOnce(t *testing.T) {
	everywhere(t, func(t *testing.T) { testMany(t, inMemory(t), 10_000) },
		func(t *testing.T) { testMany(t, onSQLite(t), 1000) },
		func(t *testing.T) { testMany(t, onPgx(t), 10_000) },
		func(t *testing.T) { testMany(t, onDatabaseSQL(t), 1000) })
}

func testMany[TTx any](t *testing.T, g *ground[TTx], many int) {
	s := &shop[TTx]{ground: g}
	o := quiet()
	o.Wait = 1e12 // however slow the machine is
	processes := []http.Handler{s.endpoint(o), s.endpoint(o)}
	var all sync.WaitGroup
	var wrong atomic.Int64
	start := make(chan struct{})
	for i := range many {
		all.Go(func() {
			<-start
			w := post{key: "k", body: `{"SKU":"tea"}`}.to(processes[i%2])
			if w.Code != 201 || w.Body.String() != `{"ID":"o-1"}` ||
				w.Header().Get("Location") != "/orders/o-1" {
				wrong.Add(1)
			}
		})
	}
	close(start)
	all.Wait()
	if n := wrong.Load(); n > 0 || s.runs.Load() != 1 {
		t.Errorf("%d are answered otherwise, %d runs", n, s.runs.Load())
	}
	s.wantList(t, "placed", "tea")
	s.wantOutbox(t, 1)
}

// While a request is in progress, a repeat gets 409, in this process and in another one. It gets 409
// immediately if it must not wait.
func TestInProgress(t *testing.T) {
	everywhere(t, func(t *testing.T) { testInProgress(t, inMemory(t)) },
		func(t *testing.T) { testInProgress(t, onSQLite(t)) },
		func(t *testing.T) { testInProgress(t, onPgx(t)) },
		func(t *testing.T) { testInProgress(t, onDatabaseSQL(t)) })
}

func testInProgress[TTx any](t *testing.T, g *ground[TTx]) {
	s := &shop[TTx]{ground: g}
	inHand, goOn := make(chan struct{}), make(chan struct{})
	s.answer = func() (httpidem.Reply[view], error) {
		close(inHand)
		<-goOn
		return httpidem.OK(view{"o-1"}), nil
	}
	o := quiet()
	o.Wait = -1
	one, two := s.endpoint(o), s.endpoint(o)
	p := post{key: "k", body: `{"SKU":"tea"}`}
	first := make(chan *httptest.ResponseRecorder, 1)
	go func() { first <- p.to(one) }()
	select {
	case <-inHand:
	case w := <-first:
		t.Fatalf("a request that nobody is in the way of is answered %d %s", w.Code, w.Body)
	}
	for _, h := range []http.Handler{one, two} {
		w := p.to(h)
		answers(t, w, 409, "request-in-progress")
		if w.Header().Get("Retry-After") != "1" {
			t.Errorf("Retry-After %q", w.Header().Get("Retry-After"))
		}
	}
	close(goOn)
	answers(t, <-first, 200, "o-1")
	for _, h := range []http.Handler{one, two} {
		replayed(t, p.to(h), true)
	}
	s.wantList(t, "placed", "tea")
}

// An answer that is too large to be stored is sent, and its request is not done again.
func TestLargeAnswer(t *testing.T) {
	everywhere(t, func(t *testing.T) { testLarge(t, inMemory(t)) },
		func(t *testing.T) { testLarge(t, onSQLite(t)) },
		func(t *testing.T) { testLarge(t, onPgx(t)) }, func(t *testing.T) { testLarge(t, onDatabaseSQL(t)) })
}

func testLarge[TTx any](t *testing.T, g *ground[TTx]) {
	runs := 0
	large := strings.Repeat("x", once.MaxResult+1)
	open := func() http.Handler {
		return httpidem.Handle(g.db, "large", httpidem.OneTenant, quiet(),
			func(_ context.Context, tx TTx, _ httpidem.Request[order]) (httpidem.Reply[[]byte], error) {
				runs++
				return httpidem.Reply[[]byte]{Code: 201, Header: http.Header{"Location": {"/large/1"}},
					Body: []byte(large)}, g.note(tx, "large", "once")
			})
	}
	h := open()
	p := post{key: "k", body: `{}`}
	if w := p.to(h); w.Code != 201 || w.Body.String() != large {
		t.Errorf("%d, %d bytes", w.Code, w.Body.Len())
	}
	for _, h := range []http.Handler{h, open()} {
		w := p.to(h)
		answers(t, w, 409, `"instance":"/large/1"`)
		replayed(t, w, true)
	}
	g.wantList(t, "large", "once")
	if runs != 1 {
		t.Errorf("%d runs", runs)
	}
}

// Equal keys of different tenants, endpoints or calls of once.Do are independent.
func TestScopes(t *testing.T) {
	g := inMemory(t)
	s := &shop[mem]{ground: g}
	who := func(r *http.Request) (string, error) {
		if name := r.Header.Get("X-User"); name != "" {
			return name, nil
		}
		return "", errors.New("log in first")
	}
	run := func(_ context.Context, tx mem, q httpidem.Request[order]) (httpidem.Reply[string], error) {
		return httpidem.OK(q.Tenant), s.note(tx, "ran", q.Tenant)
	}
	mine := httpidem.Handle(g.db, "mine", who, quiet(), run)
	for _, user := range []string{"ann", "bob", "ann"} {
		answers(t, post{key: "k", body: "{}", header: http.Header{"X-User": {user}}}.to(mine), 200, user)
	}
	answers(t, post{key: "k", body: "{}", header: http.Header{"X-User": {"bob"}}}.to(httpidem.Handle(g.db,
		"other", who, quiet(), run)), 200, "bob")
	answers(t, post{key: "k", body: "{}"}.to(mine), 401, "Unauthorized")
	if _, again, err := once.Do(t.Context(), g.db, "mine", "k", nil,
		func(context.Context, mem) (int, error) { return 1, nil }); again || err != nil {
		t.Errorf("once.Do: %v, %v", again, err)
	}
	g.wantList(t, "ran", "ann bob bob")
}

// The test checks which parts of a request must be equal for one key.
func TestFingerprint(t *testing.T) {
	g := inMemory(t)
	o := quiet()
	o.Headers = []string{"X-Currency"}
	h := httpidem.Handle(g.db, "raw", httpidem.OneTenant, o,
		func(context.Context, mem, httpidem.Request[[]byte]) (httpidem.Reply[string], error) {
			return httpidem.OK("done"), nil
		})
	with := func(name, value string) http.Header {
		return http.Header{http.CanonicalHeaderKey(name): {value}}
	}
	answers(t, post{key: "k", body: "1"}.to(h), 200, "done")
	for _, same := range []post{{key: `"k"`, body: "1"},
		{key: "k", body: "1", header: with("Content-Type", "Application/JSON")},
		{key: "k", body: "1", header: with("X-Trace", "2")}} {
		replayed(t, same.to(h), true)
	}
	put := post{key: "k", body: "1"}.request()
	put.Method = http.MethodPut
	w := httptest.NewRecorder()
	h.ServeHTTP(w, put)
	answers(t, w, 422, "reused")
	for _, other := range []post{
		{key: "k", body: "2"}, {key: "k", body: "1", path: "/orders/1"},
		{key: "k", body: "1", path: "/orders?x=1"},
		{key: "k", body: "1", header: with("Content-Type", "text/plain")},
		{key: "k", body: "1", header: with("X-Currency", "EUR")},
	} {
		answers(t, other.to(h), 422, "reused")
	}
}

// A bad request reserves no key.
func TestBadRequests(t *testing.T) {
	s := &shop[mem]{ground: inMemory(t)}
	o := quiet()
	o.MaxBody = 100
	h := s.endpoint(o)
	long := strings.Repeat("k", 256)
	for _, bad := range []string{"", `"`, `"a`, `"a" b`, `"a\b"`, `""`, long, "a,b", `a"b`, "ä", "a\x01"} {
		answers(t, post{key: bad, body: "{}"}.to(h), 400, "idempotency-key")
	}
	answers(t, post{body: "{}", header: http.Header{"Idempotency-Key": {"a", "b"}}}.to(h), 400, "2 times")
	for _, c := range []struct {
		body, kind string
		code       int
	}{{"{", "", 400}, {"{}{}", "", 400}, {`{"SKU":1}`, "", 400}, {"{\"SKU\":\"\x80\"}", "", 400}, {strings.Repeat(" ", 101), "", 413},
		{"{}", "text/plain", 415}, {"{}", "", 201}} {
		header := http.Header{}
		if c.kind != "" {
			header.Set("Content-Type", c.kind)
		}
		if w := (post{key: "k", body: c.body, header: header}).to(h); w.Code != c.code {
			t.Errorf("%.20q: %d %s", c.body, w.Code, w.Body)
		}
	}
	r := post{key: "cut", body: "{}"}.request()
	r.Body = io.NopCloser(io.MultiReader(strings.NewReader("{"), broken{}))
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	answers(t, w, 400, "broke off")
	answers(t, post{key: `"cut"; a=1`, body: `{"SKU":"tea"}`}.to(h), 201, "o-2")
}

type broken struct{}

func (broken) Read([]byte) (int, error) { return 0, io.ErrUnexpectedEOF }

// If a client disconnects, its request in progress is rolled back. A commit that has begun continues.
func TestClientGone(t *testing.T) {
	s := &shop[mem]{ground: inMemory(t)}
	ctx, leave := context.WithCancel(t.Context())
	s.answer = func() (httpidem.Reply[view], error) {
		leave()
		return httpidem.OK(view{"o-1"}), nil
	}
	h := s.endpoint(quiet())
	p := post{key: "k", body: `{"SKU":"tea"}`}
	h.ServeHTTP(httptest.NewRecorder(), p.request().WithContext(ctx))
	s.answer = func() (httpidem.Reply[view], error) { return httpidem.OK(view{"again"}), nil }
	w := p.to(h)
	answers(t, w, 200, "o-1")
	s.wantList(t, "placed", "tea")
}

// A repeat that this process has seen needs one query. An outage of the database affects only one request.
func TestDatabaseAway(t *testing.T) {
	g := inMemory(t)
	s := &shop[mem]{ground: g}
	away := &awayStore{Driver: g.db}
	s.ground = &ground[mem]{away, g.note, g.list}
	h := s.endpoint(quiet())
	p := post{key: "k", body: `{"SKU":"tea"}`}
	away.begins = true
	w := p.to(h)
	answers(t, w, 503, "send the same request again")
	if w.Header().Get("Retry-After") == "" {
		t.Error("no Retry-After")
	}
	away.begins, away.commits = false, true // the commit takes effect, and its answer is lost
	answers(t, p.to(h), 201, "o-1")
	away.commits = false
	answers(t, p.to(h), 201, "o-1")
	s.wantList(t, "placed", "tea")
}

// awayStore is a database that can lose its connection.
type awayStore struct {
	store.Driver[mem]
	begins, commits bool
}

var errAway = errors.New("connection lost")

func (a *awayStore) Outage(err error) bool { return errors.Is(err, errAway) || a.Driver.Outage(err) }

func (a *awayStore) Begin(ctx context.Context, in store.Intake) (store.Unit[mem], error) {
	if a.begins {
		return nil, errAway
	}
	u, err := a.Driver.Begin(ctx, in)
	return lossy{u, a}, err
}

type lossy struct {
	store.Unit[mem]
	a *awayStore
}

func (l lossy) Commit(ctx context.Context, es ...store.Effect) error {
	err := l.Unit.Commit(ctx, es...)
	if l.a.commits {
		return errAway
	}
	return err
}
