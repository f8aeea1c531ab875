package doctor

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/skald-go/skald"
	"github.com/skald-go/skald/internal/diskfree"
	"github.com/skald-go/skald/store/pgstore/internal/column"
	"github.com/skald-go/skald/store/pgstore/internal/pgrun"
)

const (
	preparedMost = time.Minute // a prepared transaction that is older was forgotten
	slotAge      = 1_000_000   // transactions that a slot may hold vacuum back for
	slotWAL      = 10 << 30    // bytes of WAL that a slot may keep
)

// examineServer asks PostgreSQL's own views alone.
func (d *Doctor) examineServer(ctx context.Context) ([]skald.Finding, error) {
	p := &patient{}
	var waits, forgotten, slots []string
	ended := ""
	blocked := d.pg.Call("Blocked")
	blocked.Scan = func(row pgrun.Scanner) error {
		var pid, n int
		var user, program, state, query, waiter string
		var open, longest int64
		err := row.Scan(&pid, &user, &program, &state, &open, &query, &n, &longest, &waiter)
		who := fmt.Sprintf("session %d (%s %s, %s, transaction open for %v: %s)", pid, user, program, state, time.Duration(open)*time.Second, query)
		if ended += fmt.Sprintf("; SELECT pg_terminate_backend(%d)", pid); pid == 0 {
			who, ended = "a prepared transaction", "; see \"prepared transactions\""
		}
		waits = append(waits, fmt.Sprintf("%s blocks %d, the longest for %v: %s", who, n, time.Duration(longest)*time.Second, waiter))
		return err
	}
	prepared := d.pg.Call("Prepared")
	remedy, worst := "", skald.Doubtful
	prepared.Scan = func(row pgrun.Scanner) error {
		var gid, owner string
		var seconds int64
		err := row.Scan(&gid, &owner, &seconds)
		age := time.Duration(seconds) * time.Second
		if remedy == "" { // the oldest
			remedy = "ROLLBACK PREPARED " + column.Quote(gid)
			if age > preparedMost {
				worst = skald.Failed
			}
		}
		forgotten = append(forgotten, fmt.Sprintf("%q of %s for %v", gid, owner, age))
		return err
	}
	unbounded := false // of what slots may keep
	held := d.pg.Call("Slots")
	held.Scan = func(row pgrun.Scanner) error {
		var name, status string
		var active bool
		var age, wal int64
		err := row.Scan(&name, &active, &age, &wal, &status, &unbounded)
		if status == "lost" {
			name += ", which the server has invalidated,"
		}
		if age > slotAge || wal > slotWAL || status == "lost" || !active {
			slots = append(slots, fmt.Sprintf("%s (active: %t) keeps %d MiB of WAL and holds vacuum back by %d transactions", name, active, wal>>20, age))
		}
		return err
	}
	var folder, size string
	if err := d.pg.Short(ctx, "examine the server", blocked, prepared, held, d.pg.Call("DataFolder").Into(&folder, &size)); err != nil {
		return nil, err
	}
	listed := func(name, none string, worst skald.Grade, found []string, remedy string) {
		if len(found) == 0 {
			p.say(name, skald.Fine, none, "")
			return
		}
		p.say(name, worst, strings.Join(found, "; "), remedy)
	}
	listed("blocked", "no session waits for another", skald.Doubtful, waits, "end what blocks, if it is not about to end by itself"+ended)
	listed("prepared transactions", "there is none", worst, forgotten,
		"ask who prepared it; then COMMIT PREPARED or "+remedy+": until then it holds its locks, and neither vacuum nor the retention gets past it")
	listed("replication slots", "each is in use, and none holds much back", skald.Doubtful, slots,
		"start what reads from it, or SELECT pg_drop_replication_slot('…'): it holds vacuum and WAL back, until the disk is full")
	p.say("max_slot_wal_keep_size", doubt(!unbounded), map[bool]string{true: "unlimited, and there are replication slots", false: "limited, or there is no replication slot"}[unbounded],
		"ALTER SYSTEM SET max_slot_wal_keep_size = '50GB', or what the disk has room for, then SELECT pg_reload_conf(): a relay whose slot is invalidated reads the table and makes the slot anew")
	p.disk(folder, size)
	return p.found, nil
}

// disk is that of the server, where it is this machine's.
func (p *patient) disk(folder, size string) {
	if folder != "" {
		if f, err := diskfree.Finding(folder); err == nil {
			f.Saw += "; the database has " + size
			p.found = append(p.found, f)
			return
		}
	}
	p.say("free disk", skald.Fine, "the server's disk cannot be seen from here; the database has "+size, "")
}
