package query

import (
	"cmp"
	"context"
	"encoding/json"

	"github.com/skald-go/skald/store"
	"github.com/skald-go/skald/store/pgstore/internal/sqlexec"
)

// HoldEntities returns the call that adds a saga to the queue of each entity. The transaction must already
// have locked the entities.
func (c *Sagas) HoldEntities(h store.EntityHold, first *bool) (sqlexec.Call, error) {
	es, err := entities(h.Entities)
	return c.pg.Call("HoldEntities", es, h.Holder, h.Saga.Name, h.Saga.Key).Into(first), cmp.Or(c.pg.Err, err)
}

// QueueState returns the calls that read whether holder is in a queue, and whether holder is at the front of
// all its queues.
func (c *Sagas) QueueState(holder string, queued, front *bool) ([]sqlexec.Call, error) {
	look := c.pg.Call("QueueState", holder).Into(queued, front)
	return []sqlexec.Call{c.pg.Call("LockHeldEntities", holder), look}, c.pg.Err
}

// FreeEntities returns the calls that remove a holder from all queues.
func (c *Sagas) FreeEntities(holder string) ([]sqlexec.Call, error) {
	return []sqlexec.Call{c.pg.Call("LockHeldEntities", holder), c.pg.Call("FreeEntities", holder)}, c.pg.Err
}

// EntityHolders returns the call that reads the first saga in the queue of each entity.
func (c *Sagas) EntityHolders(es []store.Lock) (list sqlexec.Call, out *[]store.Hold, err error) {
	text, err := entities(es)
	list, out = holds(c.pg.Call("EntityHolders", text))
	return list, out, cmp.Or(c.pg.Err, err)
}

// Holds lists the places of sagas in the queues of entities.
func (c *Sagas) Holds(ctx context.Context, q store.HoldQuery, limit int) ([]store.Hold, error) {
	var space string
	key := []byte{}
	if q.Entity != nil {
		space, key = sqlexec.Name(q.Entity.Space), sqlexec.Key(q.Entity.Key)
	}
	list, out := holds(c.pg.Call("ListHolds", sqlexec.StorableText(q.Holder), space, key, int32(limit)))
	if err := c.pg.Short(ctx, "list entities that sagas hold", list); err != nil {
		return nil, err
	}
	return *out, nil
}

func holds(list sqlexec.Call) (sqlexec.Call, *[]store.Hold) {
	out := new([]store.Hold)
	list.Scan = func(row sqlexec.Scanner) error {
		var h store.Hold
		var key sqlexec.Blob
		var since int64
		err := row.Scan(&h.Space, &key, &h.Holder, &h.Saga.Name, &h.Saga.Key, &since, &h.Before,
			&h.Behind)
		h.Key, h.Since = string(key), sqlexec.AtMicros(&since)
		*out = append(*out, h)
		return err
	}
	return list, out
}

// entities returns es as JSON, without duplicates. JSON, because some drivers of database/sql do not support
// arrays.
func entities(es []store.Lock) (string, error) {
	type entity struct {
		Space string `json:"space"`
		Key   string `json:"key"`
	}
	all, seen := make([]entity, 0, len(es)), map[entity]bool{}
	for _, l := range es {
		if e := (entity{sqlexec.Name(l.Space), string(sqlexec.Key(l.Key))}); !seen[e] {
			seen[e] = true
			all = append(all, e)
		}
	}
	text, err := json.Marshal(all)
	return string(text), err
}
