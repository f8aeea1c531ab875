package sqlitestore

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/skald-go/skald/store"
	"github.com/skald-go/skald/store/sqlitestore/internal/sqlexec"
)

// backlog reads the backlog from the public views.
func (s *Store) backlog(ctx context.Context) (store.Backlog, error) {
	p, err := s.run.Prepare(ctx)
	if err != nil {
		return store.Backlog{}, sqlexec.Failed("read backlog", err)
	}
	var b store.Backlog
	var oldest, retained int64 // in milliseconds
	err = p.Row(ctx, "Backlog").Scan(&b.Source, &b.Pending, &oldest, &b.Deferred,
		&retained, &b.Free)
	if err != nil {
		return store.Backlog{}, sqlexec.Failed("read backlog", err)
	}
	if b.PerConsumer, err = keptFor(ctx, p); err != nil {
		return store.Backlog{}, sqlexec.Failed("read backlog", err)
	}
	if err := progressOf(ctx, p, &b); err != nil {
		return store.Backlog{}, sqlexec.Failed("read backlog", err)
	}
	if b.Reserved, err = reserved(ctx, p); err != nil {
		return store.Backlog{}, sqlexec.Failed("read backlog", err)
	}
	b.Source = strings.ReplaceAll(strings.Trim(b.Source, "'"), "''", "'") // the source is stored as a literal
	b.Oldest, b.Retained = sqlexec.Past(oldest), sqlexec.Past(retained)
	return b, nil
}

// progressOf adds the last heartbeat and progress of each consumer and relay to b.
func progressOf(ctx context.Context, p *sqlexec.Prepared, b *store.Backlog) (err error) {
	rows, err := p.Rows(ctx, "Progress")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, rows.Close()) }()
	for rows.Next() {
		var kind, name, topics string
		var shards int
		var heard, progress, away int64 // in milliseconds
		if err := rows.Scan(&kind, &name, &heard, &progress, &topics, &shards, &away); err != nil {
			return err
		}
		moved := time.Duration(progress) * time.Millisecond
		if kind == "relay" {
			b.Relays = append(b.Relays, store.RelayProgress{Owner: name, Progress: moved, Shards: shards,
				BrokerAway: time.Duration(away) * time.Millisecond})
			continue
		}
		c := store.Consumer{Name: name, LastHeartbeat: time.Duration(heard) * time.Millisecond,
			Progress: moved}
		if err := json.Unmarshal([]byte(topics), &c.Topics); err != nil {
			return fmt.Errorf("topics of consumer %s: %w", name, err)
		}
		b.Consumers = append(b.Consumers, c)
	}
	return rows.Err()
}

// keptFor counts the parked, dead and quarantined messages of each consumer.
func keptFor(ctx context.Context, p *sqlexec.Prepared) (out []store.ConsumerBacklog, err error) {
	rows, err := p.Rows(ctx, "KeptFor")
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, rows.Close()) }()
	for rows.Next() {
		var k store.ConsumerBacklog
		var parked, apart, called int64 // in milliseconds
		if err := rows.Scan(&k.Consumer, &k.Parked, &k.Dead, &k.Bytes, &k.DeadBytes, &parked, &k.Conflicts,
			&k.TooOld, &k.QuarantineBytes, &apart, &k.Calls, &called); err != nil {
			return nil, err
		}
		k.Oldest, k.QuarantineAge = sqlexec.Past(parked), sqlexec.Past(apart)
		k.OldestCall = sqlexec.Past(called)
		out = append(out, k)
	}
	return out, rows.Err()
}

// reserved counts the reservations of each consumer.
func reserved(ctx context.Context, p *sqlexec.Prepared) (out []store.ReservedCounts, err error) {
	rows, err := p.Rows(ctx, "CountReservations")
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, rows.Close()) }()
	for rows.Next() {
		var r store.ReservedCounts
		if err := rows.Scan(&r.Consumer, &r.Held, &r.Expired); err != nil {
			return nil, err
		}
		out = append(out, r)
	}
	return out, rows.Err()
}
