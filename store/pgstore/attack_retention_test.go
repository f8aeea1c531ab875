package pgstore

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/skald-go/skald/store"
)

// retentions runs the retention, statement by statement, against a writer that began long ago, so that its
// row goes into the slot to be emptied. The row is never lost, and today's writer never waits.
func retentions(t *testing.T, b *bed, spoil func(*Store)) error {
	ctx := context.Background()
	plain, slot := b.store(t), b.oldSlot(t)
	s, r := b.stepStore(t, "retention "+b.name(), "LOCK TABLE", "'retention'", "TRUNCATE")
	if spoil != nil {
		spoil(s)
	}
	pool := b.actorPool(t, "writer "+b.name())
	f := newFollower(plain)
	emptied := 0
	for i, merge := range merges(3, 4) {
		b.exec(t, insertOld, slot)
		if err := f.turn(ctx, 10); err != nil {
			return err
		}
		cover(t, plain, f.base)
		today := 0
		writer := act("writer "+b.name(), func(a *actor) error {
			return pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) error {
				a.rival = "retention " + b.name()
				a.gate()
				if _, err := tx.Exec(ctx,
					b.q(`INSERT INTO {skald_outbox} (topic, key, type, data) VALUES ('orders', 'b', 't', '1')`)); err != nil {
					return err
				}
				today = a.blocked
				a.gate()
				_, err := tx.Exec(ctx,
					b.q(`INSERT INTO {skald_outbox} (topic, key, type, data, slot) VALUES ('orders', $2, 't', '1', $1)`), slot, fmt.Sprint("late", i))
				a.gate()
				return err
			})
		})
		var done store.Maintained
		keeper := act("retention "+b.name(), func(a *actor) (err error) {
			r.actor = a
			done, err = s.Maintain(ctx, store.Maintain{})
			return err
		})
		if err := play(ctx, b.pool, merge, writer, keeper, nil); err != nil {
			return fmt.Errorf("%s: %w", written(merge), err)
		}
		if today > 0 {
			return fmt.Errorf("%s: the writer of today waited for retention", written(merge))
		}
		if done.Rows != 0 {
			emptied++
		}
		if n := one[int](t, b, `SELECT count(*) FROM {skald_outbox} WHERE key = $1`,
			fmt.Sprint("late", i)); n != 1 {
			return fmt.Errorf("%s: a row that was committed is lost; maintain did %+v", written(merge), done)
		}
		n := len(f.rows)
		if err := f.turn(ctx, 10); err != nil {
			return err
		}
		if len(f.rows) != n+2 {
			return fmt.Errorf("%s: %d of 2 rows arrived", written(merge), len(f.rows)-n)
		}
		b.exec(t, `DELETE FROM {skald_outbox}`)
	}
	if emptied == 0 {
		return errors.New("no slot was ever emptied")
	}
	return nil
}

// TestEveryMergeOfRetentionAndWriter runs the retention against a late writer in every order of their
// statements.
// Interleaving 3.
func TestEveryMergeOfRetentionAndWriter(t *testing.T) {
	t.Parallel()
	if err := retentions(t, newBed(t), nil); err != nil {
		t.Error(err)
	}
}
