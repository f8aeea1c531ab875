package query

import (
	"context"
	"sync/atomic"

	"github.com/skald-go/skald/store"
	"github.com/skald-go/skald/store/pgstore/internal/sqlexec"
)

// This file detects that a relay works on a copy or a restored backup of its database.

// place caches the identity of the database after a check that the shards belong to it. Later calls pass this
// identity, and the server skips the expensive check while it has the same identity.
type place struct{ name atomic.Pointer[string] }

func (p *place) known() string {
	if name := p.name.Load(); name != nil {
		return *name
	}
	return ""
}

// walk returns the first call of each read of a relay. It sets up the planner, and fails if the shards belong
// to another database.
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

// noteMoved compares the shards that a relay had with the stored shards. If the stored ones are older, it
// records that the database needs Recover.
func (o *Outbox) noteMoved(ctx context.Context, owned []store.Shard) error {
	n := len(owned)
	ids, epochs := make([]int32, n), make([]int64, n)
	tokens, bases, tips := make([]string, n), make([]string, n), make([]string, n)
	for i, l := range owned {
		ids[i], epochs[i], tokens[i], bases[i], tips[i] = int32(l.ID), l.Epoch, l.Token, l.Cursor.Base,
			l.Cursor.Tip
	}
	return o.pg.Short(ctx, "compare shards", o.pg.Call("NoteMoved", ids, epochs, tokens, bases, tips))
}
