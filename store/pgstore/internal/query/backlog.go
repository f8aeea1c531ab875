// This file counts the work that waits in a database.

package query

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/skald-go/skald/store"
	"github.com/skald-go/skald/store/pgstore/internal/sqlexec"
)

// Read reads the backlog from the public views. If outbox is not nil, Read uses this state of the outbox. A
// second read of that state would take as long as all other reads together.
func Read(ctx context.Context, pg *sqlexec.DB, outbox *store.OutboxStatus) (store.Backlog, error) {
	var b store.Backlog
	var oldest, retained int64 // milliseconds
	kept := pg.Call("KeptFor")
	kept.Scan = func(row sqlexec.Scanner) error {
		var k store.ConsumerBacklog
		var parked, apart, called int64 // milliseconds
		err := row.Scan(&k.Consumer, &k.Parked, &k.Dead, &k.Bytes, &k.DeadBytes, &parked, &k.Conflicts,
			&k.TooOld, &k.QuarantineBytes, &apart, &k.Calls, &called)
		sqlexec.Handles(&k.Consumer)
		k.Oldest, k.QuarantineAge = sqlexec.Past(parked), sqlexec.Past(apart)
		k.OldestCall = sqlexec.Past(called)
		b.PerConsumer = append(b.PerConsumer, k)
		return err
	}
	going := pg.Call("Progress")
	going.Scan = func(row sqlexec.Scanner) error { return scanProgress(row, &b) }
	reserved := pg.Call("CountReservations")
	reserved.Scan = func(row sqlexec.Scanner) error {
		var r store.ReservedCounts
		err := row.Scan(&r.Consumer, &r.Held, &r.Expired)
		sqlexec.Handles(&r.Consumer)
		b.Reserved = append(b.Reserved, r)
		return err
	}
	first := pg.Call("Backlog").Into(&b.Source, &b.Pending, &oldest, &b.Deferred, &retained, &b.Free)
	if outbox != nil {
		first = pg.Call("BacklogRest").Into(&b.Source, &retained)
	}
	err := pg.Short(ctx, "read backlog", first, kept, going, reserved)
	if err != nil {
		return store.Backlog{}, err
	}
	b.Oldest, b.Retained = sqlexec.Past(oldest), sqlexec.Past(retained)
	if outbox != nil {
		b.Pending, b.Oldest, b.Deferred = outbox.Pending, outbox.Oldest, outbox.Deferred
		for _, l := range outbox.Shards {
			if l.Owner == "" {
				b.Free++
			}
		}
	}
	return b, nil
}

// scanProgress adds the state of one consumer or relay to b.
func scanProgress(row sqlexec.Scanner, b *store.Backlog) error {
	var kind, name, topics string
	var shards int
	var heard, progress, away int64 // milliseconds
	if err := row.Scan(&kind, &name, &heard, &progress, &topics, &shards, &away); err != nil {
		return err
	}
	moved := time.Duration(progress) * time.Millisecond
	if kind == "relay" {
		b.Relays = append(b.Relays, store.RelayProgress{Owner: name, Progress: moved, Shards: shards,
			BrokerAway: time.Duration(away) * time.Millisecond})
		return nil
	}
	sqlexec.Handles(&name)
	c := store.Consumer{Name: name, LastHeartbeat: time.Duration(heard) * time.Millisecond, Progress: moved}
	if err := json.Unmarshal([]byte(topics), &c.Topics); err != nil {
		return fmt.Errorf("topics of consumer %s: %w", name, err)
	}
	b.Consumers = append(b.Consumers, c)
	return nil
}
