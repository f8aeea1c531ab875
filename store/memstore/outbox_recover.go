package memstore

import (
	"crypto/rand"
	"fmt"

	"github.com/skald-go/skald/store"
)

// NotMoved returns an error if the shards do not fit the database. It also returns an error if the stored
// shards contradict lastKnown, the shards that a relay had. It records the reason until Recover.
func (o *outboxTable) NotMoved(lastKnown []store.Shard) error {
	if o.moved == "" {
		o.moved = o.contradiction(lastKnown)
	}
	if o.moved != "" {
		return &store.MovedError{Observed: o.moved}
	}
	return nil
}

func (o *outboxTable) contradiction(owned []store.Shard) string {
	for i := range o.shards {
		l := &o.shards[i].Shard
		if tick := o.missingTick(l.Cursor); tick != "" {
			return fmt.Sprintf("shard %d is at snapshot %s, which does not exist", l.ID, tick)
		}
		for _, k := range owned {
			switch {
			case k.ID != l.ID:
			case l.Epoch < k.Epoch:
				return fmt.Sprintf("shard %d is at epoch %d, but a relay owned it at epoch %d", l.ID,
					l.Epoch, k.Epoch)
			case l.Epoch == k.Epoch && l.Token == k.Token && o.missingTick(k.Cursor) != "":
				return fmt.Sprintf("a relay was at snapshot %s in shard %d, which does not exist",
					o.missingTick(k.Cursor), l.ID)
			}
		}
	}
	return ""
}

// Recover resets all shards to the oldest stored row, if the database moved. If checkOnly is true, it only
// reports the move.
func (o *outboxTable) Recover(checkOnly bool) (done store.Recovered) {
	if o.NotMoved(nil) == nil {
		return done
	}
	done.Moved = o.moved
	if checkOnly {
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
