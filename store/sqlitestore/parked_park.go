package sqlitestore

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"github.com/skald-go/skald"
	"github.com/skald-go/skald/internal/column"
	"github.com/skald-go/skald/store"
	"github.com/skald-go/skald/store/sqlitestore/internal/sqlexec"
)

const (
	maxWhy   = 4 << 10  // bytes of an error text
	maxStack = 16 << 10 // bytes of a stack
)

// park stores a message, or changes the stored message if p.Was is set.
func park(ctx context.Context, x *sqlexec.Session, p *store.Park) error {
	if p.Was != nil {
		at, err := column.EncodeCall(p.Call)
		if err != nil {
			return err
		}
		var claims any
		sessionID := ""
		if c := p.WasClaim; c != nil {
			claims, sessionID = c.Claims, c.Session
		}
		return change(ctx, x, "UpdateParked", p.Consumer, p.Identity, p.Was,
			append(stateArgs(&p.Parked), at, p.Claims, p.CrashCount, p.Session, column.CallKey(p.WasCall),
				claims, sessionID, column.EncodeFailures(p.Failures))...)
	}
	if p.Server != "" {
		return fmt.Errorf("park %s on another server: %w", p.ID, store.ErrLost)
	}
	var done store.Verdict
	err := find(ctx, x, p.Consumer, p.Identity, &done)
	if err == nil && !p.Marked {
		return fmt.Errorf("%s has a mark already: %w", p.ID, store.ErrLost)
	}
	if err != nil && !errors.Is(err, sql.ErrNoRows) {
		return fmt.Errorf("find mark: %w", err)
	}
	_, there, err := findKept(ctx, x, p.Consumer, p.Identity)
	switch {
	case err != nil:
		return err
	case there:
		return fmt.Errorf("%s is parked or dead already: %w", p.ID, store.ErrLost)
	case p.Instead != nil:
		return replaceKept(ctx, x, p)
	}
	return insertKept(ctx, x, p)
}

func insertKept(ctx context.Context, x *sqlexec.Session, p *store.Park) error {
	m := &p.Message
	args, err := keptArgs(p)
	if err != nil {
		return err
	}
	var rows, size, nth, running int64
	if m.Key != nil {
		err = x.Row(ctx, "RoomOfKey", p.Consumer, m.Key).Scan(&rows, &size, &nth, &running)
		if err != nil && !errors.Is(err, sql.ErrNoRows) {
			return fmt.Errorf("measure key: %w", err)
		}
	}
	if p.MostRows > 0 && rows >= p.MostRows || p.MostBytes > 0 && size >= p.MostBytes {
		return fmt.Errorf("the key of %s is full: %w", p.ID, store.ErrLost)
	}
	at, err := column.EncodeCall(p.Call)
	if err != nil {
		return err
	}
	waiting := rows > 0 && (p.Dead == nil || p.Dead.BlocksKey)
	if _, err := x.Exec(ctx, "InsertParked", append(args, waiting, nth+1, running+keptSize(m), at, p.Claims,
		p.CrashCount, p.Session, column.EncodeFailures(p.Failures))...); err != nil {
		return fmt.Errorf("park message: %w", err)
	}
	return nil
}

// replaceKept replaces the message p.Instead by another message of the same key.
func replaceKept(ctx context.Context, x *sqlexec.Session, p *store.Park) error {
	args, err := keptArgs(p)
	if err != nil {
		return err
	}
	at, err := column.EncodeCall(p.Call)
	if err != nil {
		return err
	}
	_, there, err := findKept(ctx, x, p.Consumer, *p.Instead)
	switch {
	case err != nil:
		return err
	case !there:
		return fmt.Errorf("%s is neither parked nor dead: %w", p.Instead.ID, store.ErrLost)
	}
	if err := stepBack(ctx, x, p.Consumer, *p.Instead); err != nil {
		return err
	}
	switch n, err := x.Count(ctx, "ReplaceParked", append(args, p.Instead.Source, p.Instead.ID, at,
		column.EncodeFailures(p.Failures))...); {
	case err != nil:
		return fmt.Errorf("replace message: %w", err)
	case n == 0:
		return fmt.Errorf("%s has an external call: %w", p.Instead.ID, store.ErrLost)
	}
	return settleKey(ctx, x, p.Consumer, p.Message.Key)
}

func keptSize(m *skald.Message) int64 { return int64(len(m.Key) + len(m.Data)) }

// keptArgs returns the values of the columns of a message, except those of its place in the key.
func keptArgs(p *store.Park) ([]any, error) {
	m := &p.Message
	env, err := column.Envelope(m, m.Key)
	if err != nil {
		return nil, err
	}
	args := append([]any{p.Consumer, p.Source, p.ID}, stateArgs(&p.Parked)...)
	return append(args, sqlexec.Bytes(m.Key), m.Topic, m.Type, sqlexec.Bytes(m.Data), env, keptSize(m),
		p.Partition, p.Position,
		p.Fault), nil
}

// stateArgs returns the values of the columns that an attempt changes, beginning with attempts.
func stateArgs(p *store.Parked) []any {
	d, dead := store.Death{BlocksKey: true}, any(nil)
	if p.Dead != nil {
		d = *p.Dead
		dead = d.At.UTC().Format(time.RFC3339Nano)
	}
	return []any{p.Attempts, sqlexec.Milliseconds(p.Due), d.BlocksKey, sqlexec.Moment(p.First.At),
		column.Clip(p.First.Why, maxWhy), p.First.Host,
		sqlexec.Moment(p.Last.At), column.Clip(p.Last.Why, maxWhy), p.Last.Host, dead, d.Kind, d.Fingerprint,
		column.Clip(d.Stack, maxStack), d.Version}
}
