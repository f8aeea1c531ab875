package sqlitestore

import (
	"cmp"
	"context"
	"crypto/rand"
	"fmt"
	"slices"

	"github.com/skald-go/skald/store"
)

// shardRow is a shard and who has it; "": nobody.
type shardRow struct {
	store.Shard
	owner, sessionID string
}

// Lease takes, renews and gives back shards. A shard belongs to a live relay, so a renewal writes one row.
func (s *Store) Lease(ctx context.Context, ask store.Ask) (store.Leased, error) {
	var got store.Leased
	var err error
	if ask.Owner != "" {
		got, err = s.lease(ctx, ask)
	}
	if err == nil && ask.Look != nil {
		got.Tip, err = s.snapshot(ctx, *ask.Look)
	}
	return got, err
}

func (s *Store) lease(ctx context.Context, ask store.Ask) (got store.Leased, err error) {
	if len(ask.Knew) > 0 {
		if _, err := s.movedAway(ctx, ask.Knew); err != nil {
			return got, failed("compare shards", err)
		}
	}
	err = s.alone(ctx, func(ctx context.Context, x *session) (err error) {
		got, err = x.lease(ctx, ask)
		return err
	})
	if err != nil {
		return store.Leased{}, failed("lease", err)
	}
	return got, nil
}

func (x *session) lease(ctx context.Context, ask store.Ask) (got store.Leased, err error) {
	saw, err := x.moved(ctx, nil)
	if err != nil {
		return got, err
	}
	if saw != "" {
		return got, &store.MovedError{Saw: saw}
	}
	if _, err := x.exec(ctx, "ForgetRelays", ask.Owner); err != nil {
		return got, fmt.Errorf("forget relays: %w", err)
	}
	if ask.Leave {
		return x.leave(ctx, ask)
	}
	ttl := cmp.Or(ask.TTL, defaultTTL)
	if _, err := x.exec(ctx, "KeepRelay", ask.Owner, ask.Session, ttl.Milliseconds(),
		cmp.Or(ask.Wait, ttl).Milliseconds()); err != nil {
		return got, fmt.Errorf("keep relay: %w", err)
	}
	if err := x.row(ctx, "Waiting").Scan(&got.Waiting); err != nil {
		return got, fmt.Errorf("waiting relays: %w", err)
	}
	relays, err := x.relays(ctx)
	if err != nil {
		return got, err
	}
	shards, err := x.shards(ctx)
	if err != nil {
		return got, err
	}
	got.Sessions, got.Share = len(relays), share(len(shards), relays, ask.Owner)
	err = x.deal(ctx, ask, shards, relays, &got)
	return got, err
}

// deal renews, frees and takes.
func (x *session) deal(ctx context.Context, ask store.Ask, shards []shardRow, relays []string,
	got *store.Leased) error {
	for _, l := range shards {
		if l.owner != ask.Owner {
			continue
		}
		if slices.Contains(ask.Free, l.ID) {
			if _, err := x.exec(ctx, "FreeShard", l.ID, ask.Owner); err != nil {
				return fmt.Errorf("free shard: %w", err)
			}
			continue
		}
		if l.sessionID != ask.Session {
			if err := x.takeShard(ctx, ask, &l.Shard); err != nil {
				return err
			}
		}
		got.Shards = append(got.Shards, l.Shard)
	}
	for _, l := range shards {
		if len(got.Shards) >= got.Share {
			break
		}
		if slices.Contains(relays, l.owner) || slices.Contains(ask.Free, l.ID) {
			continue
		}
		if err := x.takeShard(ctx, ask, &l.Shard); err != nil {
			return err
		}
		got.Shards = append(got.Shards, l.Shard)
	}
	slices.SortFunc(got.Shards, func(a, b store.Shard) int { return a.ID - b.ID })
	return nil
}

func (x *session) takeShard(ctx context.Context, ask store.Ask, l *store.Shard) error {
	l.Token = rand.Text()
	if err := x.row(ctx, "TakeShard", l.ID, ask.Owner, ask.Session, l.Token).Scan(&l.Epoch); err != nil {
		return fmt.Errorf("take shard: %w", err)
	}
	return nil
}

// leave frees all that the owner's life holds and forgets it; a newer session stays.
func (x *session) leave(ctx context.Context, ask store.Ask) (got store.Leased, err error) {
	for _, name := range []string{"LeaveRelay", "LeaveShards"} {
		if _, err := x.exec(ctx, name, ask.Owner, ask.Session); err != nil {
			return got, fmt.Errorf("leave: %w", err)
		}
	}
	relays, err := x.relays(ctx)
	return store.Leased{Sessions: len(relays)}, err
}

// relays are the owners that live and may hold shards, sorted.
func (x *session) relays(ctx context.Context) (out []string, err error) {
	rows, err := x.rows(ctx, "Relays")
	if err != nil {
		return nil, fmt.Errorf("relays: %w", err)
	}
	return collect(rows, func(scan func(...any) error) (owner string, err error) {
		err = scan(&owner)
		return owner, err
	})
}

func (x *session) shards(ctx context.Context) ([]shardRow, error) {
	rows, err := x.rows(ctx, "Shards")
	if err != nil {
		return nil, fmt.Errorf("shards: %w", err)
	}
	return collect(rows, func(scan func(...any) error) (l shardRow, err error) {
		err = scan(&l.ID, &l.First, &l.Last, &l.Epoch, &l.Token, &l.Cursor.Base, &l.Cursor.Tip, &l.Cursor.Seq,
			&l.Incarnation, &l.owner, &l.sessionID)
		return l, err
	})
}

// share deals the shards out evenly: what is left over goes to the first owners by name.
func share(shards int, relays []string, owner string) int {
	rank := slices.Index(relays, owner)
	if rank < 0 {
		return 0 // it waits
	}
	n, rest := shards/len(relays), shards%len(relays)
	if rank < rest {
		n++
	}
	return n
}

// progress stores what a shard's owner reports, if it still is the owner.
func (x *session) progress(ctx context.Context, p *store.Progress) error {
	var base, tip, seq, incarnation any
	if c := p.Cursor; c != nil {
		base, tip, seq = c.Base, c.Tip, c.Seq
	}
	if p.Incarnation != nil {
		incarnation = *p.Incarnation
	}
	n, err := x.count(ctx, "KeepProgress", p.Shard, p.Epoch, p.Token, base, tip, seq, incarnation)
	if err != nil {
		return fmt.Errorf("keep progress: %w", err)
	}
	if n != 1 {
		return fmt.Errorf("shard %d is not held with epoch %d: %w", p.Shard, p.Epoch, store.ErrLost)
	}
	for i := range p.Deferred {
		if err := x.setAside(ctx, &p.Deferred[i]); err != nil {
			return err
		}
	}
	for _, seq := range p.Freed {
		if _, err := x.exec(ctx, "FinishDeferred", seq); err != nil {
			return fmt.Errorf("free row set aside: %w", err)
		}
	}
	return nil
}
