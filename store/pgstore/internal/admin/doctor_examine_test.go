package admin

import (
	"strings"
	"testing"
	"time"

	"github.com/skald-go/skald"
	"github.com/skald-go/skald/store"
)

// TestFindings checks conditions that no test server has: each one is found under its name and with a
// remedy, and nothing else is found.
func TestFindings(t *testing.T) {
	healthy := func() *patient {
		return &patient{version: 180001, Exam: store.Exam{Handle: time.Minute}, roleLimit: -1, baseLimit: -1,
			lead:   time.Millisecond,
			looked: time.Minute, keep: store.Retention{Outbox: 7 * Day, Marks: 30 * Day},
			trip: time.Millisecond, busy: 5, mine: 5,
			settings: map[string]string{"fsync": "on", "full_page_writes": "on", "autovacuum": "on",
				"synchronous_commit": "on", "transaction_timeout": "0",
				"max_connections": "100", "superuser_reserved_connections": "3"}}
	}
	for name, c := range map[string]struct {
		sick  func(*patient)
		grade skald.Grade
		words string
	}{
		"":        {func(*patient) {}, "", ""},
		"version": {func(p *patient) { p.version = 140012 }, skald.Failed, "PostgreSQL 14.12"},
		"primary": {func(p *patient) { p.standby = true }, skald.Failed, "target_session_attrs"},
		"fsync":   {func(p *patient) { p.settings["fsync"] = "off" }, skald.Failed, "fsync = on"},
		"full_page_writes": {func(p *patient) { p.settings["full_page_writes"] = "off" }, skald.Failed,
			"full_page_writes = on"},
		"synchronous_commit": {func(p *patient) { p.settings["synchronous_commit"] = "off" }, skald.Failed,
			"off → ALTER ROLE … SET synchronous_commit = on"},
		"planner": {func(p *patient) { p.planner = []string{"enable_sort = off"} }, skald.Doubtful,
			"enable_sort = off → ALTER DATABASE"},
		"autovacuum": {func(p *patient) { p.settings["autovacuum"] = "off" }, skald.Doubtful,
			"autovacuum = on"},
		"transaction_timeout": {func(p *patient) { p.settings["transaction_timeout"] = "65000" },
			skald.Failed, "1m5s; a handler may take 1m0s → ALTER ROLE … SET transaction_timeout = '1m10s'"},
		"connections":       {func(p *patient) { p.roleLimit = 6 }, skald.Doubtful, "1 can still be opened"},
		"clock":             {func(p *patient) { p.clock = -20 * time.Minute }, skald.Failed, "20m0s"},
		"open transactions": {func(p *patient) { p.openFor = 3 * time.Hour }, skald.Doubtful, "3h0m0s"},
		"owner": {func(p *patient) { p.ownerMayAll = true }, skald.Doubtful,
			"a superuser → transfer them"},
		"round trip": {func(p *patient) { p.trip = 40 * time.Millisecond }, skald.Doubtful, "40ms"},
	} {
		p := healthy()
		c.sick(p)
		p.server()
		p.rights()
		p.timeouts()
		p.connections()
		p.time()
		p.retention()
		p.load()
		bad := map[string]skald.Finding{}
		for _, f := range p.found {
			if f.Grade != skald.Fine {
				bad[f.Name] = f
			}
		}
		f, found := bad[name]
		delete(bad, name)
		if name != "" && (!found || f.Grade != c.grade || f.Remedy == "" ||
			!strings.Contains(f.Observed+" → "+f.Remedy, c.words)) {
			t.Errorf("%s: found %+v, want %s %q", name, f, c.grade, c.words)
		}
		if len(bad) > 0 {
			t.Errorf("%s: found as well: %v", name, bad)
		}
	}
}
