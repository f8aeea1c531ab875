package main_test

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/skald-go/skald"
	"github.com/skald-go/skald/internal/need"
	"github.com/skald-go/skald/store"
)

// What a consumer keeps of a message is shown beside what it has marked, also to somebody who does not know
// the message's source.
func TestInboxShowsWhatIsKept(t *testing.T) {
	t.Parallel()
	m := newMorgue(t)
	m.bury(1, "k", nil)
	m.bury(2, "", func(p *store.Parked) { p.Dead, p.Attempts, p.Due = nil, 2, time.Hour })
	m.bury(3, "", func(p *store.Parked) {
		p.Dead, p.Call = nil, &store.Call{Key: "c", Request: "{}", Since: time.Now()}
	})
	look := func(id string, more ...string) *program {
		t.Helper()
		return start(t, m.env, append([]string{"inbox", "show", id, "--consumer", "stock"}, more...)...)
	}
	show := func(id string, more ...string) *program {
		t.Helper()
		p := look(id, more...)
		p.expect(0)
		return p
	}
	for id, want := range map[string]string{"m-01": "dead", "m-02": "parked", "m-03": "calling"} {
		for _, more := range [][]string{nil, {"--source", "/orders"}} {
			p := show(id, append(more, "--json")...)
			var got struct {
				Status, Source string
				Kept           struct {
					LastError string `json:"last_error"`
				}
			}
			if err := json.Unmarshal([]byte(p.out.String()), &got); err != nil || got.Status != want ||
				got.Source != "/orders" || got.Kept.LastError != "no such column" {
				t.Errorf("%s %v is %+v, want %s: %v", id, more, got, want, err)
			}
		}
	}
	if p := show("m-01"); !strings.Contains(p.out.String(), "25 attempts: no such column") {
		t.Errorf("a dead letter is shown as %s", &p.out)
	}
	look("m-09").expect(4, `consumer stock has no record of "m-09"`, "--source")
	look("m-01", "--source", "/other").expect(4, `consumer stock has no record of "m-01"`)
	look("m-09", "--json").expect(4, "no record")
}

// A dead letter is shown with all that is known of it, its payload as it is; groups say from when to when.
func TestDeadLettersAreShownWhole(t *testing.T) {
	t.Parallel()
	m := newMorgue(t)
	began := time.Now().Add(-2 * time.Hour).UTC().Truncate(time.Second)
	m.bury(1, "k", func(p *store.Parked) {
		p.Message.Data, p.Message.Headers = []byte(`{"to":"<a&b>"}`),
			[]skald.Header{{Name: "tenant", Value: []byte{0xff}}}
		p.Message.CorrelationID, p.Message.CausationID, p.Message.Time, p.Message.Subject = "whole",
			"before", began, "s"
		p.First, p.CrashCount, p.Dead.At, p.Dead.Kind = store.Failure{At: began, Why: "first", Host: "a"}, 3,
			began, "crash"
	})
	m.bury(2, "", nil)
	at := began.Format(time.RFC3339)
	for format, wants := range map[string][]string{
		"--json": {`"to":"<a&b>"`, `"correlation_id":"whole"`, `"causation_id":"before"`, `"subject":"s"`,
			`"first_host":"a"`, `"first_at":"` + at, `"time":"` + at, `"crash_count":3`, `"name":"tenant"`,
			`"value":"/w=="`},
		"--json=false": {`"to": "<a&b>"`, "  correlation         whole\n",
			"  cause               before\n", "  failed              " + at + " on a: first\n", " on b: no such column\n",
			"  published           " + at + "\n", "  killed its process  3 times\n",
			`  header              tenant: "\xff"` + "\n"},
	} {
		p := start(t, m.env, "dead", "show", "--kind", "crash", format)
		p.expect(0)
		for _, want := range wants {
			if !strings.Contains(p.out.String(), want) {
				t.Errorf("%s is not in %s", want, &p.out)
			}
		}
	}
	got := m.said(0, "dead", "groups")
	if first, last := got["first_dead_at"], got["last_dead_at"]; got["count"] != 2.0 ||
		first != began.Format(time.RFC3339) || last == first {
		t.Errorf("the group is %v", got)
	}
	start(t, m.env, "dead", "groups").expect(0)
	for all, want := range map[string]int{"1": 1, "0": 2} {
		p := start(t, m.env, "dead", "list", "--json", "--limit", all)
		p.expect(0)
		if n := strings.Count(p.out.String(), "\n"); n != want {
			t.Errorf("--limit %s prints %d, want %d", all, n, want)
		}
	}
}

// What cannot be meant is said to be usage, and what is not there has the exit code of that.
func TestWordsThatAreNone(t *testing.T) {
	t.Parallel()
	m := newMorgue(t)
	m.bury(1, "k", nil)
	for _, c := range []struct {
		code int
		says string
		args []string
	}{
		{2, "--kind is one of attempts, age, malformed, permanent, rejected, crash, unhandled",
			[]string{"dead", "list", "--kind", "crsh"}},
		{2, "--limit", []string{"dead", "list", "--limit", "-1"}},
		{2, "--state is one of done", []string{"steps", "list", "--state", "bogus"}},
		{4, "skald inbox status", []string{"inbox", "admit", "--number", "9", "--reason", "x"}},
		{4, "skald inbox status", []string{"inbox", "admit", "m-01", "--reason", "x"}},
		{0, "skald inbox status", []string{"inbox", "admit", "--why", "conflict", "--reason", "x"}},
		{0, "skald inbox status", []string{"inbox", "admit", "--all", "--dry-run"}},
		{0, "no message is selected", []string{"parked", "release", "--all", "--reason", "x"}},
	} {
		start(t, m.env, c.args...).expect(c.code, c.says)
	}
	p := start(t, m.env, "outbox", "write", "--topic", "t", "--type", "refund", "--data", "{}", "--reason",
		"x", "--caused-by", "gone", "--dry-run")
	if p.expect(0); !strings.Contains(p.out.String(), "gone is not in this database") {
		t.Errorf("a cause that nobody keeps is told as %s", &p.out)
	}
}

// On PostgreSQL ids are UUIDs; a consumer that is to read again has read before.
func TestWordsThatAreNoneOnServers(t *testing.T) {
	t.Parallel()
	at, _ := postgres(t)
	kafka := "kafka://" + need.Kafka(t)
	start(t, nil, "migrate", "--store", at).expect(0)
	start(t, nil, "outbox", "write", "--store", at, "--topic", "t", "--type", "refund", "--data", "{}",
		"--reason", "x", "--id", "mine").expect(2, `"mine" is no UUID`)
	rewind := []string{"consumer", "rewind", "--store", at, "--broker", kafka, "--consumer", "nobody",
		"--to-time", "1m", "--reason", "x", "--yes", "--topic"}
	start(t, nil, append(rewind, "no-such-topic")...).expect(4, "no such topic")
	start(t, nil, append(rewind, say(t, kafka).topic)...).expect(4, "no consumer nobody")
}
