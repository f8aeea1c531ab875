package storetest

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/skald-go/skald/store"
)

// A player plays operations on one side of a differential test and tells what came of them.
type player[TTx any] struct {
	testing.TB
	db    Database[TTx]
	d     store.Driver[TTx]
	ticks []string             // as they were asked for; the first is ""
	names map[string]int       // of ticks: how many rows were there
	rows  map[string]store.Row // by id, as far as they were read
	lanes map[int]store.Lane   // as they were last leased
	open  []TTx
}

func play[TTx any](t testing.TB, h Harness[TTx]) func(op) string {
	p := &player[TTx]{TB: t, db: h.Open(t), ticks: []string{""}, names: map[string]int{"": 0}, rows: map[string]store.Row{}, lanes: map[int]store.Lane{}}
	p.d = p.db.Driver(t)
	t.Cleanup(func() {
		for _, tx := range p.open {
			_ = p.db.Rollback(tx)
		}
	})
	return func(o op) string {
		answer := p.play(o)
		if err := p.look(); err != nil {
			return fmt.Sprintf("%s; then %v", answer, err)
		}
		return answer
	}
}

func (p *player[TTx]) play(o op) string {
	ctx := p.Context()
	switch o.Do {
	case "say", "open", "end":
		return p.own(ctx, o)
	case "unit":
		return p.unit(ctx, o)
	case "apply":
		stood, err := p.d.Apply(ctx, p.effects(o.Effects)...)
		return tell(err, stood)
	case "seen":
		return p.seen(ctx, o.Marks)
	case "lease":
		return p.lease(ctx, o)
	case "tick":
		tip, err := p.d.Tick(ctx, p.ticks[o.Base])
		p.ticks = append(p.ticks, tip)
		p.names[tip] = len(p.rows)
		return tell(err, tip == p.ticks[o.Base])
	case "pull":
		return p.pull(ctx, o)
	case "held":
		held, err := p.d.Held(ctx, o.Lanes)
		slices.SortFunc(held, func(a, b store.Held) int {
			return cmp.Or(strings.Compare(a.Topic, b.Topic), slices.Compare(a.Key, b.Key))
		})
		return tell(err, held)
	case "retry":
		return p.retry(ctx, o)
	}
	return tell(nil, p.db.Count(p))
}

func (p *player[TTx]) lease(ctx context.Context, o op) string {
	base := p.ticks[o.Base]
	if o.Look {
		o.Ask.Look = &base
	}
	got, err := p.d.Lease(ctx, o.Ask)
	if o.Look {
		p.ticks = append(p.ticks, got.Tip)
		p.names[got.Tip] = len(p.rows)
	}
	return tell(err, got.Share, got.Lives, got.Waiting, p.leased(got.Lanes), got.Tip == base)
}

// tell is an answer; of an error its kind.
func tell(err error, answers ...any) string {
	for _, kind := range []error{store.ErrLost, store.ErrBusy, store.ErrMoved, store.ErrLent} {
		if errors.Is(err, kind) {
			return kind.Error()
		}
	}
	if err != nil {
		return "error: " + err.Error()
	}
	return fmt.Sprintf("%+v", answers)
}

// own is a transaction of the caller's own, at once or left open for a while.
func (p *player[TTx]) own(ctx context.Context, o op) string {
	var tx TTx
	if o.Do == "end" {
		tx = p.open[o.Pick]
		p.open = slices.Delete(p.open, o.Pick, o.Pick+1)
	} else {
		tx = p.db.Begin(p)
	}
	if err := p.d.Write(ctx, tx, store.Effect{Rows: o.Rows}); err != nil {
		return tell(errors.Join(err, p.db.Rollback(tx)))
	}
	switch {
	case o.Do == "open":
		p.open = append(p.open, tx)
		return tell(nil)
	case o.Commit:
		return tell(p.db.Commit(tx))
	}
	return tell(p.db.Rollback(tx))
}

func (p *player[TTx]) unit(ctx context.Context, o op) string {
	u, err := p.d.Begin(ctx, store.Intake{Marks: o.Marks, Locks: o.Locks})
	if err != nil {
		return tell(err)
	}
	found := u.Found()
	if err := p.d.Write(ctx, u.Tx(), store.Effect{Rows: o.Rows}); err != nil {
		return tell(err)
	}
	es := p.effects(o.Effects)
	if o.Commit {
		err := u.Commit(ctx, es...)
		return tell(nil, found) + tell(err)
	}
	stood, err := u.Rollback(ctx, es...)
	return tell(err, found, len(stood), stood)
}

func (p *player[TTx]) effects(steps []step) (out []store.Effect) {
	for _, e := range steps {
		out = append(out, store.Effect{Mark: e.Mark, Locks: e.Locks, Rows: e.Rows, Lane: p.report(e.Lane)})
	}
	return out
}

func (p *player[TTx]) report(r *report) *store.Progress {
	if r == nil {
		return nil
	}
	out := &store.Progress{Lane: r.Lane, Epoch: p.lanes[r.Lane].Epoch, Token: p.lanes[r.Lane].Token, Incarnation: r.Inc}
	if r.Stale {
		out.Epoch--
	}
	if r.Cursor != nil {
		out.Cursor = &store.Cursor{Base: p.ticks[r.Base], Tip: p.ticks[r.Tip], Seq: r.Cursor.Seq}
	}
	named := map[string]bool{}
	for _, a := range r.Aside {
		row, known := p.rows[a.ID]
		if !known || named[a.ID] || laneNumber(row.Bucket) != r.Lane {
			continue // a relay sets aside what it has read, in its own lane, each once
		}
		named[a.ID] = true
		due := time.Duration(0)
		if a.Later && a.Attempts > 0 {
			due = time.Hour
		}
		out.Aside = append(out.Aside, store.Aside{Row: row, Attempts: a.Attempts, Why: a.Why, Due: due})
	}
	for _, id := range r.Freed {
		if row, known := p.rows[id]; known && !named[id] && laneNumber(row.Bucket) == r.Lane {
			out.Freed = append(out.Freed, row.Seq)
		}
	}
	return out
}

// laneNumber is the lane of a bucket when 1,024 are cut into 16.
func laneNumber(bucket int) int { return bucket / (store.Buckets / lanes) }

func (p *player[TTx]) seen(ctx context.Context, ms []store.Mark) string {
	var ids []store.Identity
	for _, m := range ms {
		ids = append(ids, m.Identity)
	}
	out, err := p.d.Seen(ctx, "stock", ids)
	return tell(err, out)
}

// leased tells of lanes what both sides share, and remembers them.
func (p *player[TTx]) leased(ls []store.Lane) (out []string) {
	slices.SortFunc(ls, func(a, b store.Lane) int { return a.ID - b.ID })
	for _, l := range ls {
		p.lanes[l.ID] = l
		out = append(out, fmt.Sprint(l.ID, l.First, l.Last, l.Epoch, p.names[l.Cursor.Base], p.names[l.Cursor.Tip], l.Cursor.Seq, l.Incarnation))
	}
	return out
}

func (p *player[TTx]) pull(ctx context.Context, o op) string {
	w := store.Window{Base: p.ticks[o.Base], Tip: p.ticks[o.Tip], After: p.rows[o.After].Seq, Buckets: o.Buckets}
	page, err := p.d.Pull(ctx, w, o.Limit)
	var out []string
	for _, r := range page.Rows {
		out = append(out, tellRow(r))
	}
	if len(page.Rows) == o.Limit {
		page.Done = false // whether more lies behind a full page need not be known yet
	}
	return tell(err, out, page.Done)
}

func tellRow(r store.Row) string {
	m := r.Message
	m.Sequence, m.Time = "", m.Time.UTC()
	return fmt.Sprintf("%d %+v", r.Bucket, m)
}

func (p *player[TTx]) retry(ctx context.Context, o op) string {
	got, err := p.d.Retry(ctx, o.Lanes, o.Limit)
	var out []string
	for _, a := range got {
		out = append(out, fmt.Sprint(tellRow(a.Row), a.Attempts, a.Why, a.Due))
	}
	return tell(err, out)
}

// look reads what is visible now, so that rows are known by their ids.
func (p *player[TTx]) look() error {
	tip, err := p.d.Tick(p.Context(), "")
	if err != nil || tip == "" {
		return err
	}
	page, err := p.d.Pull(p.Context(), store.Window{Tip: tip}, 1<<20)
	for _, r := range page.Rows {
		p.rows[r.ID] = r
	}
	return err
}
