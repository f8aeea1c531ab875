package main_test

import (
	"encoding/json"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/skald-go/skald/store/sqlitestore"
)

// object is what a program printed: one JSON object, and nothing else.
func object(t *testing.T, p *program, code int) map[string]any {
	t.Helper()
	p.expect(code)
	var out map[string]any
	if err := json.Unmarshal([]byte(p.out.String()), &out); err != nil {
		t.Fatalf("%s prints %q: %v", p.cmd.Args[1:], &p.out, err)
	}
	return out
}

// texts is the list under a name; it is there, if it is empty.
func texts(t *testing.T, all map[string]any, name string) (out []string) {
	t.Helper()
	list, ok := all[name].([]any)
	if !ok {
		t.Fatalf("there is no list %q in %v", name, all)
	}
	for _, one := range list {
		out = append(out, one.(string))
	}
	return out
}

// What migrate does, or would, is told to programs as it is to people.
func TestMigrateInJSON(t *testing.T) {
	onEachStore(t, func(t *testing.T, fresh func(*testing.T) *bed) {
		b := fresh(t)
		pending := texts(t, object(t, start(t, b.env, "migrate", "--check", "--json"), 8), "pending")
		applied := texts(t, object(t, start(t, b.env, "migrate", "--json"), 0), "applied")
		if len(applied) == 0 || !slices.Equal(pending, applied) {
			t.Errorf("pending were %q, applied %q", pending, applied)
		}
		if again := texts(t, object(t, start(t, b.env, "migrate", "--json"), 0), "applied"); len(again) != 0 {
			t.Errorf("applied again: %q", again)
		}
		if sql, _ := object(t, start(t, b.env, "migrate", "--print", "--json"),
			0)["sql"].(string); !strings.Contains(sql, "CREATE TABLE") {
			t.Errorf("the SQL is %q", sql)
		}
		start(t, b.env, "migrate", "--check", "--print", "--json").expect(2)
	})
}

func TestRingsAndFilesInJSON(t *testing.T) {
	t.Parallel()
	at, _ := postgres(t)
	if rings := texts(t, object(t, start(t, nil, "migrate", "--store", at, "--outbox-slots", "20", "--json"),
		0), "rings"); len(rings) == 0 {
		t.Error("no ring was changed")
	}
	dir := t.TempDir()
	write := []string{"migrate", "--store", at, "--print", "--format", "atlas", "--dir", dir, "--json"}
	told := object(t, start(t, nil, write...), 0)
	if wrote := texts(t, told, "wrote"); len(wrote) == 0 || !strings.HasPrefix(wrote[0], dir) ||
		told["then"] == nil {
		t.Errorf("wrote %v", told)
	}
	if wrote := texts(t, object(t, start(t, nil, write...), 0), "wrote"); len(wrote) != 0 {
		t.Errorf("wrote again %q", wrote)
	}
	if app, _ := object(t, start(t, nil, "roles", "app", "--json"), 0)["app"].(string); !strings.Contains(app,
		"GRANT") || !strings.Contains(app, "COMMIT;") {
		t.Errorf("the role app gets %q", app)
	}
}

func TestOthersInJSON(t *testing.T) {
	t.Parallel()
	if v := object(t, start(t, nil, "version", "--json"), 0); v["go"] != runtime.Version() ||
		v["version"] == "" || v["arch"] != runtime.GOARCH {
		t.Errorf("the version is %v", v)
	}
	dir := t.TempDir()
	made := object(t, start(t, nil, "init", filepath.Join(dir, "orders"), "--json"), 0)
	if wrote := texts(t, made, "wrote"); !slices.Contains(wrote, filepath.Join(dir, "orders", "go.mod")) ||
		!slices.Contains(texts(t, made, "next"), "go mod tidy") {
		t.Errorf("init says %v", made)
	}
	shop := filepath.Join(dir, "shop")
	start(t, nil, "demo", "--dir", shop, "--orders", "3", "--faults", "none").expect(0)
	db, err := sqlitestore.Open(filepath.Join(shop, "order.db"))
	must(t, err)
	order := text(t, db, "SELECT id FROM orders LIMIT 1")
	must(t, db.Close())
	if story := texts(t, object(t, start(t, nil, "demo", "show", order, "--dir", shop, "--json"), 0),
		"story"); len(story) < 3 {
		t.Errorf("the story is %q", story)
	}
	if said, _ := object(t, start(t, nil, "demo", "remove", "--dir", shop, "--yes", "--json"),
		0)["said"].(string); said == "" {
		t.Error("remove says nothing")
	}
}
