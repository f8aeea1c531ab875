package console_test

import (
	"encoding/json"
	"net/http"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/skald-go/skald/console"
	"github.com/skald-go/skald/operate"
	"github.com/skald-go/skald/store"
	"github.com/skald-go/skald/store/memstore"
)

// The OpenAPI file matches the handlers: each route, and each name of each answer.
func TestOpenAPI(t *testing.T) {
	e := newEngine(t, 1)
	sources := of(placedAndKept(t))
	sources["engine"] = console.NewSource(e.db)
	b := open(t, sources, nil)
	var file struct {
		Paths map[string]map[string]struct {
			Responses map[string]struct {
				Content map[string]struct {
					Schema struct{ Properties map[string]any }
				}
			}
		}
	}
	b.get("/openapi.json", &file)
	code, err := os.ReadFile("route.go")
	if err != nil {
		t.Fatal(err)
	}
	var routes []string
	for _, m := range regexp.MustCompile(`\{"(GET|POST)", "([^"]+)"`).FindAllStringSubmatch(string(code),
		-1) {
		if !strings.HasPrefix(m[2], "/static/") {
			routes = append(routes, strings.ToLower(m[1])+" "+strings.TrimSuffix(m[2], "{$}"))
		}
	}
	var said []string
	for path, methods := range file.Paths {
		for method := range methods {
			said = append(said, method+" "+path)
		}
	}
	slices.Sort(routes)
	if slices.Sort(said); !slices.Equal(said, routes) {
		t.Errorf("the file has %q, the handlers %q", said, routes)
	}
	run := strings.TrimPrefix(
		b.act("consumer=payment&id=p-1&in=orders&source=%2Fshop&verb=release").Header().Get("Location"),
		"/ops")
	const of = "?consumer=payment&id=d-0&in=orders&source=%2Fshop"
	asked := map[string]string{"/message": "/message" + of, "/act": "/act" + of + "&verb=drop", "/run": run,
		"/consumer": "/consumer?consumer=payment&in=orders", "/story": "/story?q=o-1",
		"/saga": "/saga?in=engine&name=order&key=o-0", "/definition": definitionOf(t, e.db),
		"/doctor": "/doctor?in=orders"}
	for path, methods := range file.Paths {
		get, ok := methods["get"]
		at, named := asked[path]
		if !named {
			at = path
		}
		if !ok || path == "/openapi.json" { // the answer to a POST, and the file itself
			continue
		}
		w := b.do(http.MethodGet, at, nil, "Accept", "application/json")
		var got map[string]any
		if err := json.Unmarshal(w.Body.Bytes(), &got); err != nil || w.Code != http.StatusOK {
			t.Errorf("%s: %d: %s", at, w.Code, w.Body)
		}
		names := get.Responses["200"].Content["application/json"].Schema.Properties
		for name := range got {
			if _, ok := names[name]; !ok {
				t.Errorf("%s answers %q, which the file does not have", path, name)
			}
		}
	}
}

// definitionOf returns the page of a definition that engines of db have recorded.
func definitionOf(t *testing.T, db store.Lister) string {
	t.Helper()
	list, err := operate.Definitions(t.Context(), db, "order")
	if err != nil || len(list) != 1 {
		t.Fatal(list, err)
	}
	return "/definition?in=engine&name=order&hash=" + list[0].Hash
}

func placedAndKept(t *testing.T) *memstore.Store {
	t.Helper()
	db := placed(t)
	keep(t, db, dead("d-0", "k-0", failing), parkedMessage("p-1", "k-1"))
	if _, err := db.SyncConsumer(t.Context(), store.SyncRequest{Consumer: "payment",
		Heartbeat: &store.Heartbeat{Own: []store.Kind{{Topic: "orders",
			Type: "order.placed"}}}}); err != nil {
		t.Fatal(err)
	}
	return db
}

// A program acts with the token of its session.
func TestSession(t *testing.T) {
	db := kept(t, 1)
	b := open(t, of(db), nil)
	var who struct {
		Name, Token string
		May         []string
	}
	b.get("/session", &who)
	if len(who.May) != 3 || who.Token == "" {
		t.Errorf("%+v", who)
	}
	var plan struct{ Seen string }
	const query = "consumer=payment&id=d-0&in=orders&source=%2Fshop&verb=drop"
	b.get("/act?"+query, &plan)
	form := b.form(b.page("/act?"+query), "/act")
	form.Del("token")
	form.Set("reason", "nobody needs it")
	if form.Get("seen") != plan.Seen {
		t.Errorf("the form has seen %s, JSON %s", form.Get("seen"), plan.Seen)
	}
	w := b.do(http.MethodPost, "/act", form, "X-Skald-Token", who.Token, "Accept", "application/json",
		"Origin", "")
	var to struct{ Location string }
	if err := json.Unmarshal(w.Body.Bytes(), &to); err != nil || w.Code != http.StatusAccepted ||
		!strings.HasPrefix(to.Location, "/ops/run?") || state(t, db, "d-0") != "gone" {
		t.Errorf("%d: %s", w.Code, w.Body)
	}
}
