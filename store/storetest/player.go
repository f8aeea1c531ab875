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

// player runs operations on one side of a differential test and returns their results as text.
type player[TTx any] struct {
	testing.TB
	db     Database[TTx]
	d      store.Driver[TTx]
	ticks  []string             // in the order of their requests; the first is ""
	names  map[string]int       // the number of rows at each tick
	rows   map[string]store.Row // rows that were read, by ID
	shards map[int]store.Shard  // as last leased
	open   []TTx
	in     inboxSide
}

func play[TTx any](t testing.TB, h Harness[TTx]) func(op) string {
	p := &player[TTx]{TB: t, db: h.Open(t), ticks: []string{""}, names: map[string]int{"": 0},
		rows: map[string]store.Row{}, shards: map[int]store.Shard{}, in: newInboxSide()}
	p.d = p.db.Driver(t)
	t.Cleanup(func() {
		for _, tx := range p.open {
			_ = p.db.Rollback(tx)
		}
	})
	return func(o op) string {
		if answer, ok := p.runInbox(o); ok {
			return answer
		}
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
		return p.runOwn(ctx, o)
	case "unit":
		return p.unit(ctx, o)
	case "apply":
		stored, err := p.d.Apply(ctx, p.effects(o.Effects)...)
		return render(err, stored)
	case "seen":
		return p.seen(ctx, o.Marks)
	case "lease":
		return p.lease(ctx, o)
	case "tick":
		tip, err := store.Snapshot(ctx, p.d, p.ticks[o.Base])
		p.ticks = append(p.ticks, tip)
		p.names[tip] = len(p.rows)
		return render(err, tip == p.ticks[o.Base])
	case "pull":
		return p.pull(ctx, o)
	case "held":
		held, err := store.DeferredKeys(ctx, p.d, o.Shards)
		slices.SortFunc(held, func(a, b store.DeferredKey) int {
			return cmp.Or(strings.Compare(a.Topic, b.Topic), slices.Compare(a.Key, b.Key))
		})
		return render(err, held)
	case "retry":
		return p.readDue(ctx, o)
	}
	return render(nil, p.db.Count(p))
}

func (p *player[TTx]) lease(ctx context.Context, o op) string {
	base := p.ticks[o.Base]
	if o.Look {
		o.Ask.SnapshotBase = &base
	}
	got, err := p.d.Lease(ctx, o.Ask)
	if o.Look {
		p.ticks = append(p.ticks, got.Tip)
		p.names[got.Tip] = len(p.rows)
	}
	return render(err, got.Share, got.Sessions, got.Waiting, p.leased(got.Shards), got.Tip == base)
}

// render returns a result as text. For an error, the text is the kind of the error.
func render(err error, answers ...any) string {
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

// runOwn runs a transaction of the caller, and commits it immediately or leaves it open for a while.
func (p *player[TTx]) runOwn(ctx context.Context, o op) string {
	var tx TTx
	if o.Do == "end" {
		tx = p.open[o.Pick]
		p.open = slices.Delete(p.open, o.Pick, o.Pick+1)
	} else {
		tx = p.db.Begin(p)
	}
	if err := p.d.Write(ctx, tx, store.Effect{Rows: o.Rows}); err != nil {
		return render(errors.Join(err, p.db.Rollback(tx)))
	}
	switch {
	case o.Do == "open":
		p.open = append(p.open, tx)
		return render(nil)
	case o.Commit:
		return render(p.db.Commit(tx))
	}
	return render(p.db.Rollback(tx))
}

func (p *player[TTx]) unit(ctx context.Context, o op) string {
	u, err := p.d.Begin(ctx, store.Intake{Marks: o.Marks, Locks: o.Locks})
	if err != nil {
		return render(err)
	}
	found := u.Found()
	found.Follows, found.Marks = false, sameLeft(found.Marks) // depends on the store
	if err := p.d.Write(ctx, u.Tx(), store.Effect{Rows: o.Rows}); err != nil {
		return render(err)
	}
	es := p.effects(o.Effects)
	if o.Commit {
		err := u.Commit(ctx, es...)
		return render(nil, found) + render(err)
	}
	stored, err := u.Rollback(ctx, es...)
	return render(err, found, len(stored), stored)
}

func (p *player[TTx]) effects(steps []step) (out []store.Effect) {
	for _, e := range steps {
		effect := store.Effect{Mark: e.Mark, Locks: e.Locks, Rows: e.Rows, Shard: p.report(e.Shard)}
		if e.Kept != nil {
			p.keepEffect(&effect, e.Kept, e.Step)
		} else {
			effect.Step = e.Step
		}
		if e.Answer != nil {
			effect.Answer = new(p.marked(*e.Answer))
			effect.Answer.Code, effect.Answer.Result, effect.Answer.Emitted = 7, "r\x00\xff", "said"
		}
		out = append(out, effect)
	}
	return out
}

func (p *player[TTx]) report(r *report) *store.Progress {
	if r == nil {
		return nil
	}
	out := &store.Progress{Shard: r.Shard, Epoch: p.shards[r.Shard].Epoch, Token: p.shards[r.Shard].Token,
		Incarnation: r.Inc}
	if r.Stale {
		out.Epoch--
	}
	if r.Cursor != nil {
		out.Cursor = &store.Cursor{Base: p.ticks[r.Base], Tip: p.ticks[r.Tip], Seq: r.Cursor.Seq}
	}
	named := map[string]bool{}
	for _, a := range r.Aside {
		row, known := p.rows[a.ID]
		if !known || named[a.ID] || shardNumber(row.Bucket) != r.Shard {
			continue // a relay defers only rows that it has read, in its own shard, each once
		}
		named[a.ID] = true
		due := time.Duration(0)
		if a.Later && a.Attempts > 0 {
			due = time.Hour
		}
		out.Deferred = append(out.Deferred,
			store.DeferredRow{Row: row, Attempts: a.Attempts, Why: a.Why, Due: due})
	}
	for _, id := range r.Freed {
		if row, known := p.rows[id]; known && !named[id] && shardNumber(row.Bucket) == r.Shard {
			out.Freed = append(out.Freed, row.Seq)
		}
	}
	return out
}

// shardNumber returns the shard of a bucket if 1,024 buckets are split into 16 shards.
func shardNumber(bucket int) int { return bucket / (store.Buckets / shards) }

func (p *player[TTx]) seen(ctx context.Context, ms []store.Mark) string {
	var ids []store.Identity
	for _, m := range ms {
		ids = append(ids, m.Identity)
	}
	out, err := p.d.Seen(ctx, "stock", ids)
	return render(err, sameLeft(out))
}

// sameLeft returns vs without the remaining time of Keep, because this time differs at each read.
func sameLeft(vs []store.Verdict) []store.Verdict {
	out := slices.Clone(vs)
	for i := range out {
		out[i].Left = 0
	}
	return out
}

// leased records shards, and returns the parts that both sides share.
func (p *player[TTx]) leased(ls []store.Shard) (out []string) {
	slices.SortFunc(ls, func(a, b store.Shard) int { return a.ID - b.ID })
	for _, l := range ls {
		p.shards[l.ID] = l
		out = append(out, fmt.Sprint(l.ID, l.First, l.Last, l.Epoch, p.names[l.Cursor.Base],
			p.names[l.Cursor.Tip], l.Cursor.Seq, l.Incarnation))
	}
	return out
}

func (p *player[TTx]) pull(ctx context.Context, o op) string {
	w := store.Window{Base: p.ticks[o.Base], Tip: p.ticks[o.Tip], After: p.rows[o.After].Seq,
		Buckets: o.Buckets}
	page, err := p.d.Pull(ctx, w, o.Limit)
	var out []string
	for _, r := range page.Rows {
		out = append(out, renderRow(r))
	}
	if len(page.Rows) == o.Limit {
		page.Done = false // after a full page a driver need not know whether the window has more
	}
	return render(err, out, page.Done)
}

func renderRow(r store.Row) string {
	m := r.Message
	m.Sequence, m.Time = "", m.Time.UTC()
	return fmt.Sprintf("%d %+v", r.Bucket, m)
}

func (p *player[TTx]) readDue(ctx context.Context, o op) string {
	got, err := store.DueRows(ctx, p.d, o.Shards, o.Limit)
	if len(got) == o.Limit { // the store's clock determines the order
		return render(err, len(got))
	}
	slices.SortFunc(got, func(a, b store.DeferredRow) int { return cmp.Compare(a.Seq, b.Seq) })
	var out []string
	for _, a := range got {
		out = append(out, fmt.Sprint(renderRow(a.Row), a.Attempts, a.Why, a.Due))
	}
	return render(err, out)
}

// look reads the visible rows and records them by their IDs.
func (p *player[TTx]) look() error {
	tip, err := store.Snapshot(p.Context(), p.d, "")
	if err != nil || tip == "" {
		return err
	}
	page, err := p.d.Pull(p.Context(), store.Window{Tip: tip}, 1<<20)
	for _, r := range page.Rows {
		p.rows[r.ID] = r
	}
	return err
}
