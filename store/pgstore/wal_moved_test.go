package pgstore

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/skald-go/skald/internal/need"
	"github.com/skald-go/skald/relay"
	"github.com/skald-go/skald/store"
)

// TestWALIdleTimeout checks a slot that PostgreSQL 18 invalidated because nobody read it for some time: it
// is created again, and the relay finds the commits meanwhile by polling.
func TestWALIdleTimeout(t *testing.T) {
	t.Parallel()
	b := on18(t)
	bus := newTap(t)
	r := b.reads(t, bus, "one")
	eventually(t, "it rests", r.hears)
	r.stop()
	b.until(t, "the slot has no reader", `SELECT NOT active FROM pg_replication_slots WHERE slot_name = $1`, b.slot())
	t.Cleanup(func() {
		b.exec(t, "ALTER SYSTEM RESET idle_replication_slot_timeout")
		b.exec(t, "SELECT pg_reload_conf()")
	})
	b.exec(t, "ALTER SYSTEM SET idle_replication_slot_timeout = '1s'")
	b.exec(t, "SELECT pg_reload_conf()")
	eventually(t, "the slot is invalid", func() bool {
		b.exec(t, "CHECKPOINT")
		return one[bool](t, b,
			`SELECT coalesce(invalidation_reason, '') = 'idle_timeout' FROM pg_replication_slots WHERE slot_name = $1`, b.slot())
	})
	b.say(t, "meanwhile")
	r = b.reads(t, bus, "two")
	eventually(t, "it is published", func() bool { return bus.has(`"meanwhile"`) })
	eventually(t, "it rests", r.hears)
	if !strings.Contains(r.log.String(), "invalidated") {
		t.Errorf("not in the log: %s", r.log)
	}
	b.say(t, "later")
	eventually(t, "it is published", func() bool { return bus.has(`"later"`) })
}

// on18 returns a bed on a shared server. Its slot and publication are removed at the end.
func on18(t *testing.T) *bed {
	t.Helper()
	b := newBedAt(t, need.PostgresVersion(t, "18"))
	t.Cleanup(func() {
		b.until(t, "the slot is free",
			`SELECT NOT EXISTS (SELECT FROM pg_replication_slots WHERE slot_name = $1 AND active)`, b.slot())
		b.exec(t, `SELECT pg_drop_replication_slot(slot_name) FROM pg_replication_slots WHERE slot_name = $1`,
			b.slot())
		b.exec(t, `DROP PUBLICATION IF EXISTS `+b.slot())
	})
	return b
}

// TestWALRestored restores a backup, which has no slot, while a relay reads the database. The relay ends
// and names the command. After that, a WAL relay creates its slot again and publishes all rows that the
// backup had not published, and later ones.
func TestWALRestored(t *testing.T) {
	t.Parallel()
	c := need.NewCluster(t, "wal_level = logical")
	b := newBedAt(t, c.URL("postgres"))
	bus := newTap(t)
	w, err := b.store(t).WAL(b.url, &WALOptions{Slot: b.slot()})
	if err != nil {
		t.Fatal(err)
	}
	r := relay.New(w, bus, &relay.Options{Owner: "one"})
	ended := make(chan error, 1)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	go func() { ended <- r.Run(ctx) }()
	published := func(said string) {
		t.Helper()
		b.say(t, said)
		eventually(t, said+" is published", func() bool { return bus.has(`"` + said + `"`) })
	}
	published("before")
	eventually(t, "it rests", func() bool { return w.Listening().Quiet })
	early := c.Backup()
	published("lost")
	c.Stop("immediate")
	c.Restore(early)
	c.Start()
	b.pool.Reset() // its connections ended with the server
	select {
	case err = <-ended:
	case <-ctx.Done():
	}
	if !errors.Is(err, store.ErrMoved) || !strings.Contains(err.Error(), "skald outbox recover") {
		t.Fatalf("it ends with %v", err)
	}
	eventually(t, "the outbox is recovered", func() bool {
		_, err = b.store(t).Recover(ctx, &store.Audit{Author: "ann", Action: "recover"})
		return err == nil
	})
	two := b.reads(t, bus, "two")
	published("after")
	eventually(t, "it rests", two.hears)
	published("later")
	if n := one[int](t, b, `SELECT count(*)::int FROM pg_replication_slots WHERE slot_name = $1 AND active`,
		b.slot()); n != 1 {
		t.Errorf("%d slots are read", n)
	}
}
