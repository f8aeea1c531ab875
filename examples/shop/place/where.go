package place

import (
	"log/slog"
	"net/http"
	"strings"

	"github.com/skald-go/skald/examples/shop/service"
	"github.com/skald-go/skald/status"
)

// asking returns o with Where set: the services that are open here, unless o sets it.
func (d *Databases[TTx]) asking(o *service.Options) *service.Options {
	var all service.Options
	if o != nil {
		all = *o
	}
	if all.Where == nil {
		all.Where = d.Where(nil)
	}
	return &all
}

// Where serves GET /{order}: the status of an order's saga, from the services that are open here and those
// elsewhere. Other services are not queried.
func (d *Databases[TTx]) Where(elsewhere Elsewhere) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		here := d.here()
		own := here["order"]
		delete(here, "order")
		serve(w, r, own, &status.Options{Service: "order", Services: elsewhere, Databases: here})
	})
}

// Answer serves the status of the services that are open here to other processes: GET
// /{service}/{order}/held. It answers 404 for a service that is not open here, so that a wrong address is
// noticed.
func (d *Databases[TTx]) Answer() http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		name, _, _ := strings.Cut(strings.TrimPrefix(r.URL.Path, "/"), "/")
		own, open := d.here()[name]
		if !open {
			http.Error(w, "this process does not serve this page", http.StatusNotFound)
			return
		}
		h := http.HandlerFunc(
			func(w http.ResponseWriter, r *http.Request) { serve(w, r, own, &status.Options{Service: name}) })
		http.StripPrefix("/"+name, h).ServeHTTP(w, r)
	})
}

// serve serves the status of own. Anyone who can reach the shop may use it: restrict access to your
// support.
func serve(w http.ResponseWriter, r *http.Request, own status.Database, o *status.Options) {
	o.Store, o.Auth = own.Store, func(h http.Handler) http.Handler { return h }
	h, err := status.Handler(own.DB, o)
	if err != nil {
		slog.ErrorContext(r.Context(), "read the status of an order", "error", err)
		http.Error(w, "internal error", http.StatusInternalServerError)
		return
	}
	h.ServeHTTP(w, r)
}

// here returns the services that are open.
func (d *Databases[TTx]) here() map[string]status.Database {
	d.mu.Lock()
	defer d.mu.Unlock()
	out := map[string]status.Database{}
	for _, name := range service.Names() {
		if o := d.open[name]; o != nil {
			out[name] = status.Database{DB: o.home.Store, Store: d.kind.flags(name)}
		}
	}
	return out
}

// quoted returns a word quoted for a shell.
func quoted(word string) string {
	const plain = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-./:@%+=,"
	if word != "" && strings.Trim(word, plain) == "" {
		return word
	}
	return "'" + strings.ReplaceAll(word, "'", `'\''`) + "'"
}
