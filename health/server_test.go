package health_test

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"

	"github.com/skald-go/skald"
	"github.com/skald-go/skald/health"
)

func get(t *testing.T, at net.Addr, path string, code int, text string) {
	t.Helper()
	r, err := http.Get("http://" + at.String() + path)
	if err != nil {
		t.Error(err)
		return
	}
	defer r.Body.Close()
	body, err := io.ReadAll(r.Body)
	if err != nil || r.StatusCode != code || string(body) != text {
		t.Errorf("%s: %d %q, %v; want %d %q", path, r.StatusCode, body, err, code, text)
	}
}

// The server serves the application and the pages. In a shutdown it is not ready as soon as the other Parts
// stop, and it serves until they have ended. A request in progress gets its answer.
func TestServer(t *testing.T) {
	started, finish := make(chan struct{}), make(chan struct{})
	mux := http.NewServeMux()
	mux.HandleFunc("GET /slow", func(w http.ResponseWriter, _ *http.Request) {
		close(started)
		<-finish
		_, _ = io.WriteString(w, "done")
	})
	mux.HandleFunc("GET /", func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "app") })
	in := &station{is: skald.Status{Name: "consumer stock", Live: true, Ready: true}}
	web := health.NewServer(&http.Server{Addr: "127.0.0.1:0", Handler: mux}, health.New(nil, in))
	at, err := web.Listen()
	if err != nil {
		t.Fatal(err)
	}
	stopped, drained := make(chan struct{}), make(chan struct{})
	in.Runner = runner(func(ctx context.Context) error {
		<-ctx.Done()
		close(stopped)
		<-drained
		return nil
	})
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- skald.Run(ctx, web, in) }()
	get(t, at, "/", 200, "app")
	get(t, at, "/readyz", 200, "ok\n")
	slow := make(chan struct{})
	go func() {
		defer close(slow)
		get(t, at, "/slow", 200, "done")
	}()
	<-started
	stop()
	<-stopped
	get(t, at, "/livez", 200, "ok\n")
	get(t, at, "/readyz", 503, "stopping\n")
	get(t, at, "/", 200, "app")
	close(drained)
	close(finish)
	<-slow
	if err := <-ended; err != nil {
		t.Error(err)
	}
	if s := web.Status(); s.Live || s.Ready || s.Stage != skald.Serving {
		t.Errorf("%+v", s)
	}
}

type runner func(ctx context.Context) error

func (r runner) Run(ctx context.Context) error { return r(ctx) }

// An address in use is an error that names the server, at once.
func TestServerNamesItsAddress(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	addr := l.Addr().String()
	err = skald.Run(t.Context(), health.NewServer(&http.Server{Addr: addr}, health.New(nil)))
	var op *net.OpError
	if !errors.As(err, &op) || !strings.HasPrefix(err.Error(), "HTTP server "+addr+": ") {
		t.Errorf("%v", err)
	}
}
