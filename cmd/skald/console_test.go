package main_test

import (
	"io"
	"net/http"
	"net/http/cookiejar"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/skald-go/skald"
	"github.com/skald-go/skald/store"
)

// Two databases in one console: it shows both, acts on one, and ends by a signal.
func TestConsole(t *testing.T) {
	t.Parallel()
	orders, payments := onSQLite(t).migrate(), onPostgres(t).migrate()
	for _, b := range []*bed{orders, payments} {
		p := store.Parked{Consumer: "consumer", Identity: store.Identity{Source: "/shop", ID: "d-1"},
			Message: skald.Message{ID: "d-1", Source: "/shop", Topic: "orders", Type: "order.placed",
				Data: []byte("{}"), ContentType: "application/json", Time: time.Now()}, Attempts: 3,
			Last: store.Failure{At: time.Now(), Why: "no"},
			Dead: &store.Death{At: time.Now(), Kind: "attempts", Fingerprint: "0123456789ab"}}
		if stood, err := b.s.Apply(t.Context(), store.Effect{Park: &store.Park{Parked: p}}); err != nil ||
			!stood[0] {
			t.Fatal(stood, err)
		}
	}
	file := filepath.Join(t.TempDir(), "url")
	if err := os.WriteFile(file, []byte(payments.at+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	c := start(t, nil, "console", "--listen", "127.0.0.1:0", "--store", "orders="+orders.at,
		"--store", "payments=@"+file)
	at := ""
	token := ""
	c.until("its address", func() bool {
		if m := regexp.MustCompile(`console: (http://\S+)/(\?token=\w+) until`).FindStringSubmatch(
			c.errs.String()); m != nil {
			at, token = m[1], m[2]
		}
		return at != ""
	})
	client := sessionOf(t, at, token)
	once := func(url string) (int, string) {
		t.Helper()
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, http.NoBody)
		if err != nil {
			t.Fatal(err)
		}
		answer, err := client.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = answer.Body.Close() }()
		text, err := io.ReadAll(answer.Body)
		if err != nil {
			t.Fatal(err)
		}
		return answer.StatusCode, string(text)
	}
	// a slow machine may not answer within the 2 s that the console waits
	get := func(url string) (text string) {
		t.Helper()
		code := 0
		c.until("an answer to "+url, func() bool {
			code, text = once(url)
			return code != http.StatusServiceUnavailable && !strings.Contains(text, "no answer within")
		})
		if code != http.StatusOK {
			t.Fatalf("%s: %d %s", url, code, text)
		}
		return text
	}
	groups := get(at + "/dead/groups")
	for _, part := range []string{"<h2>orders</h2>", "<h2>payments</h2>", "in=payments&amp;verb=drop"} {
		if !strings.Contains(groups, part) {
			t.Errorf("no %q: %s", part, groups)
		}
	}
	plan := get(at + "/act?consumer=consumer&id=d-1&in=payments&source=%2Fshop&verb=drop")
	if !strings.Contains(plan, "skald dead drop --store @"+file) {
		t.Errorf("%s", plan)
	}
	act := func(plan, canary string) int {
		t.Helper()
		form := map[string][]string{"reason": {"nobody needs it"}, "canary": {canary}}
		for _, m := range regexp.MustCompile(
			`<input type="hidden" name="([^"]*)" value="([^"]*)">`).FindAllStringSubmatch(plan, -1) {
			form[m[1]] = []string{m[2]}
		}
		answer, err := client.PostForm(at+"/act", form)
		if err != nil {
			t.Fatal(err)
		}
		_ = answer.Body.Close()
		return answer.StatusCode
	}
	code := act(plan, "")
	start(t, []string{"SKALD_STORE=" + payments.at}, "dead", "list", "--json").expect(0, "")
	list, err := store.ListParked(t.Context(), payments.s, store.ParkedQuery{})
	if other, bad := store.ListParked(t.Context(), orders.s, store.ParkedQuery{}); err != nil || bad != nil ||
		len(list) != 0 || len(other) != 1 {
		t.Errorf("%d: %v, %v, %v, %v", code, list, other, err, bad)
	}
	// It waits for what becomes of its only message when the process ends: that is noted.
	act(get(at+"/act?consumer=consumer&id=d-1&in=orders&source=%2Fshop&verb=redrive"), "1")
	if err := c.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	c.expect(0)
	acts, err := orders.s.Audits(t.Context(), store.AuditQuery{Limit: 1})
	if err != nil || len(acts) != 1 || acts[0].Action != "redrive stopped: the console ended" ||
		!strings.Contains(acts[0].Author, "console session ") {
		t.Errorf("%+v, %v", acts, err)
	}
}

// sessionOf opens the session of the console at an address. Nobody else gets in, with the used token or
// without.
func sessionOf(t *testing.T, at, token string) *http.Client {
	t.Helper()
	jar, err := cookiejar.New(nil)
	if err != nil {
		t.Fatal(err)
	}
	own := &http.Client{Jar: jar}
	for _, c := range []struct {
		client *http.Client
		url    string
		code   int
	}{{http.DefaultClient, at + "/dead", 403}, {http.DefaultClient, at + "/?token=guessed", 403},
		{own, at + "/session" + token, 200}, {http.DefaultClient, at + "/" + token, 403},
		{own, at + "/session", 200}} {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, c.url, http.NoBody)
		if err != nil {
			t.Fatal(err)
		}
		answer, err := c.client.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		text, _ := io.ReadAll(answer.Body)
		if _ = answer.Body.Close(); answer.StatusCode != c.code ||
			c.code == 403 && !strings.Contains(string(text), "skald console") {
			t.Errorf("%s: %d %s", c.url, answer.StatusCode, text)
		}
		for _, cookie := range answer.Cookies() {
			if !cookie.HttpOnly || cookie.SameSite != http.SameSiteStrictMode {
				t.Errorf("cookie %v", cookie)
			}
		}
	}
	return own
}

// What cannot work says so.
func TestConsoleUsage(t *testing.T) {
	t.Parallel()
	at := "a=sqlite:" + filepath.Join(t.TempDir(), "none.db")
	for _, c := range []struct {
		args []string
		code int
		says string
	}{
		{nil, 2, "which databases?"}, {[]string{"--store", "sqlite:x"}, 2, "--store is NAME=VALUE"},
		{[]string{"--store", at}, 4, "there is no file"},
		{[]string{"--store", at, "--store", at}, 2, "--store a is given twice"},
		{[]string{"--store", "a=@/no/such"}, 4, "read the URL"},
		{[]string{"--store", at, "--schema", "b=x"}, 2, "no --store has that name"},
		{[]string{"--store", "a=postgres://127.0.0.1:1/x", "--listen", "0.0.0.0:0"}, 2,
			"only addresses of this machine"},
	} {
		start(t, nil, append([]string{"console"}, c.args...)...).expect(c.code, c.says)
	}
}
