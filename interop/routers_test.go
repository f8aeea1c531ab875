package interop

import (
	"context"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/gin-gonic/gin"
	"github.com/go-chi/chi/v5"
	"github.com/labstack/echo/v4"

	"github.com/skald-go/skald/httpidem"
	"github.com/skald-go/skald/store/memstore"
)

// Endpoints of httpidem, mounted by other routers as docs/http.md says: done once, answered alike, and their
// recovery and logging of panics beside ours.
func TestRouters(t *testing.T) {
	gin.SetMode(gin.ReleaseMode)
	for name, mount := range map[string]func(typed, wrapped http.Handler) http.Handler{
		"chi": func(typed, wrapped http.Handler) http.Handler {
			r := chi.NewRouter()
			r.Route("/v1", func(r chi.Router) {
				r.Method(http.MethodPost, "/orders/{id}", typed)
				r.Method(http.MethodPost, "/legacy/{id}", wrapped)
			})
			return r
		},
		"echo": func(typed, wrapped http.Handler) http.Handler {
			r := echo.New()
			r.POST("/v1/orders/:id", echo.WrapHandler(typed))
			r.POST("/v1/legacy/:id", echo.WrapHandler(wrapped))
			return r
		},
		"gin": func(typed, wrapped http.Handler) http.Handler {
			r := gin.New()
			r.Use(gin.CustomRecoveryWithWriter(io.Discard, func(*gin.Context, any) {}))
			r.POST("/v1/orders/:id", gin.WrapH(typed))
			r.POST("/v1/legacy/:id", gin.WrapH(wrapped))
			return r
		},
	} {
		t.Run(name, func(t *testing.T) { testRouter(t, mount) })
	}
}

func testRouter(t *testing.T, mount func(typed, wrapped http.Handler) http.Handler) {
	db, quiet, runs := memstore.New(nil), &httpidem.Options{Logger: slog.New(slog.DiscardHandler)}, 0
	typed := httpidem.Handle(db, "orders", httpidem.OneTenant, quiet,
		func(_ context.Context, tx *memstore.Tx, q httpidem.Request[struct{ SKU string }]) (
			httpidem.Reply[string], error) {
			runs++
			return httpidem.Created(q.Body.SKU, "/orders/1"), tx.Put("placed", q.Body.SKU)
		})
	wrapped := httpidem.Wrap(db, "legacy", httpidem.OneTenant, quiet,
		http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			runs++
			body, _ := io.ReadAll(r.Body)
			w.Header().Set("X-Path", r.URL.Path)
			w.WriteHeader(http.StatusAccepted)
			_, _ = w.Write(body)
		}))
	h := mount(typed, wrapped)
	post := func(path, key, body string) *httptest.ResponseRecorder {
		r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, path, strings.NewReader(body))
		r.Header.Set("Content-Type", "application/json")
		if key != "" {
			r.Header.Set("Idempotency-Key", key)
		}
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		return w
	}
	for i, path := range []string{"/v1/orders/7", "/v1/legacy/7"} {
		first, again := post(path, "k", `{"SKU":"tea"}`), post(path, "k", `{"SKU":"tea"}`)
		if first.Code/100 != 2 || first.Code != again.Code || first.Body.String() != again.Body.String() ||
			again.Header().Get(httpidem.ReplayedHeader) != "true" || runs != i+1 {
			t.Errorf("%s: %d %s, again %d %s; %d runs", path, first.Code, first.Body, again.Code,
				again.Body, runs)
		}
		for want, w := range map[int]*httptest.ResponseRecorder{422: post(path, "k", `{"SKU":"milk"}`),
			400: post(path, "", `{}`)} {
			if w.Code != want || !strings.HasPrefix(w.Header().Get("Content-Type"),
				"application/problem+json") {
				t.Errorf("%s: %d %s, want %d", path, w.Code, w.Body, want)
			}
		}
		if w := post(strings.TrimSuffix(path, "7")+"8", "k", `{"SKU":"tea"}`); w.Code != 422 {
			// the path is part of what is compared
			t.Errorf("another path under the key: %d %s", w.Code, w.Body)
		}
	}
	if got := db.User()["placed"]; got != "tea" {
		t.Errorf("placed %q", got)
	}
}
