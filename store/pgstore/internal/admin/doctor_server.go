package admin

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/skald-go/skald"
	"github.com/skald-go/skald/internal/diskfree"
	"github.com/skald-go/skald/store/pgstore/internal/sqlexec"
)

const (
	preparedMost = time.Minute // an older prepared transaction is probably forgotten
	slotAge      = 1_000_000   // maximum number of transactions by which a slot may delay vacuum
	slotWAL      = 10 << 30    // maximum bytes of WAL that a slot may keep
)

// serverView has the problems that PostgreSQL's own views show.
type serverView struct {
	waits     []string    // sessions that block others
	ended     string      // the statements that end these sessions
	forgotten []string    // prepared transactions
	remedy    string      // the statement that ends the oldest prepared transaction
	worst     skald.Grade // of the prepared transactions
	slots     []string    // replication slots with a problem
	unbounded bool        // no setting limits the WAL that slots keep
}

// blocked adds a session that blocks others.
func (v *serverView) blocked(row sqlexec.Scanner) error {
	var pid, n int
	var user, program, state, query, waiter string
	var open, longest int64
	err := row.Scan(&pid, &user, &program, &state, &open, &query, &n, &longest, &waiter)
	who := fmt.Sprintf("session %d (%s %s, %s, transaction open for %v: %s)", pid, user, program, state,
		time.Duration(open)*time.Second, query)
	if v.ended += fmt.Sprintf("; SELECT pg_terminate_backend(%d)", pid); pid == 0 {
		who, v.ended = "a prepared transaction", "; see \"prepared transactions\""
	}
	v.waits = append(v.waits, fmt.Sprintf("%s blocks %d, the longest for %v: %s", who, n,
		time.Duration(longest)*time.Second, waiter))
	return err
}

// prepared adds a prepared transaction. The first row must be the oldest.
func (v *serverView) prepared(row sqlexec.Scanner) error {
	var gid, owner string
	var seconds int64
	err := row.Scan(&gid, &owner, &seconds)
	age := time.Duration(seconds) * time.Second
	if v.remedy == "" {
		v.remedy = "ROLLBACK PREPARED " + sqlexec.Quote(gid)
		if age > preparedMost {
			v.worst = skald.Failed
		}
	}
	v.forgotten = append(v.forgotten, fmt.Sprintf("%q of %s for %v", gid, owner, age))
	return err
}

// slot adds a replication slot if it keeps too much WAL, delays vacuum, is invalid or has no reader.
func (v *serverView) slot(row sqlexec.Scanner) error {
	var name, status string
	var active bool
	var age, wal int64
	err := row.Scan(&name, &active, &age, &wal, &status, &v.unbounded)
	if status == "lost" {
		name += ", which the server has invalidated,"
	}
	if age > slotAge || wal > slotWAL || status == "lost" || !active {
		v.slots = append(v.slots,
			fmt.Sprintf("%s (active: %t) keeps %d MiB of WAL and delays vacuum by %d transactions",
				name, active, wal>>20, age))
	}
	return err
}

// examineServer checks the server. It reads only PostgreSQL's own views, so it also works without Skald's
// tables.
func (d *doctor) examineServer(ctx context.Context) ([]skald.Finding, error) {
	p, v := &patient{}, &serverView{worst: skald.Doubtful}
	blocked, prepared, held := d.pg.Call("Blocked"), d.pg.Call("Prepared"), d.pg.Call("Slots")
	blocked.Scan, prepared.Scan, held.Scan = v.blocked, v.prepared, v.slot
	var folder, size string
	if err := d.pg.Short(ctx, "examine the server", blocked, prepared, held,
		d.pg.Call("DataFolder").Into(&folder, &size)); err != nil {
		return nil, err
	}
	listed := func(name, none string, worst skald.Grade, found []string, remedy string) {
		if len(found) == 0 {
			p.addFinding(name, skald.Fine, none, "")
			return
		}
		p.addFinding(name, worst, strings.Join(found, "; "), remedy)
	}
	listed("blocked", "no session waits for another", skald.Doubtful, v.waits,
		"end the blocking session if it will not end soon"+v.ended)
	listed("prepared transactions", "there is none", v.worst, v.forgotten,
		"ask who prepared it; then COMMIT PREPARED or "+v.remedy+
			": until then it keeps its locks and blocks vacuum and the retention")
	listed("replication slots", "all are in use and keep little", skald.Doubtful, v.slots,
		"start its reader, or SELECT pg_drop_replication_slot('…'): it delays vacuum and keeps WAL "+
			"until the disk is full")
	saw := "limited, or there is no replication slot"
	if v.unbounded {
		saw = "unlimited, and there are replication slots"
	}
	p.addFinding("max_slot_wal_keep_size", doubtfulUnless(!v.unbounded), saw,
		"ALTER SYSTEM SET max_slot_wal_keep_size = '50GB', or a size that fits the disk, then "+
			"SELECT pg_reload_conf(): a relay whose slot is invalidated polls the table and creates the slot again")
	p.disk(folder, size)
	return p.found, nil
}

// disk checks the free space on the disk of the server, if the server runs on this machine.
func (p *patient) disk(folder, size string) {
	if folder != "" {
		if f, err := diskfree.Finding(folder); err == nil {
			f.Observed += "; the database has " + size
			p.found = append(p.found, f)
			return
		}
	}
	p.addFinding("free disk", skald.Fine,
		"the server's disk is not visible from here; the database has "+size, "")
}
