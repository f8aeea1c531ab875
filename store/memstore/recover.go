package memstore

import (
	"context"
	"crypto/rand"
	"fmt"

	"github.com/skald-go/skald/store"
)

// notMoved compares what the shards, and a relay, know with what is here. What it finds stays until Recover.
func (d *database) notMoved(knew []store.Shard) error {
	if d.moved == "" {
		d.moved = d.looked(knew)
	}
	if d.moved != "" {
		return &store.MovedError{Saw: d.moved}
	}
	return nil
}

func (d *database) looked(knew []store.Shard) string {
	for i := range d.shards {
		l := &d.shards[i].Shard
		if tick := d.missing(l.Cursor); tick != "" {
			return fmt.Sprintf("shard %d has come to snapshot %s, which is not there", l.ID, tick)
		}
		for _, k := range knew {
			switch {
			case k.ID != l.ID:
			case l.Epoch < k.Epoch:
				return fmt.Sprintf("shard %d is at epoch %d, a relay held it at epoch %d", l.ID,
					l.Epoch, k.Epoch)
			case l.Epoch == k.Epoch && l.Token == k.Token && d.missing(k.Cursor) != "":
				return fmt.Sprintf("snapshot %s, to which a relay had come in shard %d, is not there",
					d.missing(k.Cursor), l.ID)
			}
		}
	}
	return ""
}

// missing is a tick of c that is not there.
func (d *database) missing(c store.Cursor) string {
	for _, tick := range []string{c.Tip, c.Base} {
		if _, err := d.commitOf(tick); err != nil {
			return tick
		}
	}
	return ""
}

// Recover starts all shards at the oldest row that is kept.
func (s *Store) Recover(ctx context.Context, note *store.Audit) (done store.Recovered, err error) {
	err = s.enter(ctx, func() error {
		d := s.db
		if d.notMoved(nil) == nil {
			return nil
		}
		done.Moved = d.moved
		if note == nil {
			return nil
		}
		done.Shards, done.Again = len(d.shards), int64(len(d.rows))
		for i := range d.shards {
			l := &d.shards[i]
			l.owner, l.sessionID, l.Token, l.Cursor = "", "", rand.Text(), store.Cursor{}
			l.Epoch++
		}
		clear(d.sessions)
		d.moved = ""
		d.note(*note)
		s.wake()
		return nil
	})
	return done, err
}
