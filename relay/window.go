package relay

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/skald-go/skald/store"
)

const (
	// A steady trickle is read in windows that are worth their price: behind one that had rows the relay rests for
	// about as long as the window took, which is three times its look.
	restFactor = 3
	restMost   = 5 * time.Millisecond

	pollEach  = 105 * time.Millisecond // the longest pause between two looks, for each relay that works
	pageFirst = 200
	pageLeast = 10
	pageMost  = 5000
	pageBytes = 4 << 20
	mostBytes = 32 << 20
	// carefulPage is read while a row that was refused in company is looked for.
	carefulPage = 50
)

// A group is lanes that read the same window together: one walk over the outbox serves them all. A lane in
// trouble leaves its group for one of its own; groups that have come to the same tick are one again.
type group struct {
	base, tip string // the window; equal: none is open
	at        int64  // read up to here
	lanes     []*lane
	fresh     bool      // nothing was read since the group was made
	careful   bool      // it has suspects: one call at a time
	due       time.Time // not before
}

func (g *group) open() bool { return g.tip != g.base }

// begin opens a window.
func (g *group) begin(tip string) { g.tip, g.at, g.fresh = tip, 0, false }

// groupFor gives a lane that has nothing under way its place by its cursor.
func (r *Relay) groupFor(l *lane, due time.Time) {
	l.trouble, l.stopped, l.pieces = false, false, nil
	base, tip, at := l.Cursor.Base, l.Cursor.Tip, l.Cursor.Seq
	if tip == "" || tip == base {
		tip, at = base, 0
	}
	careful := len(l.suspects) > 0
	for _, g := range r.groups {
		if !careful && !g.careful && (g.fresh || !g.open()) && g.base == base && g.tip == tip {
			g.at, g.due = min(g.at, at), later(g.due, due)
			g.lanes = append(g.lanes, l)
			l.group = g
			return
		}
	}
	l.group = &group{base: base, tip: tip, at: at, lanes: []*lane{l}, fresh: true, careful: careful, due: due}
	r.groups = append(r.groups, l.group)
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// ungroup takes a lane out of its group.
func (r *Relay) ungroup(l *lane) {
	g := l.group
	if g == nil {
		return
	}
	l.group = nil
	g.lanes = slices.DeleteFunc(g.lanes, func(x *lane) bool { return x == l })
	if len(g.lanes) == 0 {
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
			for _, l := range o.lanes {
				l.group = g
			}
			g.lanes, g.due = append(g.lanes, o.lanes...), later(g.due, o.due)
			r.groups = slices.Delete(r.groups, j, j+1)
		}
	}
}

// look opens a window for every group that has read all of its last one, if there is anything new.
func (r *Relay) look(ctx context.Context) (busy bool, err error) {
	now := r.o.Now()
	if now.Before(r.pollAt) {
		return false, nil
	}
	r.merge()
	tip := ""
	for _, g := range r.groups {
		if g.open() || now.Before(g.due) {
			continue
		}
		if tip == "" {
			t, err := r.db.Tick(ctx, g.base)
			if err != nil {
				return false, fmt.Errorf("look for new rows: %w", err)
			}
			if t == g.base {
				continue
			}
			tip = t
		}
		g.begin(tip)
	}
	r.lookedAt(now, tip != "")
	return tip != "", nil
}

// looked is look for a group whose look came with the lease.
func (r *Relay) looked(now time.Time, tip string, g *group) {
	if tip != g.base {
		g.begin(tip)
	}
	r.lookedAt(now, tip != g.base)
}

func (r *Relay) lookedAt(now time.Time, found bool) {
	if found {
		after := r.o.Now()
		r.activity, r.restUntil = now, after.Add(min(restFactor*after.Sub(now), restMost))
	}
	r.pollAt = later(now.Add(r.pause(now)), r.restUntil)
}

// pause is how long to wait between two looks.
func (r *Relay) pause(now time.Time) time.Duration {
	most := r.o.PollMost
	if most == 0 {
		most = min(time.Duration(max(r.lives, 1)*max(r.o.Outboxes, 1))*pollEach, r.o.TTL/3)
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
	if !slices.ContainsFunc(g.lanes, func(l *lane) bool { return !l.trouble && (!g.careful || l.pending == 0) }) {
		return false
	}
	return r.inFlight < r.o.InFlight && r.bytes < mostBytes
}

func (r *Relay) readPage(ctx context.Context, g *group) error {
	limit := r.page
	if g.careful {
		limit = carefulPage
	}
	page, err := r.db.Pull(ctx, store.Window{Base: g.base, Tip: g.tip, After: g.at, Buckets: r.buckets(g)}, limit)
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
		r.resize(rows)
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
	for _, l := range g.lanes {
		l.pieces = append(l.pieces, &piece{after: store.Cursor{Base: g.tip, Tip: g.tip}, done: true})
		l.advance()
	}
	if g.careful && !slices.ContainsFunc(g.lanes, func(l *lane) bool { return len(l.suspects) > 0 }) {
		g.careful = false
	}
	for _, l := range slices.Clone(g.lanes) {
		if len(l.note.Anew) > 0 && l.note.To == "" {
			r.stop(l) // to read from the beginning
		}
	}
}

// untilSuspect cuts rows so that a suspect is handed over alone.
func untilSuspect(g *group, rows []store.Row) []store.Row {
	for i, row := range rows {
		for _, l := range g.lanes {
			if l.suspects[row.Seq] {
				return rows[:max(i, 1)]
			}
		}
	}
	return rows
}

// resize keeps a page near pageBytes, whatever size the messages are.
func (r *Relay) resize(rows []store.Row) {
	size := 0
	for i := range rows {
		size += len(rows[i].Data)
	}
	switch {
	case size > pageBytes:
		r.page = max(pageLeast, r.page/2)
	case size < pageBytes/2 && len(rows) == r.page:
		r.page = min(pageMost, r.page*2)
	}
}

// buckets is nil when the group's lanes are all there are.
func (r *Relay) buckets(g *group) [][2]int {
	out, n := make([][2]int, 0, len(g.lanes)), 0
	for _, l := range g.lanes {
		out = append(out, [2]int{l.First, l.Last})
		n += l.Last - l.First + 1
	}
	if n == store.Buckets {
		return nil
	}
	return out
}
