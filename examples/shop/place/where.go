package place

import (
	"log/slog"
	"net/http"
	"strings"

	"github.com/skald-go/skald/examples/shop/service"
	"github.com/skald-go/skald/status"
)

// asking is o, in which Order's status asks the services that are open here, unless o says who is asked.
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

// Where tells, at GET /{order}, where the saga of an order stands, by what the services say that are open
// here when it is asked, and those elsewhere. One that is neither is not asked.
func (d *Databases[TTx]) Where(elsewhere Elsewhere) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		here := d.here()
		own := here["order"]
		delete(here, "order")
		serve(w, r, own, &status.Options{Service: "order", Services: elsewhere, Databases: here})
	})
}

// Answer tells other processes what the services know that are open here, each under its name: GET
// /{service}/{order}/held. 404: the service is not open here, so that who asks the wrong process hears of it.
func (d *Databases[TTx]) Answer() http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		name, _, _ := strings.Cut(strings.TrimPrefix(r.URL.Path, "/"), "/")
		own, open := d.here()[name]
		if !open {
			http.Error(w, "this process does not serve it", http.StatusNotFound)
			return
		}
		h := http.HandlerFunc(
			func(w http.ResponseWriter, r *http.Request) { serve(w, r, own, &status.Options{Service: name}) })
		http.StripPrefix("/"+name, h).ServeHTTP(w, r)
	})
}

// serve answers for own. Everybody who reaches the shop may ask: let nobody but your support.
func serve(w http.ResponseWriter, r *http.Request, own status.Database, o *status.Options) {
	o.Store, o.Auth = own.Store, func(h http.Handler) http.Handler { return h }
	h, err := status.Handler(own.DB, o)
	if err != nil {
		slog.ErrorContext(r.Context(), "the status of an order", "error", err)
		http.Error(w, "something is wrong here", http.StatusInternalServerError)
		return
	}
	h.ServeHTTP(w, r)
}

// here are the services that are open.
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

// quoted is a word as a shell reads it.
func quoted(word string) string {
	const plain = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-./:@%+=,"
	if word != "" && strings.Trim(word, plain) == "" {
		return word
	}
	return "'" + strings.ReplaceAll(word, "'", `'\''`) + "'"
}
