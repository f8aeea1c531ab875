package admin

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/skald-go/skald"
	"github.com/skald-go/skald/internal/retention"
	"github.com/skald-go/skald/store"
	"github.com/skald-go/skald/store/pgstore/internal/sqlexec"
	"github.com/skald-go/skald/store/pgstore/internal/wal"
)

// patient has the values that the doctor read from a database, and the findings.
type patient struct {
	store.Exam
	settings map[string]string
	planner  []string // planner settings that lead to bad plans
	version  int      // server_version_num
	standby  bool
	// clock is the server's time minus the time of this machine; lead is the maximum error of clock.
	clock, lead time.Duration
	// busy is the number of connections, mine of those of this role. roleLimit and baseLimit are the limits
	// of the role and the database; -1 means no limit.
	busy, mine, roleLimit, baseLimit int
	openFor                          time.Duration // age of the oldest open transaction
	looked                           time.Duration // time since the retention last ran; negative means never
	keep                             store.Retention
	ringRefused                      error         // the reason why the ring does not fit the retention
	size                             int64         // bytes of all tables
	owner                            string        // of the tables
	ownerMayAll                      bool          // owner is a superuser
	trip                             time.Duration // of a round trip
	found                            []skald.Finding
}

// addFinding adds a finding. It ignores the remedy if the grade is Fine.
func (p *patient) addFinding(name string, grade skald.Grade, saw, remedy string) {
	if grade == skald.Fine {
		remedy = ""
	}
	p.found = append(p.found, skald.Finding{Name: name, Grade: grade, Observed: saw, Remedy: remedy})
}

// Examine checks the settings, the clock and the connections of the server, the ring and the load. If
// e.Server is true, it only checks PostgreSQL's own views. It changes nothing.
func (d *doctor) Examine(ctx context.Context, e store.Exam) ([]skald.Finding, error) {
	if e.Server {
		return d.examineServer(ctx)
	}
	e.Handle = cmp.Or(e.Handle, sqlexec.DefaultHandle)
	p := &patient{Exam: e, settings: map[string]string{}}
	if err := d.admit(ctx, p); err != nil {
		return nil, err
	}
	p.server()
	p.rights()
	p.timeouts()
	p.connections()
	p.time()
	p.retention()
	p.load()
	return p.found, errors.Join(d.debezium(ctx, p),
		wal.Examine(ctx, d.pg, func(g skald.Grade, saw, remedy string) {
			p.addFinding("read by", g, saw, remedy)
		}))
}

// admit reads all values from the database into p.
func (d *doctor) admit(ctx context.Context, p *patient) error {
	set := d.pg.Call("ExamineSettings", []string{"fsync", "full_page_writes", "synchronous_commit",
		"autovacuum", "statement_timeout",
		"transaction_timeout", "idle_in_transaction_session_timeout", "idle_session_timeout",
		"max_connections",
		"superuser_reserved_connections", "reserved_connections"})
	set.Scan = func(row sqlexec.Scanner) error {
		var name, value string
		err := row.Scan(&name, &value)
		p.settings[name] = value
		return err
	}
	planner := d.pg.Call("ExaminePlanner")
	planner.Scan = func(row sqlexec.Scanner) error {
		var name, value string
		err := row.Scan(&name, &value)
		p.planner = append(p.planner, name+" = "+value)
		return err
	}
	var now, open, looked int64
	var rings string
	server := d.pg.Call("ExamineServer").Into(&p.version, &p.standby, &now, &p.busy, &p.mine, &p.roleLimit,
		&p.baseLimit, &open)
	sent := time.Now()
	if err := d.pg.Short(ctx, "examine", server); err != nil {
		return err
	}
	took := time.Since(sent)
	p.clock, p.lead = time.UnixMicro(now).Sub(sent.Add(took/2)), took
	p.openFor = time.Duration(open) * time.Second
	var trips []time.Duration
	for range 5 {
		sent := time.Now()
		if err := d.pg.Short(ctx, "examine", d.pg.Call("Now")); err != nil {
			return err
		}
		trips = append(trips, time.Since(sent))
	}
	p.trip = slices.Min(trips)
	err := d.pg.Short(ctx, "examine", set, planner, d.pg.Call("ExamineRetention").Into(&looked),
		d.pg.Call("Ring").Into(&rings), d.pg.Call("ExamineSize", d.pg.Schema).Into(&p.size),
		d.pg.Call("ExamineOwner").Into(&p.owner, &p.ownerMayAll))
	if err != nil {
		return err
	}
	p.looked = time.Duration(looked) * time.Second
	if p.keep, err = d.steward.Keeps(ctx); err != nil {
		return err
	}
	return p.measure(rings)
}

// measure checks that the ring has enough slots for the retention. stored is the ring in skald_setting.
func (p *patient) measure(stored string) error {
	keep, err := retention.OrDefaults(p.keep)
	if err != nil {
		p.ringRefused = err
		return nil
	}
	p.keep = keep
	rows, err := Parse(stored, Default())
	if err == nil {
		p.ringRefused = checkSlots(keep, rows)
	}
	return err
}

func (p *patient) server() {
	p.addFinding("version", failedUnless(p.version >= 150000),
		fmt.Sprintf("PostgreSQL %d.%d", p.version/10000, p.version%10000), "PostgreSQL 15 or newer is needed")
	p.addFinding("primary", failedUnless(!p.standby),
		map[bool]string{true: "a standby", false: "a primary"}[p.standby],
		"let the URL lead to the primary: target_session_attrs=read-write")
	for _, s := range []struct {
		name   string
		worst  skald.Grade
		remedy string
	}{
		{"fsync", skald.Failed,
			"ALTER SYSTEM SET fsync = on, then SELECT pg_reload_conf(): otherwise commits are lost if the machine crashes"},
		{"full_page_writes", skald.Failed,
			"ALTER SYSTEM SET full_page_writes = on, then SELECT pg_reload_conf(): a crash may tear pages otherwise"},
		{"autovacuum", skald.Doubtful,
			"ALTER SYSTEM SET autovacuum = on, then SELECT pg_reload_conf(): shards, leases and parked messages are rewritten in place"},
		{"synchronous_commit", skald.Failed,
			"ALTER ROLE … SET synchronous_commit = on: Skald turns it on in its own transactions, but in yours a confirmed order and its messages can be lost in a crash; if your transactions write no messages: --accept synchronous_commit"},
	} {
		is := p.settings[s.name]
		if is == "off" {
			p.addFinding(s.name, s.worst, is, s.remedy)
		} else {
			p.addFinding(s.name, skald.Fine, is, "")
		}
	}
	saw := "its settings are the default"
	if len(p.planner) > 0 {
		saw = strings.Join(p.planner, ", ")
	}
	p.addFinding("planner", doubtfulUnless(len(p.planner) == 0), saw,
		"ALTER DATABASE … RESET, or ALTER ROLE … RESET: handlers and views scan tables or compile statements, which takes up to seconds; Skald overrules jit, enable_indexscan and enable_nestloop in its own transactions alone")
}

// rights checks the owner of the tables. The owner must not be a superuser, because some functions run with
// the rights of the owner.
func (p *patient) rights() {
	p.addFinding("owner", doubtfulUnless(!p.ownerMayAll), fmt.Sprintf("the tables belong to %s%s", p.owner,
		map[bool]string{true: ", a superuser"}[p.ownerMayAll]),
		"transfer them to a separate role, with their functions, because some functions run with the rights of their owner: "+
			"skald roles migrator (docs/sql.md, Roles)")
}

// timeouts checks the settings that can end sessions or statements while a handler runs. Skald itself only
// sets idle_in_transaction_session_timeout and lock_timeout in its transactions.
func (p *patient) timeouts() {
	least := p.Handle + 10*time.Second
	if d := p.duration("transaction_timeout"); d > 0 && d < least {
		p.addFinding("transaction_timeout", skald.Failed,
			fmt.Sprintf("%v; a handler may take %v", d, p.Handle),
			fmt.Sprintf("ALTER ROLE … SET transaction_timeout = '%v', or 0: it ends the connection of a handler that still works", least))
	} else if _, there := p.settings["transaction_timeout"]; there {
		p.addFinding("transaction_timeout", skald.Fine, timeoutText(d), "")
	}
	d := p.duration("statement_timeout")
	p.addFinding("statement_timeout", doubtfulUnless(d == 0 || d >= sqlexec.DefaultWait), timeoutText(d),
		fmt.Sprintf("ALTER ROLE … SET statement_timeout = 0, or %v and more: an intake may wait that long for a rival, and is tried again if it is cancelled", sqlexec.DefaultWait))
	d = p.duration("idle_in_transaction_session_timeout")
	p.addFinding("idle_in_transaction_session_timeout", skald.Fine, timeoutText(d)+
		fmt.Sprintf("; a handler's transaction sets it to what the handler may take, %v", p.Handle), "")
	d = p.duration("idle_session_timeout")
	p.addFinding("idle_session_timeout", doubtfulUnless(d == 0), timeoutText(d),
		"ALTER ROLE … SET idle_session_timeout = 0, or have the pool end idle connections sooner: it ends connections that a pool keeps")
	long := p.openFor > time.Hour
	p.addFinding("open transactions", doubtfulUnless(!long),
		fmt.Sprintf("the longest visible one is open for %v", p.openFor),
		"SELECT pid, usename, state, xact_start, query FROM pg_stat_activity ORDER BY xact_start LIMIT 5: it blocks vacuum and the retention")
}

func (p *patient) connections() {
	n := func(name string) int {
		v, _ := strconv.Atoi(p.settings[name]) // 0 if it is missing
		return v
	}
	most := n("max_connections") - n("superuser_reserved_connections") - n("reserved_connections")
	free := most - p.busy
	if p.roleLimit >= 0 {
		free = min(free, p.roleLimit-p.mine)
	}
	if p.baseLimit >= 0 {
		free = min(free, p.baseLimit-p.busy)
	}
	saw := fmt.Sprintf("%d of %d are used, %d can still be opened", p.busy, most, free)
	remedy := "use smaller pools, a pooler in transaction mode, or raise max_connections"
	switch {
	case p.Connections > free:
		p.addFinding("connections", skald.Failed, fmt.Sprintf("%s; %d are needed", saw, p.Connections),
			remedy)
	case free*10 < most:
		p.addFinding("connections", skald.Doubtful, saw, remedy)
	default:
		p.addFinding("connections", skald.Fine, saw, "")
	}
}

// time compares the clock of the server with that of this machine. Deduplication and order do not depend on
// the clocks.
func (p *patient) time() {
	off := p.clock.Abs() - p.lead
	g := skald.Fine
	switch {
	case off > 10*time.Minute:
		g = skald.Failed
	case off > 5*time.Second:
		g = skald.Doubtful
	}
	p.addFinding("clock", g, fmt.Sprintf("the server's clock differs by %v from this machine's, ± %v",
		p.clock.Round(time.Millisecond), p.lead.Round(time.Millisecond)),
		"synchronize both with a time server (chronyc tracking): otherwise ages are wrong, and marks of IDs in the future are kept longer")
}

func (p *patient) retention() {
	switch {
	case p.looked < 0:
		p.addFinding("retention", skald.Doubtful, "it never ran",
			"start a relay, set inbox.Options.Retention.Keep in one service, or run: skald maintain")
	case p.looked > time.Hour:
		p.addFinding("retention", skald.Failed, fmt.Sprintf("it last ran %v ago", p.looked),
			"start a relay, set inbox.Options.Retention.Keep in one service, or run: skald maintain")
	default:
		p.addFinding("retention", skald.Fine, fmt.Sprintf("rows are kept %s, marks %s; it last ran %v ago",
			retention.Spell(p.keep.Outbox), retention.Spell(p.keep.Marks), p.looked), "")
	}
	if p.ringRefused != nil {
		p.addFinding("rings", skald.Failed, p.ringRefused.Error(),
			"shorten the retention, or give the ring more slots")
		return
	}
	p.addFinding("rings", skald.Fine, "the ring of the outbox has enough slots for the retention", "")
}

// Average bytes of an outbox row and of a mark, in heap and indexes. The source is docs/metrics.md.
const (
	rowBytes  = 576
	markBytes = 220
)

// load estimates whether round trips permit the rate p.Rate, and the disk space that the retention needs at
// that rate. A message needs two round trips in addition to its handler's.
func (p *patient) load() {
	p.addFinding("round trip", doubtfulUnless(p.trip < 20*time.Millisecond),
		p.trip.Round(10*time.Microsecond).String(),
		"run services near their database: a message needs two in addition to its handler's own")
	if p.Rate <= 0 {
		return
	}
	const workers, trips = 16, 3
	most := workers / (trips * p.trip.Seconds())
	p.addFinding("rate", doubtfulUnless(most >= p.Rate),
		fmt.Sprintf("one inbox of %d workers takes at most %.0f messages/s by its round trips alone (measurements: docs/dev/benchmarks.md), %.0f are needed", workers, most, p.Rate),
		fmt.Sprintf("run %.0f instances, raise inbox.Options.Workers, or go nearer to the database",
			math.Ceil(p.Rate/most)))
	gib := func(bytes float64, keep time.Duration, turn time.Duration) float64 {
		return bytes * p.Rate * (keep + turn).Seconds() / (1 << 30)
	}
	p.addFinding("disk", skald.Fine,
		fmt.Sprintf("at %.0f messages/s of 256 bytes the outbox takes %.1f GiB and the marks of each consumer %.1f GiB; all of Skald's tables take %.1f GiB now",
			p.Rate, gib(rowBytes, p.keep.Outbox, Day), gib(markBytes, p.keep.Marks, Day),
			float64(p.size)/(1<<30)), "")
}

// duration returns a setting that PostgreSQL stores in milliseconds.
func (p *patient) duration(name string) time.Duration {
	n, err := strconv.ParseInt(p.settings[name], 10, 64)
	if err != nil {
		return 0
	}
	return time.Duration(n) * time.Millisecond
}

// timeoutText returns a timeout as text.
func timeoutText(d time.Duration) string {
	if d == 0 {
		return "off"
	}
	return d.String()
}

// failedUnless returns Fine if the check passed, otherwise Failed.
func failedUnless(ok bool) skald.Grade {
	if ok {
		return skald.Fine
	}
	return skald.Failed
}

// doubtfulUnless returns Fine if the check passed, otherwise Doubtful.
func doubtfulUnless(ok bool) skald.Grade {
	if ok {
		return skald.Fine
	}
	return skald.Doubtful
}
