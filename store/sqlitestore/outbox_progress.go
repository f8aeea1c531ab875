package sqlitestore

import (
	"context"
	"fmt"

	"github.com/skald-go/skald/store"
	"github.com/skald-go/skald/store/sqlitestore/internal/sqlexec"
)

// progress stores the progress of a shard. It fails if the relay no longer owns the shard.
func progress(ctx context.Context, x *sqlexec.Session, p *store.Progress) error {
	var base, tip, seq, incarnation any
	if c := p.Cursor; c != nil {
		base, tip, seq = c.Base, c.Tip, c.Seq
	}
	if p.Incarnation != nil {
		incarnation = *p.Incarnation
	}
	n, err := x.Count(ctx, "KeepProgress", p.Shard, p.Epoch, p.Token, base, tip, seq, incarnation)
	if err != nil {
		return fmt.Errorf("keep progress: %w", err)
	}
	if n != 1 {
		return fmt.Errorf("shard %d is not owned with epoch %d: %w", p.Shard, p.Epoch, store.ErrLost)
	}
	for i := range p.Deferred {
		if err := setAside(ctx, x, &p.Deferred[i]); err != nil {
			return err
		}
	}
	for _, seq := range p.Freed {
		if _, err := x.Exec(ctx, "FinishDeferred", seq); err != nil {
			return fmt.Errorf("delete deferred row: %w", err)
		}
	}
	return nil
}
