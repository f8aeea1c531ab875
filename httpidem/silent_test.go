package httpidem_test

import (
	"context"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/skald-go/skald/httpidem"
	"github.com/skald-go/skald/store/pgstore"
)

// link is a network link. Until it heals it silently loses the answers of the server, or all data. Old
// connections remain dead.
type link struct {
	answers, all atomic.Bool
}

func (l *link) dial(ctx context.Context, network, address string) (net.Conn, error) {
	c, err := (&net.Dialer{}).DialContext(ctx, network, address)
	return &muted{Conn: c, link: l}, err
}

type muted struct {
	net.Conn
	link *link
	lost atomic.Bool
}

func (c *muted) Write(p []byte) (int, error) {
	if c.lost.Load() || c.link.all.Load() {
		c.lost.Store(true)
		return len(p), nil
	}
	return c.Conn.Write(p)
}

func (c *muted) Read(p []byte) (int, error) {
	for {
		n, err := c.Conn.Read(p)
		if err != nil || !c.lost.Load() && !c.link.answers.Load() && !c.link.all.Load() {
			return n, err
		}
		c.lost.Store(true)
	}
}

// If the database does not answer, a request gets 503: before its transaction, during it, and at its end. A
// repeat with the same key then returns the outcome, and no work runs twice.
func TestSilentDatabase(t *testing.T) {
	pool, schema := postgres(t, 4)
	config, l := pool.Config(), &link{}
	config.ConnConfig.DialFunc, config.MaxConns = l.dial, 4
	config.ConnConfig.ConnectTimeout = 5 * time.Second // of a connection that began in the silence
	behindLink, err := pgxpool.NewWithConfig(t.Context(), config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { go behindLink.Close() })
	db := pgstore.New(behindLink, &pgstore.Options{Schema: schema, Patience: time.Minute})
	o := quiet()
	o.Wait = 100 * time.Millisecond
	var runs atomic.Int64
	at := func() {} // the time of the handler's end
	handled := httpidem.Handle(db, "silent", httpidem.OneTenant, o,
		func(ctx context.Context, tx pgx.Tx, _ httpidem.Request[order]) (httpidem.Reply[string], error) {
			runs.Add(1)
			at()
			return httpidem.OK("done"), nil
		})
	under := httpidem.Wrap(db, "silent-wrap", httpidem.OneTenant, o,
		http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			runs.Add(1)
			at()
			_, _ = io.WriteString(w, `"done"`)
		}))
	for name, h := range map[string]http.Handler{"Handle": handled, "Wrap": under} {
		answers(t, post{key: name, body: "{}"}.to(h), 200, "done") // options are checked, secrets known
		for what, c := range map[string]struct {
			before, atTheEnd func()
			ran              int64
		}{
			"before": {func() { l.all.Store(true) }, func() {}, 0},
			"commit": {func() {}, func() { l.answers.Store(true) }, 1},
		} {
			runs.Store(0)
			at = c.atTheEnd
			c.before()
			p := post{key: name + what, body: "{}"}
			w := promptly(t, func() *httptest.ResponseRecorder { return p.to(h) })
			if answers(t, w, 503, "send the same request again"); w.Header().Get("Retry-After") == "" ||
				runs.Load() != c.ran {
				t.Errorf("%s, %s: %v after %d runs", name, what, w.Header(), runs.Load())
			}
			l.all.Store(false)
			l.answers.Store(false)
			at = func() {}
			deadline := time.Now().Add(time.Minute)
			for w = p.to(h); w.Code != 200 && time.Now().Before(deadline); w = p.to(h) {
				time.Sleep(50 * time.Millisecond)
			}
			if answers(t, w, 200, "done"); runs.Load() != 1 {
				t.Errorf("%s, %s: %d runs", name, what, runs.Load())
			}
		}
	}
}

// If the database has an outage while a handler runs, the request gets 503. Under Handle the context of the
// handler's statement ends. Under Wrap the handler continues, and a repeat gets its answer.
func TestSilentDatabaseWhileAHandlerRuns(t *testing.T) {
	pool, schema := postgres(t, 4)
	config, l := pool.Config(), &link{}
	config.ConnConfig.DialFunc, config.MaxConns = l.dial, 4
	config.ConnConfig.ConnectTimeout = 5 * time.Second // of a connection that began in the silence
	behindLink, err := pgxpool.NewWithConfig(t.Context(), config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { go behindLink.Close() })
	db := pgstore.New(behindLink, &pgstore.Options{Schema: schema, Patience: time.Minute})
	o := quiet()
	o.Wait = 50 * time.Millisecond
	var runs, slow atomic.Int64
	goOn := make(chan struct{})
	handled := httpidem.Handle(db, "outage", httpidem.OneTenant, o,
		func(ctx context.Context, tx pgx.Tx, _ httpidem.Request[order]) (httpidem.Reply[string], error) {
			if runs.Add(1); slow.Load() > 0 {
				l.all.Store(true)
			}
			_, err := tx.Exec(ctx, "SELECT 1")
			return httpidem.OK("done"), err
		})
	under := httpidem.Wrap(db, "outage-wrap", httpidem.OneTenant, o,
		http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			if runs.Add(1); slow.Load() > 0 {
				l.all.Store(true)
				<-goOn
			}
			_, _ = io.WriteString(w, `"done"`)
		}))
	for name, h := range map[string]http.Handler{"Handle": handled, "Wrap": under} {
		answers(t, post{key: name, body: "{}"}.to(h), 200, "done")
		runs.Store(0)
		slow.Store(1)
		p := post{key: name + "-slow", body: "{}"}
		w := promptly(t, func() *httptest.ResponseRecorder { return p.to(h) })
		answers(t, w, 503, "send the same request again")
		if w.Header().Get("Retry-After") == "" {
			t.Errorf("%s: %v", name, w.Header())
		}
		slow.Store(0)
		l.all.Store(false)
		if name == "Wrap" {
			close(goOn)
		}
		deadline := time.Now().Add(time.Minute)
		for w = p.to(h); w.Code != 200 && time.Now().Before(deadline); w = p.to(h) {
			time.Sleep(50 * time.Millisecond)
		}
		answers(t, w, 200, "done")
		if n := runs.Load(); n != map[string]int64{"Handle": 2, "Wrap": 1}[name] {
			t.Errorf("%s: %d runs", name, n)
		}
	}
}

// promptly fails the test if do continues although its database has not answered for much longer than Wait.
func promptly[T any](t *testing.T, do func() T) T {
	t.Helper()
	done := make(chan T, 1)
	go func() { done <- do() }()
	select {
	case out := <-done:
		return out
	case <-time.After(40 * time.Second):
		t.Fatal("no answer")
		panic("unreachable")
	}
}
