package sagatest

import (
	"context"
	"errors"
	"fmt"

	"github.com/skald-go/skald"
	"github.com/skald-go/skald/store"
)

// CrashDriver wraps d. Each call of d is an I/O of the current session of p. A crash rolls back open
// transactions. If d has a Kill method, as a Session of memstore has, a crash also calls it.
func CrashDriver[TTx any](p *Process, d store.Driver[TTx]) store.Driver[TTx] {
	if k, ok := d.(interface{ Kill() }); ok {
		p.opened(new(int), k.Kill)
	}
	return &crashDriver[TTx]{p: p, d: d}
}

type crashDriver[TTx any] struct {
	p *Process
	d store.Driver[TTx]
}

func (c *crashDriver[TTx]) Begin(ctx context.Context, in store.Intake) (u store.Unit[TTx], err error) {
	err = c.p.io(call{act: "Begin", effect: true, note: func() string { return markNote(in.Marks) }},
		func() error {
			inner, err := c.d.Begin(ctx, in)
			if err != nil {
				return err
			}
			crash := &crashUnit[TTx]{p: c.p, d: c.d, u: inner}
			c.p.opened(crash, crash.lose)
			u = crash
			return nil
		})
	if err != nil && u != nil { // after an error, Begin must leave no open transaction
		c.p.closed(u)
		u.(*crashUnit[TTx]).lose()
		u = nil
	}
	return u, err
}

func markNote(ms []store.Mark) string {
	if len(ms) == 0 {
		return ""
	}
	return ms[0].Consumer + " takes " + shortID(ms[0].ID)
}

// shortID returns the last characters of an id, which distinguish ids in a trace.
func shortID(id string) string { return id[max(0, len(id)-4):] }

func (c *crashDriver[TTx]) Write(ctx context.Context, tx TTx, es ...store.Effect) error {
	return c.p.io(call{act: "Write", effect: true, note: func() string { return effectNote(es) }},
		func() error {
			return c.d.Write(ctx, tx, es...)
		})
}

func effectNote(es []store.Effect) (out string) {
	for _, e := range es {
		if e.Mark != nil {
			out += fmt.Sprintf(" mark %s %v", shortID(e.Mark.ID), e.Mark.Outcome)
		}
		if e.Quarantine != nil {
			out += fmt.Sprintf(" %s in quarantine: %v", shortID(e.Quarantine.ID), e.Quarantine.Why)
		}
		if e.Admit != nil {
			out += fmt.Sprintf(" admit %d", e.Admit.Number)
		}
		if e.Admitted != nil {
			out += fmt.Sprintf(" %s from quarantine", shortID(e.Admitted.ID))
		}
		out += keepNote(e) + sagaNote(e.Saga) + rowNote(e.Rows)
		if len(e.Tracked) > 0 {
			out += fmt.Sprintf(" %d tracked", len(e.Tracked))
		}
		if len(e.Definitions) > 0 {
			out += fmt.Sprintf(" %d definitions", len(e.Definitions))
		}
		if p := e.Shard; p != nil {
			out += fmt.Sprintf(" shard %d", p.Shard)
			if p.Cursor != nil {
				out += fmt.Sprintf(" at %d", p.Cursor.Seq)
			}
			if len(p.Deferred)+len(p.Freed) > 0 {
				out += fmt.Sprintf(" aside %d freed %d", len(p.Deferred), len(p.Freed))
			}
		}
	}
	return out
}

func keepNote(e store.Effect) (out string) {
	if k := e.Park; k != nil {
		out += fmt.Sprintf(" park %s after %d", shortID(k.ID), k.Attempts)
		if k.Dead != nil {
			out += " dead: " + k.Dead.Kind
		}
	}
	if e.Rewind != nil {
		out += " rewind " + e.Rewind.Partition
	}
	if e.Requeue != nil {
		out += " release " + shortID(e.Requeue.ID)
	}
	if e.Finish != nil {
		out += " free " + shortID(e.Finish.ID)
	}
	return out
}

func rowNote(ms []skald.Message) (out string) {
	for i := range ms {
		out += " " + ms[i].Type + "/" + string(ms[i].Key) + "/" + shortID(ms[i].ID)
	}
	return out
}

func (c *crashDriver[TTx]) Apply(ctx context.Context, es ...store.Effect) (stored []bool, err error) {
	stored = make([]bool, len(es))
	err = c.p.io(call{act: "Apply", effect: true, note: func() string { return effectNote(es) }},
		func() (err error) {
			stored, err = c.d.Apply(ctx, es...)
			return err
		})
	return stored, err
}

func (c *crashDriver[TTx]) Seen(ctx context.Context, consumer string,
	ids []store.Identity) (out []store.Verdict, err error) {
	err = c.p.io(call{act: "Seen"}, func() (err error) {
		out, err = c.d.Seen(ctx, consumer, ids)
		return err
	})
	return out, err
}

func (c *crashDriver[TTx]) Enter(ctx context.Context, tx TTx,
	in store.Intake) (found store.Found, err error) {
	err = c.p.io(call{act: "Enter", effect: true, note: func() string { return markNote(in.Marks) }},
		func() (err error) {
			found, err = c.d.Enter(ctx, tx, in)
			return err
		})
	return found, err
}

func (c *crashDriver[TTx]) Database(ctx context.Context) (is store.Database, err error) {
	err = c.p.io(call{act: "Database"}, func() (err error) {
		is, err = c.d.Database(ctx)
		return err
	})
	return is, err
}

func (c *crashDriver[TTx]) Secret(ctx context.Context) (key []byte, err error) {
	err = c.p.io(call{act: "Secret"}, func() (err error) {
		key, err = c.d.Secret(ctx)
		return err
	})
	return key, err
}

func (c *crashDriver[TTx]) Lease(ctx context.Context, ask store.LeaseRequest) (got store.Leased, err error) {
	err = c.p.io(call{act: "Lease", effect: true, note: func() string { return ask.Owner }},
		func() (err error) {
			got, err = c.d.Lease(ctx, ask)
			c.p.addResult(true, " has %d of %d", len(got.Shards), got.Share)
			return err
		})
	return got, err
}

func (c *crashDriver[TTx]) Pull(ctx context.Context, w store.Window, limit int) (page store.Page, err error) {
	err = c.p.io(call{act: "Pull"}, func() (err error) {
		page, err = c.d.Pull(ctx, w, limit)
		c.p.addResult(false, " %d rows after %d", len(page.Rows), w.After)
		return err
	})
	return page, err
}

func (c *crashDriver[TTx]) Deferred(ctx context.Context,
	q store.DeferredQuery) (out store.Deferred, err error) {
	err = c.p.io(call{act: "Deferred"}, func() (err error) {
		out, err = c.d.Deferred(ctx, q)
		return err
	})
	return out, err
}

func (c *crashDriver[TTx]) Claim(ctx context.Context, w store.ClaimRequest) (out store.Claimed, err error) {
	err = c.p.io(call{act: "Claim", effect: true}, func() (err error) {
		out, err = c.d.Claim(ctx, w)
		if w.Sagas != nil {
			c.p.addResult(len(out.Sagas) > 0, " %d sagas", len(out.Sagas))
		} else {
			c.p.addResult(len(out.Parked) > 0, " %d parked", len(out.Parked))
		}
		return err
	})
	return out, err
}

func (c *crashDriver[TTx]) Reserve(ctx context.Context, r store.Reservation) (out store.Reserved, err error) {
	err = c.p.io(call{act: "Reserve", effect: true, note: func() string { return r.ID }}, func() (err error) {
		out, err = c.d.Reserve(ctx, r)
		return err
	})
	return out, err
}

func (c *crashDriver[TTx]) SyncConsumer(ctx context.Context, a store.SyncRequest) (out store.SyncResult,
	err error) {
	writes := len(a.Checkpoints) > 0 || a.Heartbeat != nil && len(a.Heartbeat.Own) > 0
	err = c.p.io(call{act: "SyncConsumer", effect: writes,
		note: func() string { return checkpointNote(a.Checkpoints) }}, func() (err error) {
		out, err = c.d.SyncConsumer(ctx, a)
		return err
	})
	return out, err
}

func checkpointNote(shards []store.Checkpoint) (out string) {
	for _, l := range shards {
		out += fmt.Sprintf(" %s at %d", l.Partition, l.Position)
	}
	return out
}

func (c *crashDriver[TTx]) Maintain(ctx context.Context, m store.Maintain) (did store.Maintained, err error) {
	err = c.p.io(call{act: "Maintain", effect: !m.DryRun}, func() (err error) {
		did, err = c.d.Maintain(ctx, m)
		return err
	})
	return did, err
}

func (c *crashDriver[TTx]) Recover(ctx context.Context, note *store.Audit) (done store.Recovered, err error) {
	err = c.p.io(call{act: "Recover", effect: note != nil}, func() (err error) {
		done, err = c.d.Recover(ctx, note)
		return err
	})
	return done, err
}

func (c *crashDriver[TTx]) List(ctx context.Context, l store.List) (out store.Listed, err error) {
	err = c.p.io(call{act: "List"}, func() (err error) {
		out, err = c.d.List(ctx, l)
		if n := len(out.Parked) + len(out.Quarantined); err == nil {
			c.p.addResult(n > 0, " %d", n)
		}
		return err
	})
	return out, err
}

func (c *crashDriver[TTx]) Audits(ctx context.Context, q store.AuditQuery) (out []store.Audit, err error) {
	err = c.p.io(call{act: "Audits"}, func() (err error) {
		out, err = c.d.Audits(ctx, q)
		return err
	})
	return out, err
}

func (c *crashDriver[TTx]) Status(ctx context.Context, q store.StatusQuery) (out store.Status, err error) {
	err = c.p.io(call{act: "Status"}, func() (err error) {
		out, err = c.d.Status(ctx, q)
		return err
	})
	return out, err
}

func (c *crashDriver[TTx]) Check(ctx context.Context, as store.Role) error {
	return c.p.io(call{act: "Check"}, func() error { return c.d.Check(ctx, as) })
}

func (c *crashDriver[TTx]) Rename(ctx context.Context, r store.Rename) (done store.Renamed, err error) {
	err = c.p.io(call{act: "Rename", effect: r.Audit != nil}, func() (err error) {
		done, err = c.d.Rename(ctx, r)
		return err
	})
	return done, err
}

func (c *crashDriver[TTx]) Examine(ctx context.Context, e store.Exam) (found []skald.Finding, err error) {
	err = c.p.io(call{act: "Examine"}, func() (err error) {
		found, err = c.d.Examine(ctx, e)
		return err
	})
	return found, err
}

// Probe is no I/O, because it changes nothing and its result changes no decision.
func (c *crashDriver[TTx]) Probe(ctx context.Context) error {
	if c.p.dead {
		return ErrCrashed
	}
	return c.d.Probe(ctx)
}

// Woken returns nil. An explored relay runs by Step, which polls.
func (c *crashDriver[TTx]) Woken() <-chan struct{} { return nil }

// Outage reports an injected error as an outage.
func (c *crashDriver[TTx]) Outage(err error) bool {
	return errors.Is(err, ErrCrashed) || errors.Is(err, ErrInjected) || c.d.Outage(err)
}

type crashUnit[TTx any] struct {
	p *Process
	d store.Driver[TTx]
	u store.Unit[TTx]
}

// lose ends an open transaction when its process dies.
func (c *crashUnit[TTx]) lose() { _, _ = c.u.Rollback(context.Background()) }

func (c *crashUnit[TTx]) Tx() TTx            { return c.u.Tx() }
func (c *crashUnit[TTx]) Found() store.Found { return c.u.Found() }

// Outage reports an injected error as an outage, regardless of the transaction.
func (c *crashUnit[TTx]) Outage(ctx context.Context, err error) bool {
	return errors.Is(err, ErrCrashed) || errors.Is(err, ErrInjected) || c.u.Outage(ctx, err)
}

func (c *crashUnit[TTx]) Return() { c.u.Return() }
func (c *crashUnit[TTx]) Drop()   { c.u.Drop() }

func (c *crashUnit[TTx]) Savepoint(ctx context.Context) bool { return c.u.Savepoint(ctx) }

func (c *crashUnit[TTx]) Undo(ctx context.Context) error {
	return c.p.io(call{act: "Undo"}, func() error { return c.u.Undo(ctx) })
}

// Usable is an I/O, so that a process can die between two functions that share a transaction.
func (c *crashUnit[TTx]) Usable(ctx context.Context) error {
	return c.p.io(call{act: "Usable"}, func() error { return c.u.Usable(ctx) })
}

func (c *crashUnit[TTx]) Commit(ctx context.Context, es ...store.Effect) error {
	return c.p.io(call{act: "Commit", effect: true, note: func() string { return effectNote(es) }},
		func() error {
			c.p.closed(c)
			return c.u.Commit(ctx, es...)
		})
}

// CommitThen is one I/O, because it is one round trip.
func (c *crashUnit[TTx]) CommitThen(ctx context.Context, next store.Intake,
	es ...store.Effect) (then store.Unit[TTx], err error) {
	err = c.p.io(call{act: "Commit", effect: true, note: func() string { return effectNote(es) }},
		func() error {
			c.p.closed(c)
			inner, err := c.u.CommitThen(ctx, next, es...)
			if err != nil || inner == nil {
				return err
			}
			crash := &crashUnit[TTx]{p: c.p, d: c.d, u: inner}
			c.p.opened(crash, crash.lose)
			then = crash
			return nil
		})
	if err != nil && then != nil {
		c.p.closed(then)
		then.(*crashUnit[TTx]).lose()
		then = nil
	}
	return then, err
}

// Rollback is two I/Os if effects has an entry: the rollback, and the write of the effects. It is one call
// of the driver, unless a fault happens between the two I/Os.
func (c *crashUnit[TTx]) Rollback(ctx context.Context, effects ...store.Effect) (stored []bool, err error) {
	stored = make([]bool, len(effects))
	if c.p.dead {
		return stored, ErrCrashed
	}
	n := len(c.p.w.log) + 1
	between := c.p.w.plan.at(n + 1)
	split := len(effects) > 0 && (c.p.w.plan.at(n) != "" || between == CrashBefore || between == Pause)
	err = c.p.io(call{act: "Rollback"}, func() error {
		c.p.closed(c)
		if !split && len(effects) > 0 {
			return nil
		}
		_, err := c.u.Rollback(ctx)
		return err
	})
	if err != nil || len(effects) == 0 {
		return stored, err
	}
	err = c.p.io(call{act: "Rollback, instead", effect: true,
		note: func() string { return effectNote(effects) }}, func() (err error) {
		if split {
			stored, err = c.d.Apply(ctx, effects...)
		} else {
			stored, err = c.u.Rollback(ctx, effects...)
		}
		return err
	})
	return stored, err
}
