package main_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/skald-go/skald/store"
)

// An empty list has one line on standard error, and none for a program.
func TestEmptyListsSaySo(t *testing.T) {
	t.Parallel()
	env := onSQLite(t).migrate().env
	for args, says := range map[string]string{"dead list": "no dead letters\n", "dead groups": "no dead letters\n",
		"parked list": "no parked messages\n", "inbox status": "no messages in quarantine\n",
		"saga list --stuck": "no sagas\n", "steps list": "no steps\n",
		"saga holds": "no entities held by sagas\n"} {
		p := start(t, env, strings.Fields(args)...)
		if p.expect(0); p.out.String() != "" || p.errs.String() != says {
			t.Errorf("%s prints %q, and %q on standard error", args, &p.out, &p.errs)
		}
		p = start(t, env, append(strings.Fields(args), "--json")...)
		if p.expect(0); p.errs.String() != "" {
			t.Errorf("%s --json prints %q on standard error", args, &p.errs)
		}
	}
}

// A list begins with the newest, and ends with the counts if it is cut.
func TestListsShowTheNewest(t *testing.T) {
	t.Parallel()
	m := newMorgue(t)
	now := time.Now()
	for n, ago := range []time.Duration{time.Hour, 3 * time.Hour, 2 * time.Hour} {
		m.bury(n+1, "", func(p *store.Parked) { p.Dead.At = now.Add(-ago) })
		m.bury(n+4, "", func(p *store.Parked) { p.Dead, p.Due = nil, time.Hour })
	}
	m.idle([2]string{"order", "o-2"}, [2]string{"order", "o-3"}, [2]string{"order", "o-1"})
	m.exec("UPDATE skald_saga SET started_at = started_at - 1000 WHERE key = 'o-2'")
	m.exec("UPDATE skald_saga SET started_at = started_at + 1000 WHERE key = 'o-1'")
	for args, want := range map[string][]string{"dead list": {"m-01", "m-03", "m-02"},
		"dead show":   {"m-01", "m-03", "m-02"},
		"parked list": {"m-06", "m-05", "m-04"}, "saga list": {"o-1", "o-3", "o-2"}} {
		p := start(t, m.env, append(strings.Fields(args), "--limit", "2")...)
		p.expect(0)
		out := p.out.String()
		if a, b := strings.Index(out, want[0]), strings.Index(out, want[1]); a < 0 || b < a ||
			strings.Contains(out, want[2]) || p.errs.String() != "2 of 3 shown\n" {
			t.Errorf("%s prints\n%sand %q on standard error, not %v", args, out, &p.errs, want[:2])
		}
		p = start(t, m.env, append(strings.Fields(args), "--limit", "0")...)
		if p.expect(0); p.errs.String() != "" || !strings.Contains(p.out.String(), want[2]) {
			t.Errorf("%s of all prints %s%s", args, &p.out, &p.errs)
		}
	}
}

// A verb on many that selects none of them has done its work. A name that does not exist is an error.
func TestBulkVerbsOnNothing(t *testing.T) {
	t.Parallel()
	env := onSQLite(t).migrate().env
	for _, args := range []string{"dead redrive --all", "dead drop --all", "parked release --all",
		"inbox admit --all", "inbox admit --why conflict", "saga cancel --all", "saga retry --stuck",
		"compensate --overdue"} {
		for _, more := range []string{"--dry-run", "--yes --reason x"} {
			p := start(t, env, strings.Fields(args+" "+more)...)
			if p.expect(0); !strings.HasPrefix(p.errs.String(), "skald: no ") {
				t.Errorf("%s %s prints %q on standard error", args, more, &p.errs)
			}
		}
	}
	for _, args := range []string{"dead redrive m-1", "dead drop --all --consumer nobody", "parked release m-1",
		"inbox admit m-1", "inbox admit --number 3", "saga cancel o-1", "saga retry --stuck --name nothing",
		"compensate o-1"} {
		start(t, env, strings.Fields(args+" --yes --reason x")...).expect(4, "")
	}
}

// A reason is required of a verb on something that exists.
func TestReasonIsAskedLast(t *testing.T) {
	t.Parallel()
	m := newMorgue(t)
	m.bury(1, "", nil)
	m.idle([2]string{"order", "o-1"})
	for args, code := range map[string]int{"saga cancel o-1": 2, "saga cancel order o-9": 4, "compensate o-9": 4,
		"dead drop m-01": 2, "dead drop m-09": 4, "dead edit m-09 --data 1": 4, "dead redrive m-01": 2,
		"inbox admit m-09": 4, "inbox admit --number 9": 4} {
		says := ""
		if code == 2 {
			says = "--reason"
		}
		start(t, m.env, strings.Fields(args)...).expect(code, says)
	}
}

// skald status shows each saga and names the command that shows all of it; the others name each other.
func TestCommandsOnASagaNameEachOther(t *testing.T) {
	t.Parallel()
	b := onSQLite(t).migrate()
	b.idle([2]string{"order", "o-1"})
	p := start(t, b.env, "status", "o-1")
	if p.expect(0); !strings.Contains(p.errs.String(), "skald saga show --store ") ||
		!strings.Contains(p.errs.String(), " order o-1\n") {
		t.Errorf("status prints %q on standard error", &p.errs)
	}
	start(t, b.env, "steps", "show", "--saga", "o-1").expect(4, "o-1 is an orchestrated saga: skald saga show")
}

// A new file needs nothing from anybody.
func TestDoctorOnANewFile(t *testing.T) {
	t.Parallel()
	at := "sqlite:" + filepath.Join(t.TempDir(), "shop.db")
	start(t, nil, "migrate", "--store", at).expect(0)
	p := start(t, nil, "doctor", "--store", at)
	if p.expect(0); strings.Contains(p.out.String(), "warning") {
		t.Error(p.out.String())
	}
	p = start(t, nil, "maintain", "--dry-run", "--store", at)
	if p.expect(0); strings.Count(p.out.String(), "never ran") != 4 {
		t.Error(p.out.String())
	}
}

// Sagas that stay with the older build are grouped by reason. Without a saga the last definition is compared.
func TestCheckComparesTheLastDefinition(t *testing.T) {
	t.Parallel()
	b := onSQLite(t).migrate()
	b.idle([2]string{"order", "o-1"}, [2]string{"order", "o-2"})
	next := filepath.Join(t.TempDir(), "next.json")
	must(t, os.WriteFile(next, []byte(`{"format":1,"definitions":[]}`), 0o600))
	p := start(t, b.env, "saga", "check", "--definitions", next)
	p.expect(8, "left to the older build: 2 sagas")
	if out := p.out.String(); !strings.Contains(out, "2 sagas stay with the older build: ") ||
		!strings.Contains(out, ": o-1, o-2\n") || strings.Contains(out, "last definition") {
		t.Error(out)
	}
	b.exec("DELETE FROM skald_saga")
	p = start(t, b.env, "saga", "check", "--definitions", next)
	if p.expect(0); !strings.Contains(p.out.String(), "no saga runs in this database\norder ") ||
		!strings.Contains(p.out.String(), "the last definition in this database") {
		t.Error(p.out.String())
	}
}
