package main_test

import (
	"encoding/json"
	"io"
	"net/http"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"

	"github.com/skald-go/skald/internal/need"
)

// shop is where a demo that is kept takes orders.
func (p *program) shop() (url string) {
	p.t.Helper()
	at := regexp.MustCompile(`orders: (http://\S+/orders) until`)
	p.until("its address", func() bool {
		m := at.FindStringSubmatch(p.errs.String())
		if m != nil {
			url = m[1]
		}
		return m != nil
	})
	return url
}

// order places an order under key and waits until it is confirmed.
func (p *program) order(url, key string) (id string) {
	p.t.Helper()
	type order struct{ ID, State string }
	ask := func(method, url, body string) (o order) {
		p.t.Helper()
		r, err := http.NewRequestWithContext(p.t.Context(), method, url, strings.NewReader(body))
		if err != nil {
			p.t.Fatal(err)
		}
		r.Header.Set("Idempotency-Key", key)
		answer, err := http.DefaultClient.Do(r)
		if err != nil {
			p.t.Fatal(err)
		}
		defer func() { _ = answer.Body.Close() }()
		if err := json.NewDecoder(answer.Body).Decode(&o); err != nil || answer.StatusCode >= 300 {
			p.t.Fatalf("%s %s: %s %+v %v", method, url, answer.Status, o, err)
		}
		return o
	}
	body := `{"customer":"ada","items":[{"sku":"tea","quantity":2}]}`
	id = ask("POST", url, body).ID
	if again := ask("POST", url, body).ID; id == "" || again != id {
		p.t.Errorf("the same key is another order: %q, %q", id, again)
	}
	p.until("confirmation", func() bool { return ask("GET", url+"/"+id, "").State == "confirmed" })
	return id
}

// looksAt reads the story of an order in the console of a demo that is kept.
func (p *program) looksAt(id string) {
	p.t.Helper()
	m := regexp.MustCompile(`console: (http://127\.0\.0\.1:\d+/console/) shows`).FindStringSubmatch(
		p.errs.String())
	if m == nil {
		p.t.Fatalf("no address of a console: %s", &p.errs)
	}
	page := func(path string) string {
		p.t.Helper()
		r, err := http.NewRequestWithContext(p.t.Context(), http.MethodGet, m[1]+path, http.NoBody)
		if err != nil {
			p.t.Fatal(err)
		}
		answer, err := http.DefaultClient.Do(r)
		if err != nil {
			p.t.Fatal(err)
		}
		defer func() { _ = answer.Body.Close() }()
		text, err := io.ReadAll(answer.Body)
		if err != nil || answer.StatusCode != http.StatusOK {
			p.t.Fatalf("%s: %s %s %v", path, answer.Status, text, err)
		}
		return string(text)
	}
	for _, name := range []string{"order", "payment", "notification"} {
		if overview := page(""); !strings.Contains(overview, "<h2>"+name+"</h2>") {
			p.t.Errorf("the console shows no %s: %s", name, overview)
		}
	}
	if story := page("story?q=" + id); !strings.Contains(story, "step charge is done") {
		p.t.Errorf("no story of %s: %s", id, story)
	}
}

// Kept up the shop takes orders behind the verdict, which is the exit code, in the first run and in one that
// had ended.
func TestDemoKeep(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "demo")
	p := start(t, nil, "demo", "--orders", "10", "--dir", dir, "--keep", "--json")
	id := p.order(p.shop(), "mine-1")
	if o := p.outcome(); !o.OK || o.Orders.Placed != 10 {
		t.Errorf("%s", &p.out)
	}
	start(t, nil, "demo", "remove", "--dir", dir, "--yes").expect(5, "another demo is running")
	p.looksAt(id)
	show := start(t, nil, "demo", "show", id, "--dir", dir)
	show.expect(0)
	if told := show.out.String(); !strings.Contains(told, "order writes order.confirmed") ||
		strings.Count(told, "gateway moves a charge of ") != 1 {
		t.Errorf("no story of the order that was placed by hand:\n%s", &show.out)
	}
	p.signal(syscall.SIGTERM)
	p.expect(0)

	exec1(t, filepath.Join(dir, "notification.db"), "DELETE FROM mails WHERE order_id = '"+id+"'")
	p = start(t, nil, "demo", "--dir", dir, "--keep")
	if other := p.order(p.shop(), "mine-2"); other == id {
		t.Error("another key is the same order")
	}
	if !strings.Contains(p.out.String(), "Promises are BROKEN.") {
		t.Errorf("the verdict is not told yet:\n%s", &p.out)
	}
	p.signal(syscall.SIGINT)
	p.expect(8, "mailed_once")
	start(t, nil, "demo", "remove", "--dir", dir, "--yes").expect(0)
	missing(t, dir)
}

// What was ordered is ended by the next run, if the one that took the order was killed.
func TestDemoKeepIsKilled(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "demo")
	p := start(t, nil, "demo", "--orders", "10", "--dir", dir, "--keep")
	p.order(p.shop(), "mine-1")
	p.kill()
	for range 2 {
		p = start(t, nil, "demo", "--dir", dir, "--json")
		p.expect(0)
		if o := p.outcome(); !o.OK || o.Orders.Placed != 11 {
			t.Errorf("%s", &p.out)
		}
	}
}

func TestDemoKeepOnPostgresAndKafka(t *testing.T) {
	need.Nightly(t, "TestDemoKeep stays")
	t.Parallel()
	at, conn := postgres(t)
	bus, prefix, _ := kafka(t)
	where := []string{"--store", at, "--broker", bus, "--prefix", prefix}
	for i, key := range []string{"mine-1", "mine-2"} { // the second run had ended before
		p := start(t, nil, append([]string{"demo", "--orders", "10", "--keep", "--json"}, where...)...)
		p.order(p.shop(), key)
		p.signal(syscall.SIGTERM)
		p.expect(0)
		if n := count(conn, "SELECT count(*) FROM "+prefix+"_order.orders"); n != 11+i {
			t.Errorf("there are %d orders", n)
		}
	}
	start(t, nil, append([]string{"demo", "remove", "--yes"}, where...)...).expect(0)
	if n := left(conn, prefix); n != 0 {
		t.Errorf("%d objects are left", n)
	}
}
