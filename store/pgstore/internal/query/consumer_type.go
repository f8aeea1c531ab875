package query

import (
	"context"
	"time"

	"github.com/skald-go/skald/store"
	"github.com/skald-go/skald/store/pgstore/internal/sqlexec"
)

// heartbeat returns the calls that write a heartbeat with the types that a process handles. They also read
// the types that all processes of the consumer recorded before.
func (c *Consumers) heartbeat(consumer string, b store.Heartbeat, out *store.SyncResult) []sqlexec.Call {
	read := c.pg.Call("Types", sqlexec.Name(consumer))
	read.Scan = func(row sqlexec.Scanner) error {
		var k store.Kind
		err := row.Scan(&k.Topic, &k.Type)
		out.Kinds = append(out.Kinds, k)
		return err
	}
	calls := []sqlexec.Call{read}
	if b.Forget > 0 {
		calls = []sqlexec.Call{c.pg.Call("ForgetTypes", sqlexec.Name(consumer), b.Forget.Microseconds()),
			read}
	}
	if len(b.Own) > 0 {
		topics, types := make([]string, len(b.Own)), make([]string, len(b.Own))
		for i, k := range b.Own {
			topics[i], types[i] = sqlexec.StorableText(k.Topic), sqlexec.StorableText(k.Type)
		}
		calls = append(calls, c.pg.Call("NoteTypes", sqlexec.Name(consumer), topics, types),
			c.pg.Call("NoteConsumer", sqlexec.Name(consumer), b.Progress))
	}
	return calls
}

// Unhandled lists the types of messages that wait for another build, because no process so far handles them.
func (c *Consumers) Unhandled(ctx context.Context) (out []store.UnhandledKind, err error) {
	read := c.pg.Call("LeftTypes")
	read.Scan = func(row sqlexec.Scanner) error {
		var k store.UnhandledKind
		var heard int64 // in milliseconds
		err := row.Scan(&k.Consumer, &k.Topic, &k.Type, &k.Messages, &k.Host, &heard)
		sqlexec.Handles(&k.Consumer)
		if k.LastHeartbeat = -1; heard >= 0 {
			k.LastHeartbeat = time.Duration(heard) * time.Millisecond
		}
		out = append(out, k)
		return err
	}
	if err := c.pg.Short(ctx, "list types without a handler", read); err != nil {
		return nil, err
	}
	return out, nil
}
