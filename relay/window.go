package relay

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/skald-go/skald/internal/column"
	"github.com/skald-go/skald/store"
)

const (
	// A steady trickle is read in windows that are worth their price: behind one that had rows the relay
	// rests for about as long as the window took, which is three times its look.
	restFactor = 3
	restMost   = 5 * time.Millisecond
	// restHearing is the factor of a relay whose source hears of commits: it looks no more often than rows
	// come.
	restHearing = 1

	pollEach  = 105 * time.Millisecond // the longest pause between two looks, for each relay that works
	pageFirst = 200
	pageLeast = 10
	pageMost  = 5000

	never = 24 * time.Hour // a relay that rests is woken, or finds that its source is not quiet
	// carefulPage is read while a row that was refused in company is looked for.
	carefulPage = 50
)

// A group is shards that read the same window together: one walk over the outbox serves them all. A shard in
// trouble leaves its group for one of its own; groups that have come to the same tick are one again.
type group struct {
	base, tip string // the window; equal: none is open
	at        int64  // read up to here
	shards    []*shard
	fresh     bool      // nothing was read since the group was made
	careful   bool      // it has suspects: one call at a time
	due       time.Time // not before
}

func (g *group) open() bool { return g.tip != g.base }

// begin opens a window.
func (g *group) begin(tip string) { g.tip, g.at, g.fresh = tip, 0, false }

// groupFor gives a shard that has nothing under way its place by its cursor.
func (r *Relay) groupFor(l *shard, due time.Time) {
	l.trouble, l.stopped, l.pieces = false, false, nil
	r.unrest(due)
	base, tip, at := l.Cursor.Base, l.Cursor.Tip, l.Cursor.Seq
	if tip == "" || tip == base {
		tip, at = base, 0
	}
	careful := len(l.suspects) > 0
	for _, g := range r.groups {
		if !careful && !g.careful && (g.fresh || !g.open()) && g.base == base && g.tip == tip {
			g.at, g.due = min(g.at, at), later(g.due, due)
			g.shards = append(g.shards, l)
			l.group = g
			return
		}
	}
	l.group = &group{base: base, tip: tip, at: at, shards: []*shard{l}, fresh: true,
		careful: careful, due: due}
	r.groups = append(r.groups, l.group)
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// unrest has the next look no later than at.
func (r *Relay) unrest(at time.Time) {
	if r.resting {
		r.resting, r.pollAt = false, at
	}
}

// ungroup takes a shard out of its group.
func (r *Relay) ungroup(l *shard) {
	g := l.group
	if g == nil {
		return
	}
	l.group = nil
	g.shards = slices.DeleteFunc(g.shards, func(x *shard) bool { return x == l })
	if len(g.shards) == 0 {
		r.groups = slices.DeleteFunc(r.groups, func(x *group) bool { return x == g })
	}
}

// merge makes one group of those that have come to the same tick.
func (r *Relay) merge() {
	for i := 0; i < len(r.groups); i++ {
		g := r.groups[i]
		for j := len(r.groups) - 1; j > i; j-- {
			o := r.groups[j]
			if g.open() || o.open() || g.base != o.base || g.careful || o.careful {
				continue
			}
			for _, l := range o.shards {
				l.group = g
			}
			g.shards, g.due = append(g.shards, o.shards...), later(g.due, o.due)
			r.groups = slices.Delete(r.groups, j, j+1)
		}
	}
}

// look opens a window for every group that has read all of its last one, if there is anything new.
func (r *Relay) look(ctx context.Context) (busy bool, err error) {
	now := r.o.Now()
	if now.Before(r.pollAt) && (!r.resting || r.quiet()) {
		return false, nil
	}
	r.merge()
	tip, all, vain := "", true, false
	for _, g := range r.groups {
		if g.open() || now.Before(g.due) {
			all = false
			continue
		}
		if tip == "" {
			t, err := store.Snapshot(ctx, r.db, g.base)
			if err != nil {
				return false, fmt.Errorf("look for new rows: %w", err)
			}
			if t == g.base {
				vain = true
				continue
			}
			// whoever looked before saw less than what the source may have been told of
			tip, all = t, all && !vain
		}
		g.begin(tip)
	}
	r.lookedAt(now, tip != "", all)
	return tip != "", nil
}

// quiet tells whether nobody needs to look before the source wakes us.
func (r *Relay) quiet() bool { return r.hearer != nil && r.hearer.Hearing().Quiet }

// looked is look for a group whose look came with the lease.
func (r *Relay) looked(now time.Time, tip string, g *group) {
	if tip != g.base {
		g.begin(tip)
	}
	r.lookedAt(now, tip != g.base, true)
}

// lookedAt plans the next look. Where the look was for all groups and saw every commit that the source heard
// of, there is none until the source hears of another.
func (r *Relay) lookedAt(now time.Time, found, all bool) {
	if found {
		after := r.o.Now()
		factor := time.Duration(restFactor)
		if r.hearer != nil {
			factor = restHearing
		}
		r.activity, r.restUntil = now, after.Add(min(factor*after.Sub(now), restMost))
	}
	if r.resting = all && r.quiet(); r.resting {
		r.pollAt = now.Add(never)
		return
	}
	r.pollAt = later(now.Add(r.pause(now)), r.restUntil)
}

// pause is how long to wait between two looks.
func (r *Relay) pause(now time.Time) time.Duration {
	most := r.o.PollMost
	if most == 0 {
		most = min(time.Duration(max(r.sessions, 1)*max(r.o.Outboxes, 1))*pollEach, r.o.TTL/3)
	}
	return min(max(now.Sub(r.activity)/20, time.Millisecond), most)
}

// read hands over the next page of every group that has a window open and room for it.
func (r *Relay) read(ctx context.Context) (busy bool, err error) {
	for _, g := range slices.Clone(r.groups) {
		if !g.open() || r.o.Now().Before(g.due) || !r.room(g) {
			continue
		}
		if err := r.readPage(ctx, g); err != nil {
			return busy, err
		}
		busy = true
	}
	return busy, nil
}

// room tells whether g may read on: somebody in it can go on, and not too much is under way.
func (r *Relay) room(g *group) bool {
	if !slices.ContainsFunc(g.shards,
		func(l *shard) bool { return !l.trouble && (!g.careful || l.pending == 0) }) {
		return false
	}
	return r.inFlight < r.o.InFlight && r.roomForPage()
}

// roomForPage tells whether the rows of one more page may be in memory.
func (r *Relay) roomForPage() bool {
	held := r.bytes
	for _, l := range r.shards {
		held += l.bytes()
	}
	return held+store.PageBytes <= r.o.MaxBytes
}

func (r *Relay) readPage(ctx context.Context, g *group) error {
	limit := r.page
	if g.careful {
		limit = carefulPage
	}
	page, err := r.db.Pull(ctx, store.Window{Base: g.base, Tip: g.tip, After: g.at, Buckets: r.buckets(g)},
		limit)
	if err != nil {
		return fmt.Errorf("read outbox: %w", err)
	}
	g.fresh = false
	if err := r.learn(ctx, topicsOf(page.Rows)); err != nil {
		g.due = r.o.Now().Add(r.o.RetryFirst)
		return err
	}
	rows := page.Rows
	if g.careful {
		rows = untilSuspect(g, rows)
	} else {
		r.resize(&page)
	}
	r.handOver(g, rows)
	if len(rows) > 0 {
		g.at = rows[len(rows)-1].Seq
	}
	if page.Done && len(rows) == len(page.Rows) {
		r.endWindow(g)
	}
	return nil
}

// endWindow puts the end of the window behind everything that was read of it.
func (r *Relay) endWindow(g *group) {
	g.base, g.at = g.tip, 0
	for _, l := range g.shards {
		l.pieces = append(l.pieces, &piece{after: store.Cursor{Base: g.tip, Tip: g.tip}, done: true})
		l.advance()
	}
	if g.careful && !slices.ContainsFunc(g.shards, func(l *shard) bool { return len(l.suspects) > 0 }) {
		g.careful = false
	}
	for _, l := range slices.Clone(g.shards) {
		if len(l.note.Anew) > 0 && l.note.To == "" {
			r.stop(l) // to read from the beginning
		}
	}
}

// untilSuspect cuts rows so that a suspect is handed over alone.
func untilSuspect(g *group, rows []store.Row) []store.Row {
	for i, row := range rows {
		for _, l := range g.shards {
			if l.suspects[row.Seq] {
				return rows[:max(i, 1)]
			}
		}
	}
	return rows
}

// resize asks for about as many rows as a page has room for: the store would look at the others for nothing.
func (r *Relay) resize(page *store.Page) {
	n, bytes := len(page.Rows), 0
	for i := range page.Rows {
		bytes += column.Weight(&page.Rows[i].Message)
	}
	switch {
	case n < r.page && !page.Done:
		r.page = max(pageLeast, n+n/4+1)
	case n == r.page && bytes < store.PageBytes/2:
		r.page = min(pageMost, 2*r.page)
	}
}

// buckets is nil when the group's shards are all there are.
func (r *Relay) buckets(g *group) [][2]int {
	out, n := make([][2]int, 0, len(g.shards)), 0
	for _, l := range g.shards {
		out = append(out, [2]int{l.First, l.Last})
		n += l.Last - l.First + 1
	}
	if n == store.Buckets {
		return nil
	}
	return out
}
