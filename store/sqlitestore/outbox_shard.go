package sqlitestore

import (
	"cmp"
	"context"
	"crypto/rand"
	"fmt"
	"slices"
	"time"

	"github.com/skald-go/skald/store"
	"github.com/skald-go/skald/store/sqlitestore/internal/sqlexec"
)

// defaultTTL is the default time after its last heartbeat during which a relay keeps its shards.
const defaultTTL = 3 * time.Second

// shardRow is a shard with its owner. The owner is "" for a free shard.
type shardRow struct {
	store.Shard
	owner, sessionID string
}

// Lease takes, renews and releases shards for a relay.
func (o *outboxTable) Lease(ctx context.Context, ask store.LeaseRequest) (store.Leased, error) {
	var got store.Leased
	var err error
	if ask.Owner != "" {
		got, err = o.lease(ctx, ask)
	}
	if err == nil && ask.SnapshotBase != nil {
		got.Tip, err = o.snapshot(ctx, *ask.SnapshotBase)
	}
	return got, err
}

func (o *outboxTable) lease(ctx context.Context, ask store.LeaseRequest) (got store.Leased, err error) {
	if len(ask.LastKnown) > 0 {
		if _, err := o.movedAway(ctx, ask.LastKnown); err != nil {
			return got, sqlexec.Failed("compare shards", err)
		}
	}
	err = o.run.Alone(ctx, func(ctx context.Context, x *sqlexec.Session) (err error) {
		got, err = lease(ctx, x, ask)
		return err
	})
	if err != nil {
		return store.Leased{}, sqlexec.Failed("lease", err)
	}
	return got, nil
}

func lease(ctx context.Context, x *sqlexec.Session, ask store.LeaseRequest) (got store.Leased, err error) {
	saw, err := contradiction(ctx, x, nil)
	if err != nil {
		return got, err
	}
	if saw != "" {
		return got, &store.MovedError{Observed: saw}
	}
	if _, err := x.Exec(ctx, "ForgetRelays", ask.Owner); err != nil {
		return got, fmt.Errorf("delete old relays: %w", err)
	}
	if ask.Leave {
		return leave(ctx, x, ask)
	}
	ttl := cmp.Or(ask.TTL, defaultTTL)
	if _, err := x.Exec(ctx, "KeepRelay", ask.Owner, ask.Session, sqlexec.Milliseconds(ttl),
		sqlexec.Milliseconds(cmp.Or(ask.Wait, ttl)), sqlexec.Milliseconds(ask.BrokerAway),
		ask.Yield); err != nil {
		return got, fmt.Errorf("keep relay: %w", err)
	}
	alive, working, err := relays(ctx, x)
	if err != nil {
		return got, err
	}
	shards, err := shards(ctx, x)
	if err != nil {
		return got, err
	}
	got.Sessions, got.Share = len(working), share(len(shards), working, ask.Owner)
	got.Waiting = len(alive) - len(working)
	err = deal(ctx, x, ask, shards, alive, &got)
	return got, err
}

// deal renews, releases and takes shards. It does not take a shard of another live relay before that relay
// releases it.
func deal(ctx context.Context, x *sqlexec.Session, ask store.LeaseRequest, shards []shardRow, alive []string,
	got *store.Leased) error {
	for _, l := range shards {
		if l.owner != ask.Owner {
			continue
		}
		if slices.Contains(ask.Release, l.ID) {
			if _, err := x.Exec(ctx, "FreeShard", l.ID, ask.Owner); err != nil {
				return fmt.Errorf("free shard: %w", err)
			}
			continue
		}
		if l.sessionID != ask.Session {
			if err := takeShard(ctx, x, ask, &l.Shard); err != nil {
				return err
			}
		}
		got.Shards = append(got.Shards, l.Shard)
	}
	for _, l := range shards {
		if len(got.Shards) >= got.Share {
			break
		}
		if slices.Contains(alive, l.owner) || slices.Contains(ask.Release, l.ID) {
			continue
		}
		if err := takeShard(ctx, x, ask, &l.Shard); err != nil {
			return err
		}
		got.Shards = append(got.Shards, l.Shard)
	}
	slices.SortFunc(got.Shards, func(a, b store.Shard) int { return a.ID - b.ID })
	return nil
}

func takeShard(ctx context.Context, x *sqlexec.Session, ask store.LeaseRequest, l *store.Shard) error {
	l.Token = rand.Text()
	if err := x.Row(ctx, "TakeShard", l.ID, ask.Owner, ask.Session, l.Token).Scan(&l.Epoch); err != nil {
		return fmt.Errorf("take shard: %w", err)
	}
	return nil
}

// leave releases all shards of a relay that stops, and deletes its row. It does nothing if the relay has a
// newer session.
func leave(ctx context.Context, x *sqlexec.Session, ask store.LeaseRequest) (got store.Leased, err error) {
	for _, name := range []string{"LeaveRelay", "LeaveShards"} {
		if _, err := x.Exec(ctx, name, ask.Owner, ask.Session); err != nil {
			return got, fmt.Errorf("leave: %w", err)
		}
	}
	_, working, err := relays(ctx, x)
	return store.Leased{Sessions: len(working)}, err
}

// relays returns the live relays, and those of them that may own shards. Both lists are sorted.
func relays(ctx context.Context, x *sqlexec.Session) (alive, working []string, err error) {
	rows, err := x.Rows(ctx, "Relays")
	if err != nil {
		return nil, nil, fmt.Errorf("relays: %w", err)
	}
	alive, err = sqlexec.Collect(rows, func(scan func(...any) error) (owner string, err error) {
		var works bool
		if err = scan(&owner, &works); works {
			working = append(working, owner)
		}
		return owner, err
	})
	return alive, working, err
}

func shards(ctx context.Context, x *sqlexec.Session) ([]shardRow, error) {
	rows, err := x.Rows(ctx, "Shards")
	if err != nil {
		return nil, fmt.Errorf("shards: %w", err)
	}
	return sqlexec.Collect(rows, func(scan func(...any) error) (l shardRow, err error) {
		err = scan(&l.ID, &l.First, &l.Last, &l.Epoch, &l.Token, &l.Cursor.Base, &l.Cursor.Tip, &l.Cursor.Seq,
			&l.Incarnation, &l.owner, &l.sessionID)
		return l, err
	})
}

// share returns the number of shards for owner. If the division leaves a remainder, the first relays by name
// get one more shard each.
func share(shards int, relays []string, owner string) int {
	rank := slices.Index(relays, owner)
	if rank < 0 {
		return 0 // owner is a standby
	}
	n, rest := shards/len(relays), shards%len(relays)
	if rank < rest {
		n++
	}
	return n
}
