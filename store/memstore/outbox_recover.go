package memstore

import (
	"crypto/rand"
	"fmt"

	"github.com/skald-go/skald/store"
)

// NotMoved compares what the shards, and a relay, know with what is here. What it finds stays until Recover.
func (o *outboxTable) NotMoved(knew []store.Shard) error {
	if o.moved == "" {
		o.moved = o.looked(knew)
	}
	if o.moved != "" {
		return &store.MovedError{Saw: o.moved}
	}
	return nil
}

func (o *outboxTable) looked(knew []store.Shard) string {
	for i := range o.shards {
		l := &o.shards[i].Shard
		if tick := o.missing(l.Cursor); tick != "" {
			return fmt.Sprintf("shard %d has come to snapshot %s, which is not there", l.ID, tick)
		}
		for _, k := range knew {
			switch {
			case k.ID != l.ID:
			case l.Epoch < k.Epoch:
				return fmt.Sprintf("shard %d is at epoch %d, but a relay owned it at epoch %d", l.ID,
					l.Epoch, k.Epoch)
			case l.Epoch == k.Epoch && l.Token == k.Token && o.missing(k.Cursor) != "":
				return fmt.Sprintf("snapshot %s, to which a relay had come in shard %d, is not there",
					o.missing(k.Cursor), l.ID)
			}
		}
	}
	return ""
}

// Recover starts all shards at the oldest row that is kept, if the database was moved. Dry, it only tells.
func (o *outboxTable) Recover(dry bool) (done store.Recovered) {
	if o.NotMoved(nil) == nil {
		return done
	}
	done.Moved = o.moved
	if dry {
		return done
	}
	done.Shards, done.Again = len(o.shards), int64(len(o.rows))
	for i := range o.shards {
		l := &o.shards[i]
		l.owner, l.session, l.Token, l.Cursor = "", "", rand.Text(), store.Cursor{}
		l.Epoch++
	}
	clear(o.sessions)
	o.moved = ""
	return done
}
