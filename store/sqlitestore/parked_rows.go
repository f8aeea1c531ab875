// The files parked*.go have the parked messages and dead letters of consumers.

package sqlitestore

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	"github.com/skald-go/skald/store"
	"github.com/skald-go/skald/store/sqlitestore/internal/sqlexec"
)

// keptRow is the part of a stored message that guards need.
type keptRow struct {
	place    int64
	key      sql.Null[[]byte]
	attempts int
	died     string // "" for a message that is not a dead letter
}

func (k *keptRow) dead() bool { return k.died != "" }

func findKept(ctx context.Context, x *sqlexec.Session, consumer string,
	id store.Identity) (k keptRow, there bool, err error) {
	err = x.Row(ctx, "FindParked", consumer, id.Source, id.ID).Scan(&k.place, &k.key, &k.attempts, &k.died)
	switch {
	case errors.Is(err, sql.ErrNoRows):
		return k, false, nil
	case err != nil:
		return k, false, fmt.Errorf("find message: %w", err)
	}
	return k, true, nil
}

// firstOf returns the place of the next message that blocks the key, after the place previous. It returns 0
// if no such message blocks the key.
func firstOf(ctx context.Context, x *sqlexec.Session, consumer string, key []byte,
	previous int64) (place int64, err error) {
	if key == nil {
		return 0, nil
	}
	err = x.Row(ctx, "FirstOfKey", consumer, key, previous).Scan(&place)
	if err != nil && !errors.Is(err, sql.ErrNoRows) {
		return 0, fmt.Errorf("find the first message of a key: %w", err)
	}
	return place, nil
}

// change runs a statement on one message. It returns store.ErrLost if the message does not exist. If attempts
// is not nil, the message must be parked with that number of attempts.
func change(ctx context.Context, x *sqlexec.Session, name, consumer string, id store.Identity, attempts *int,
	more ...any) error {
	k, there, err := findKept(ctx, x, consumer, id)
	if err != nil {
		return err
	}
	if !there || attempts != nil && (k.dead() || k.attempts != *attempts) {
		return fmt.Errorf("%s has changed since it was read: %w", id.ID, store.ErrLost)
	}
	switch n, err := x.Count(ctx, name, append([]any{consumer, id.Source, id.ID}, more...)...); {
	case err != nil:
		return fmt.Errorf("change message: %w", err)
	case n == 0:
		return fmt.Errorf("the external call or the place of %s has changed since it was read: %w", id.ID, store.ErrLost)
	}
	return settleKey(ctx, x, consumer, sqlexec.Blob(k.key))
}

// settleKey makes the first message of a key due, and makes the others wait.
func settleKey(ctx context.Context, x *sqlexec.Session, consumer string, key []byte) error {
	first, err := firstOf(ctx, x, consumer, key, 0)
	if err != nil || first == 0 {
		return err
	}
	if _, err := x.Exec(ctx, "OthersWait", consumer, key, first); err != nil {
		return fmt.Errorf("make later messages of a key wait: %w", err)
	}
	if _, err := x.Exec(ctx, "FirstIsDue", first); err != nil {
		return fmt.Errorf("make the next message of a key due: %w", err)
	}
	return nil
}

// unblockKey makes a dead letter stop blocking its key if its step is barred, because the message has no
// effect then.
func unblockKey(ctx context.Context, x *sqlexec.Session, k *store.Park) error {
	s := k.Step
	switch n, err := x.Count(ctx, "LetGo", k.Consumer, k.Source, k.ID, s.Saga, s.Name, s.Occurrence); {
	case err != nil:
		return fmt.Errorf("unblock the key of a dead letter whose step is barred: %w", err)
	case n == 0:
		return nil
	}
	return settleKey(ctx, x, k.Consumer, k.Message.Key)
}
