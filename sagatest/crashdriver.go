package sagatest

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/skald-go/skald"
	"github.com/skald-go/skald/store"
)

// CrashDriver makes each call of d an I/O of this life of p. A crash rolls back what is open, by d's Kill method if
// it has one, as a Session of memstore has.
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
	err = c.p.io(call{act: "Begin", effect: true, note: func() string { return markNote(in.Marks) }}, func() error {
		inner, err := c.d.Begin(ctx, in)
		if err != nil {
			return err
		}
		crash := &crashUnit[TTx]{p: c.p, d: c.d, u: inner}
		c.p.opened(crash, crash.lose)
		u = crash
		return nil
	})
	if err != nil && u != nil { // "where Begin fails nothing is left open"
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
	return ms[0].Consumer + " takes " + short(ms[0].ID)
}

// short is the end of an id, which is what tells it from others.
func short(id string) string { return id[max(0, len(id)-4):] }

func (c *crashDriver[TTx]) Write(ctx context.Context, tx TTx, es ...store.Effect) error {
	return c.p.io(call{act: "Write", effect: true, note: func() string { return effectNote(es) }}, func() error {
		return c.d.Write(ctx, tx, es...)
	})
}

func effectNote(es []store.Effect) (out string) {
	for _, e := range es {
		if e.Mark != nil {
			out += fmt.Sprintf(" mark %s %v", short(e.Mark.ID), e.Mark.As)
		}
		if e.Quarantine != nil {
			out += fmt.Sprintf(" %s in quarantine: %v", short(e.Quarantine.ID), e.Quarantine.Why)
		}
		if e.Admitted != nil {
			out += fmt.Sprintf(" %s from quarantine", short(e.Admitted.ID))
		}
		out += keepNote(e) + rowNote(e.Rows)
		if p := e.Lane; p != nil {
			out += fmt.Sprintf(" lane %d", p.Lane)
			if p.Cursor != nil {
				out += fmt.Sprintf(" at %d", p.Cursor.Seq)
			}
			if len(p.Aside)+len(p.Freed) > 0 {
				out += fmt.Sprintf(" aside %d freed %d", len(p.Aside), len(p.Freed))
			}
		}
	}
	return out
}

func keepNote(e store.Effect) (out string) {
	if k := e.Keep; k != nil {
		out += fmt.Sprintf(" park %s after %d", short(k.ID), k.Attempts)
		if k.Dead != nil {
			out += " dead: " + k.Dead.Kind
		}
	}
	if e.Rewind != nil {
		out += " rewind " + e.Rewind.Lane
	}
	if e.Release != nil {
		out += " release " + short(e.Release.ID)
	}
	if e.Free != nil {
		out += " free " + short(e.Free.ID)
	}
	return out
}

func rowNote(ms []skald.Message) (out string) {
	for i := range ms {
		out += " " + ms[i].Type + "/" + string(ms[i].Key) + "/" + short(ms[i].ID)
	}
	return out
}

func (c *crashDriver[TTx]) Apply(ctx context.Context, es ...store.Effect) (stood []bool, err error) {
	stood = make([]bool, len(es))
	all := es
	if c.p.next() == PartFirst && len(all) > 1 { // each effect stands for itself
		es = es[:len(es)/2]
	}
	err = c.p.io(call{act: "Apply", effect: true, parts: len(all), note: func() string { return effectNote(all) }}, func() (err error) {
		stood, err = c.d.Apply(ctx, es...)
		return err
	})
	return stood, err
}

func (c *crashDriver[TTx]) Seen(ctx context.Context, consumer string, ids []store.Identity) (out []store.Verdict, err error) {
	err = c.p.io(call{act: "Seen"}, func() (err error) {
		out, err = c.d.Seen(ctx, consumer, ids)
		return err
	})
	return out, err
}

func (c *crashDriver[TTx]) Enter(ctx context.Context, tx TTx, in store.Intake) (found store.Found, err error) {
	err = c.p.io(call{act: "Enter", effect: true, note: func() string { return markNote(in.Marks) }}, func() (err error) {
		found, err = c.d.Enter(ctx, tx, in)
		return err
	})
	return found, err
}

func (c *crashDriver[TTx]) Secret(ctx context.Context) (key []byte, err error) {
	err = c.p.io(call{act: "Secret"}, func() (err error) {
		key, err = c.d.Secret(ctx)
		return err
	})
	return key, err
}

func (c *crashDriver[TTx]) Quarantined(ctx context.Context, q store.Query) (out []store.Quarantined, err error) {
	err = c.p.io(call{act: "Quarantined"}, func() (err error) {
		out, err = c.d.Quarantined(ctx, q)
		c.p.had(len(out) > 0, " %d", len(out))
		return err
	})
	return out, err
}

func (c *crashDriver[TTx]) Admit(ctx context.Context, numbers []int64, by, reason string) (n int, err error) {
	err = c.p.io(call{act: "Admit", effect: true}, func() (err error) {
		n, err = c.d.Admit(ctx, numbers, by, reason)
		return err
	})
	return n, err
}

func (c *crashDriver[TTx]) Lease(ctx context.Context, ask store.Ask) (got store.Leased, err error) {
	err = c.p.io(call{act: "Lease", effect: true, note: func() string { return ask.Owner }}, func() (err error) {
		got, err = c.d.Lease(ctx, ask)
		c.p.had(true, " has %d of %d", len(got.Lanes), got.Share)
		return err
	})
	return got, err
}

func (c *crashDriver[TTx]) Tick(ctx context.Context, base string) (tip string, err error) {
	tip = base
	err = c.p.io(call{act: "Tick"}, func() (err error) {
		tip, err = c.d.Tick(ctx, base)
		c.p.had(tip != base, "")
		return err
	})
	return tip, err
}

func (c *crashDriver[TTx]) Pull(ctx context.Context, w store.Window, limit int) (page store.Page, err error) {
	err = c.p.io(call{act: "Pull"}, func() (err error) {
		page, err = c.d.Pull(ctx, w, limit)
		c.p.had(false, " %d rows after %d", len(page.Rows), w.After)
		return err
	})
	return page, err
}

func (c *crashDriver[TTx]) Held(ctx context.Context, lanes []int) (out []store.Held, err error) {
	err = c.p.io(call{act: "Held"}, func() (err error) {
		out, err = c.d.Held(ctx, lanes)
		return err
	})
	return out, err
}

func (c *crashDriver[TTx]) Retry(ctx context.Context, lanes []int, limit int) (out []store.Aside, err error) {
	err = c.p.io(call{act: "Retry"}, func() (err error) {
		out, err = c.d.Retry(ctx, lanes, limit)
		return err
	})
	return out, err
}

func (c *crashDriver[TTx]) Claim(ctx context.Context, consumer, life string, most store.Portion, lease time.Duration, not ...store.Kind) (out store.Claimed, err error) {
	err = c.p.io(call{act: "Claim", effect: true}, func() (err error) {
		out, err = c.d.Claim(ctx, consumer, life, most, lease, not...)
		c.p.had(len(out.Parked) > 0, " %d parked", len(out.Parked))
		return err
	})
	return out, err
}

func (c *crashDriver[TTx]) Kept(ctx context.Context, what store.Sought, limit int) (out []store.Parked, err error) {
	err = c.p.io(call{act: "Kept"}, func() (err error) {
		out, err = c.d.Kept(ctx, what, limit)
		return err
	})
	return out, err
}

func (c *crashDriver[TTx]) Keeping(ctx context.Context, consumer string) (n store.Keeping, err error) {
	err = c.p.io(call{act: "Keeping"}, func() (err error) {
		n, err = c.d.Keeping(ctx, consumer)
		return err
	})
	return n, err
}

func (c *crashDriver[TTx]) Own(ctx context.Context, what, owner string, ttl time.Duration) (mine bool, err error) {
	err = c.p.io(call{act: "Own", effect: true}, func() (err error) {
		mine, err = c.d.Own(ctx, what, owner, ttl)
		return err
	})
	return mine, err
}

func (c *crashDriver[TTx]) Keeps(ctx context.Context) (keep store.Retention, err error) {
	err = c.p.io(call{act: "Keeps"}, func() (err error) {
		keep, err = c.d.Keeps(ctx)
		return err
	})
	return keep, err
}

func (c *crashDriver[TTx]) Audited(ctx context.Context, run string, after int64, limit int) (out []store.Audit, err error) {
	err = c.p.io(call{act: "Audited"}, func() (err error) {
		out, err = c.d.Audited(ctx, run, after, limit)
		return err
	})
	return out, err
}

func (c *crashDriver[TTx]) AuditedLast(ctx context.Context, before int64, limit int) (out []store.Audit, err error) {
	err = c.p.io(call{act: "AuditedLast"}, func() (err error) {
		out, err = c.d.AuditedLast(ctx, before, limit)
		return err
	})
	return out, err
}

func (c *crashDriver[TTx]) Spots(ctx context.Context, consumer string) (out store.Spots, err error) {
	err = c.p.io(call{act: "Spots"}, func() (err error) {
		out, err = c.d.Spots(ctx, consumer)
		return err
	})
	return out, err
}

func (c *crashDriver[TTx]) Kinds(ctx context.Context, consumer string, own []store.Kind, forget time.Duration) (out []store.Kind, err error) {
	err = c.p.io(call{act: "Kinds", effect: len(own) > 0}, func() (err error) {
		out, err = c.d.Kinds(ctx, consumer, own, forget)
		return err
	})
	return out, err
}

func (c *crashDriver[TTx]) Occupy(ctx context.Context, consumer, life, note string, lanes []store.Spot) (out store.Spots, err error) {
	err = c.p.io(call{act: "Occupy", effect: true, note: func() string { return spotNote(lanes) }}, func() (err error) {
		out, err = c.d.Occupy(ctx, consumer, life, note, lanes)
		return err
	})
	return out, err
}

func (c *crashDriver[TTx]) Advance(ctx context.Context, consumer, server, note string, lanes []store.Spot) (out store.Spots, err error) {
	err = c.p.io(call{act: "Advance", effect: len(lanes) > 0, note: func() string { return spotNote(lanes) }}, func() (err error) {
		out, err = c.d.Advance(ctx, consumer, server, note, lanes)
		return err
	})
	return out, err
}

func spotNote(lanes []store.Spot) (out string) {
	for _, l := range lanes {
		out += fmt.Sprintf(" %s at %d", l.Lane, l.Position)
	}
	return out
}

func (c *crashDriver[TTx]) Maintain(ctx context.Context, keep store.Retention) (did store.Maintained, err error) {
	err = c.p.io(call{act: "Maintain", effect: true}, func() (err error) {
		did, err = c.d.Maintain(ctx, keep)
		return err
	})
	return did, err
}

func (c *crashDriver[TTx]) Reseat(ctx context.Context, note *store.Audit) (done store.Reseated, err error) {
	err = c.p.io(call{act: "Reseat", effect: note != nil}, func() (err error) {
		done, err = c.d.Reseat(ctx, note)
		return err
	})
	return done, err
}

func (c *crashDriver[TTx]) Backlog(ctx context.Context) (b store.Backlog, err error) {
	err = c.p.io(call{act: "Backlog"}, func() (err error) {
		b, err = c.d.Backlog(ctx)
		return err
	})
	return b, err
}

func (c *crashDriver[TTx]) Check(ctx context.Context, as store.Role) error {
	return c.p.io(call{act: "Check"}, func() error { return c.d.Check(ctx, as) })
}

// Outage: what was injected is one.
func (c *crashDriver[TTx]) Outage(err error) bool {
	return errors.Is(err, ErrCrashed) || errors.Is(err, ErrInjected) || c.d.Outage(err)
}

type crashUnit[TTx any] struct {
	p *Process
	d store.Driver[TTx]
	u store.Unit[TTx]
}

// lose is what becomes of an open transaction when its process dies.
func (c *crashUnit[TTx]) lose() { _, _ = c.u.Rollback(context.Background()) }

func (c *crashUnit[TTx]) Tx() TTx            { return c.u.Tx() }
func (c *crashUnit[TTx]) Found() store.Found { return c.u.Found() }

func (c *crashUnit[TTx]) Commit(ctx context.Context, es ...store.Effect) error {
	return c.p.io(call{act: "Commit", effect: true, note: func() string { return effectNote(es) }}, func() error {
		c.p.closed(c)
		return c.u.Commit(ctx, es...)
	})
}

// Rollback is two I/Os where it does something instead; they are asked of the driver as one, unless something
// happens between them.
func (c *crashUnit[TTx]) Rollback(ctx context.Context, instead ...store.Effect) (stood []bool, err error) {
	stood = make([]bool, len(instead))
	if c.p.dead {
		return stood, ErrCrashed
	}
	n := len(c.p.w.log) + 1
	between := c.p.w.plan.at(n + 1)
	split := len(instead) > 0 && (c.p.w.plan.at(n) != "" || between == CrashBefore || between == Pause)
	err = c.p.io(call{act: "Rollback"}, func() error {
		c.p.closed(c)
		if !split && len(instead) > 0 {
			return nil
		}
		_, err := c.u.Rollback(ctx)
		return err
	})
	if err != nil || len(instead) == 0 {
		return stood, err
	}
	err = c.p.io(call{act: "Rollback, instead", effect: true, note: func() string { return effectNote(instead) }}, func() (err error) {
		if split {
			stood, err = c.d.Apply(ctx, instead...)
		} else {
			stood, err = c.u.Rollback(ctx, instead...)
		}
		return err
	})
	return stood, err
}
