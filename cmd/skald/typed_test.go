package main_test

import (
	"database/sql"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/skald-go/skald"
	"github.com/skald-go/skald/console"
	"github.com/skald-go/skald/saga"
	"github.com/skald-go/skald/store"
)

// full is a database with some of all that an operator acts on, part of it with names that a shell would
// read otherwise.
func full(t *testing.T) *morgue {
	t.Helper()
	m := newMorgue(t)
	_, err := m.s.SyncConsumer(t.Context(), store.SyncRequest{Consumer: "stock",
		Checkpoints: []store.Checkpoint{{Partition: "orders/0", Origin: "o"}}, Stamp: "s",
		Take: true, Session: "a"})
	must(t, err)
	for n, kind := range []string{"attempts", "skipped", "too_large", "rejected"} {
		m.bury(n, "k '"+kind, func(p *store.Parked) { p.Dead.Kind = kind })
	}
	m.bury(4, "k $HOME",
		func(p *store.Parked) { p.ID, p.Message.ID, p.Message.Type = "--all", "--all", "it's; placed" })
	for n := 5; n < 8; n++ {
		m.bury(n, "", func(p *store.Parked) { p.Dead, p.Due = nil, time.Hour })
	}
	for i, of := range [][2]string{{"orders", "placed"}, {"orders", "paid"}, {"tills", "paid"}} {
		id := []string{"-q", "q-1", "q-2"}[i]
		stood, err := m.s.Apply(t.Context(),
			store.Effect{Quarantine: &store.Quarantined{Consumer: "tracker",
				Identity: store.Identity{Source: "/orders", ID: id},
				Why:      []store.Outcome{store.Conflict, store.TooOld, store.TooOld}[i], At: time.Now(),
				Message: skald.Message{ID: id, Source: "/orders", Topic: of[0], Type: of[1]}}})
		if err != nil || !stood[0] {
			t.Fatal(stood, err)
		}
	}
	sagaTook(t, m.db, m.s)
	approve := saga.Wait[string]("approve", saga.Signal[bool]{Name: "approved"})
	d := saga.New("refund", &saga.Options[string]{Key: func(s string) string { return s }}, approve)
	e, err := saga.NewEngine(m.s, nil, d)
	must(t, err)
	for _, key := range []string{"r-1", "-r 2"} {
		var tx *sql.Tx
		if tx, err = m.db.BeginTx(t.Context(), nil); err == nil {
			_, err = saga.Bind(e, d).Start(t.Context(), tx, key)
		}
		must(t, err)
		must(t, tx.Commit())
	}
	for busy := true; busy; {
		busy, err = e.Step(t.Context())
		must(t, err)
	}
	return m
}

// Each command that stands beside a button means what the button does: no more, and no less.
func TestCommandsMeanWhatTheButtonsDo(t *testing.T) {
	t.Parallel()
	m := full(t)
	h := console.New("", map[string]console.Source{"a": console.NewSource(m.s).WithFlags("--store '" + m.at + "'")},
		&console.Options{Deadline: time.Minute})
	for query, want := range map[string]int{
		"verb=redrive": 4, "verb=redrive&kind=skipped": 1,
		"verb=drop&key=k+$HOME&topic=orders&from=2020-01-01T00:00:00Z": 1,
		"verb=redrive&consumer=stock&source=/orders&id=--all":          1,
		"verb=drop&type=it%27s%3B+placed":                              1, "verb=drop&fingerprint=abc": 5,
		"verb=release": 3, "verb=release&id=m-06&source=/orders": 1,
		"verb=admit": 3, "verb=admit&type=paid&consumer=tracker": 2, "verb=admit&topic=tills": 1,
		"verb=admit&id=-q&why=conflict": 1, "verb=admit&number=2": 1,
		"verb=saga-pause&many=1&status=running&step=approve": 2, "verb=saga-cancel&name=refund&key=-r+2": 1,
		"verb=compensate&many=1&flow=order&state=running": 1, "verb=compensate&key=o-1&flow=order": 1,
		"verb=skip&consumer=stock&fingerprint=0123456789ab":   -1,
		"verb=unskip&consumer=stock&fingerprint=0123456789ab": -1, "verb=pause&consumer=stock": -1,
	} {
		t.Run(query, func(t *testing.T) {
			r := httptest.NewRequestWithContext(t.Context(), http.MethodGet,
				"http://127.0.0.1/act?in=a&"+query, nil)
			r.RemoteAddr = "127.0.0.1:4711"
			r.Header.Set("Accept", "application/json")
			w := httptest.NewRecorder()
			h.ServeHTTP(w, r)
			var plan struct {
				Command string
				Change  int
			}
			if err := json.Unmarshal(w.Body.Bytes(), &plan); err != nil || w.Code != http.StatusOK {
				t.Fatalf("%d: %s", w.Code, w.Body)
			}
			m.typed(t, plan.Command, plan.Change, want)
		})
	}
}

// typed runs a command as a shell reads it: dry, if it can.
func (m *morgue) typed(t *testing.T, command string, change, want int) {
	t.Helper()
	text := command
	if want >= 0 {
		text = strings.Replace(command, " --reason 'why'", " --reason 'why' --dry-run --json", 1)
	}
	typed := exec.CommandContext(t.Context(), "sh", "-c", text)
	typed.Env = []string{"PATH=" + filepath.Dir(binary()) + ":/bin:/usr/bin"}
	said, err := typed.CombinedOutput()
	if want < 0 {
		if err != nil {
			t.Errorf("%s: %v\n%s", command, err, said)
		}
		return
	}
	var got struct {
		Done, Chosen *int
		Events       []any
	}
	if err != nil || json.Unmarshal(said, &got) != nil {
		t.Fatalf("%s: %v\n%s", text, err, said)
	}
	n := len(got.Events)
	for _, one := range []*int{got.Done, got.Chosen} {
		if one != nil {
			n = *one
		}
	}
	if n != want || change != want {
		t.Errorf("%s means %d, and the button %d, want %d", command, n, change, want)
	}
}
