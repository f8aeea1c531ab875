package pgstore

import (
	"context"
	"encoding/json"
	"fmt"
	"math"
	"time"

	"github.com/skald-go/skald/store"
)

// backlog reads the views of the contract. How the outbox stands is taken from its status, where that was
// read: to look at its rows again takes as long as all the rest.
func (c *core) backlog(ctx context.Context, outbox *store.OutboxStatus) (store.Backlog, error) {
	var b store.Backlog
	var oldest, retained int64 // milliseconds
	kept := c.call("KeptFor")
	kept.scan = func(row scanner) error {
		var k store.Kept
		var parked, apart, called int64 // milliseconds
		err := row.Scan(&k.Consumer, &k.Parked, &k.Dead, &k.Bytes, &parked, &k.Conflicts, &k.TooOld, &apart, &k.Calls, &called)
		handles(&k.Consumer)
		k.Oldest, k.Apart = past(parked), past(apart)
		k.Called = past(called)
		b.Kept = append(b.Kept, k)
		return err
	}
	going := c.call("Progress")
	going.scan = func(row scanner) error { return scanProgress(row, &b) }
	reserved := c.call("CountReservations")
	reserved.scan = func(row scanner) error {
		var r store.ReservedCounts
		err := row.Scan(&r.Consumer, &r.Held, &r.Expired)
		handles(&r.Consumer)
		b.Reserved = append(b.Reserved, r)
		return err
	}
	first := c.call("Backlog").into(&b.Source, &b.Pending, &oldest, &b.Deferred, &retained, &b.Free)
	if outbox != nil {
		first = c.call("BacklogRest").into(&b.Source, &retained)
	}
	err := c.short(ctx, "read backlog", first, kept, going, reserved)
	if err != nil {
		return store.Backlog{}, err
	}
	b.Oldest, b.Retained = past(oldest), past(retained)
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

// scanProgress adds how one consumer or relay gets on.
func scanProgress(row scanner, b *store.Backlog) error {
	var kind, name, topics string
	var heard, progress int64 // milliseconds
	if err := row.Scan(&kind, &name, &heard, &progress, &topics); err != nil {
		return err
	}
	moved := time.Duration(progress) * time.Millisecond
	if kind == "relay" {
		b.Relays = append(b.Relays, store.RelayProgress{Owner: name, Progress: moved})
		return nil
	}
	handles(&name)
	c := store.Consumer{Name: name, Heard: time.Duration(heard) * time.Millisecond, Progress: moved}
	if err := json.Unmarshal([]byte(topics), &c.Topics); err != nil {
		return fmt.Errorf("topics of consumer %s: %w", name, err)
	}
	b.Consumers = append(b.Consumers, c)
	return nil
}

// past is so many milliseconds, or as many of them as a Duration has room for.
func past(n int64) time.Duration {
	return time.Duration(min(n, int64(math.MaxInt64/time.Millisecond))) * time.Millisecond
}
