package query

import (
	"context"
	"sync/atomic"

	"github.com/skald-go/skald/store"
	"github.com/skald-go/skald/store/pgstore/internal/sqlexec"
)

// A place is the name of the database that was last looked at and found to be the one that its shards speak
// of. Who hands the name in is spared the look if the database is that one; it costs no more than reading the
// name.
type place struct{ name atomic.Pointer[string] }

func (p *place) known() string {
	if name := p.name.Load(); name != nil {
		return *name
	}
	return ""
}

// walk is the call that begins what a relay reads: it raises where the database is not the one that the
// shards speak of.
func (o *Outbox) walk() sqlexec.Call {
	walk := o.pg.Call("WalkHere", o.place.known())
	walk.Scan = func(row sqlexec.Scanner) error {
		var name, settings string
		err := row.Scan(&name, &settings)
		o.place.name.Store(&name)
		return err
	}
	return walk
}

// noteMoved compares what a relay knew with what is here. What it finds stays until the recover.
func (o *Outbox) noteMoved(ctx context.Context, knew []store.Shard) error {
	n := len(knew)
	ids, epochs := make([]int32, n), make([]int64, n)
	tokens, bases, tips := make([]string, n), make([]string, n), make([]string, n)
	for i, l := range knew {
		ids[i], epochs[i], tokens[i], bases[i], tips[i] = int32(l.ID), l.Epoch, l.Token, l.Cursor.Base,
			l.Cursor.Tip
	}
	return o.pg.Short(ctx, "compare shards", o.pg.Call("NoteMoved", ids, epochs, tokens, bases, tips))
}
