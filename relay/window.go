// This file looks for new rows and reads them. A window has the rows between two ticks (snapshots) of the
// outbox.

package relay

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/skald-go/skald/broker"
	"github.com/skald-go/skald/internal/column"
	"github.com/skald-go/skald/store"
)

const (
	// restFactor limits the load of frequent small windows. After a window with rows, the relay pauses for
	// restFactor times the duration of the look, at most restMost. The look takes about as long as the whole
	// window.
	restFactor = 3
	restMost   = 5 * time.Millisecond
	// restListening replaces restFactor if the source is notified of commits. The relay then looks only when
	// there are rows.
	restListening = 1

	pollEach  = 105 * time.Millisecond // the longest pause between two looks, times the number of relays
	pageFirst = 200                    // rows of the first page
	pageLeast = 10
	pageMost  = 5000

	never = 24 * time.Hour // a resting relay looks earlier, when its source notifies it
	// isolatingPage is the page size of a group with suspects.
	isolatingPage = 50
)

// group is a set of shards that read the same window together, so that the relay reads the outbox once for
// all of them. A failed shard leaves its group and gets its own group. Groups are merged when they have
// reached the same tick.
type group struct {
	base, tip string // the window from base to tip; equal if no window is open
	at        int64  // last sequence number read
	shards    []*shard
	fresh     bool      // the group has not read any page yet
	isolating bool      // the group has suspects, so it makes one call at a time
	due       time.Time // the earliest time of the next read
}

func (g *group) open() bool { return g.tip != g.base }

// begin opens a window.
func (g *group) begin(tip string) { g.tip, g.at, g.fresh = tip, 0, false }

// joinGroup puts a shard into the group for its cursor, or into a new group. The shard must have no calls in
// progress.
func (r *Relay) joinGroup(s *shard, due time.Time) {
	s.failing, s.stopped, s.pieces = false, false, nil
	r.lookBy(due)
	base, tip, at := s.Cursor.Base, s.Cursor.Tip, s.Cursor.Seq
	if tip == "" || tip == base {
		tip, at = base, 0
	}
	isolating := len(s.suspects) > 0
	for _, g := range r.groups {
		if !isolating && !g.isolating && (g.fresh || !g.open()) && g.base == base && g.tip == tip {
			g.at, g.due = min(g.at, at), later(g.due, due)
			g.shards = append(g.shards, s)
			s.group = g
			return
		}
	}
	s.group = &group{base: base, tip: tip, at: at, shards: []*shard{s}, fresh: true,
		isolating: isolating, due: due}
	r.groups = append(r.groups, s.group)
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// lookBy schedules the next look at the given time, if the relay waits for a notification.
func (r *Relay) lookBy(at time.Time) {
	if r.resting {
		r.resting, r.pollAt = false, at
	}
}

// ungroup removes a shard from its group.
func (r *Relay) ungroup(s *shard) {
	g := s.group
	if g == nil {
		return
	}
	s.group = nil
	g.shards = slices.DeleteFunc(g.shards, func(x *shard) bool { return x == s })
	if len(g.shards) == 0 {
		r.groups = slices.DeleteFunc(r.groups, func(x *group) bool { return x == g })
	}
}

// merge merges groups that have reached the same tick.
func (r *Relay) merge() {
	for i := 0; i < len(r.groups); i++ {
		g := r.groups[i]
		for j := len(r.groups) - 1; j > i; j-- {
			o := r.groups[j]
			if g.open() || o.open() || g.base != o.base || g.isolating || o.isolating {
				continue
			}
			for _, s := range o.shards {
				s.group = g
			}
			g.shards, g.due = append(g.shards, o.shards...), later(g.due, o.due)
			r.groups = slices.Delete(r.groups, j, j+1)
		}
	}
}

// look opens a window for each group that has read its last window, if there are new rows.
func (r *Relay) look(ctx context.Context) (busy bool, err error) {
	now := r.o.Now()
	if now.Before(r.pollAt) && (!r.resting || r.quiet()) {
		return false, nil
	}
	r.merge()
	tip, all, outdated := "", true, false
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
				outdated = true
				continue
			}
			// An earlier look in this loop may have missed commits of which the source was notified.
			tip, all = t, all && !outdated
		}
		g.begin(tip)
	}
	r.planLook(now, tip != "", all)
	return tip != "", nil
}

// quiet returns true if the relay needs no look before the source wakes it.
func (r *Relay) quiet() bool { return r.listener != nil && r.listener.Listening().Quiet }

// afterLook does the work of look for a group for which the lease has looked for rows.
func (r *Relay) afterLook(now time.Time, tip string, g *group) {
	if tip != g.base {
		g.begin(tip)
	}
	r.planLook(now, tip != g.base, true)
}

// planLook schedules the next look. If all groups have read each commit of which the source was notified, the
// relay looks only after the next notification.
func (r *Relay) planLook(now time.Time, found, all bool) {
	if found {
		after := r.o.Now()
		factor := time.Duration(restFactor)
		if r.listener != nil {
			factor = restListening
		}
		r.activity, r.restUntil = now, after.Add(min(factor*after.Sub(now), restMost))
	}
	if r.resting = all && r.quiet(); r.resting {
		r.pollAt = now.Add(never)
		return
	}
	r.pollAt = later(now.Add(r.pause(now)), r.restUntil)
}

// pause returns the time between two looks.
func (r *Relay) pause(now time.Time) time.Duration {
	most := r.o.MaxPollInterval
	if most == 0 {
		most = min(time.Duration(max(r.sessions, 1)*max(r.o.Outboxes, 1))*pollEach, r.o.TTL/3)
	}
	return min(max(now.Sub(r.activity)/20, time.Millisecond), most)
}

// read reads and publishes the next page of each group with an open window, if there is room.
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

// room returns true if g may read its next page. One of its shards must be able to continue, and the limits
// must allow more rows.
func (r *Relay) room(g *group) bool {
	if !slices.ContainsFunc(g.shards,
		func(s *shard) bool { return !s.failing && (!g.isolating || s.pending == 0) }) {
		return false
	}
	return r.inFlight < r.o.InFlight && r.roomForPage()
}

// roomForPage returns true if Options.MaxBytes allows the rows of one more page.
func (r *Relay) roomForPage() bool {
	used := r.bytes
	for i := range r.suspects {
		used += column.Weight(&r.suspects[i].row.Message)
	}
	for _, s := range r.shards {
		used += s.bytes()
	}
	return used+store.PageBytes <= r.o.MaxBytes
}

func (r *Relay) readPage(ctx context.Context, g *group) error {
	limit := r.page
	if g.isolating {
		limit = isolatingPage
	}
	page, err := r.db.Pull(ctx, store.Window{Base: g.base, Tip: g.tip, After: g.at, Buckets: r.buckets(g)},
		limit)
	if err != nil {
		return fmt.Errorf("read the outbox: %w", err)
	}
	g.fresh = false
	if err := r.learn(ctx, topicsOf(page.Rows)); err != nil {
		g.due = r.o.Now().Add(r.o.RetryFirst)
		return err
	}
	rows := page.Rows
	if g.isolating {
		rows = r.untilSuspect(g, rows)
	}
	bytes := r.publishRows(g, rows)
	if !g.isolating {
		r.resize(len(rows), bytes, page.Done)
	}
	if len(rows) > 0 {
		g.at = rows[len(rows)-1].Seq
	}
	if page.Done && len(rows) == len(page.Rows) {
		r.endWindow(g)
	}
	return nil
}

// endWindow ends the window of a group. The cursor of a shard reaches the end after all earlier pieces are
// finished.
func (r *Relay) endWindow(g *group) {
	g.base, g.at = g.tip, 0
	for _, s := range g.shards {
		s.pieces = append(s.pieces, &piece{after: store.Cursor{Base: g.tip, Tip: g.tip}, done: true})
		s.advance()
	}
	if g.isolating && !slices.ContainsFunc(g.shards, func(s *shard) bool { return len(s.suspects) > 0 }) {
		g.isolating = false
	}
	for _, s := range slices.Clone(g.shards) {
		if len(s.origin.Recreated) > 0 && s.origin.Until == "" {
			r.stop(s) // to start the replay
		}
	}
}

// untilSuspect shortens rows so that a suspect is published alone. It does not shorten them after too many
// rows of the topic were published alone.
func (r *Relay) untilSuspect(g *group, rows []store.Row) []store.Row {
	for i, row := range rows {
		for _, s := range g.shards {
			if s.suspects[row.Seq] && !r.refusedForGood(row.Topic, broker.ErrShared) {
				return rows[:max(i, 1)]
			}
		}
	}
	return rows
}

// resize adapts the page size, so that the store does not read rows for which a page has no room.
func (r *Relay) resize(n, bytes int, done bool) {
	switch {
	case n < r.page && !done && bytes >= store.PageBytes/2:
		r.page = max(pageLeast, n-n/8)
	case n == r.page && bytes < store.PageBytes/2:
		r.page = min(pageMost, 2*r.page)
	}
}

// buckets returns the bucket ranges of a group, or nil if they are all buckets.
func (r *Relay) buckets(g *group) [][2]int {
	out, n := make([][2]int, 0, len(g.shards)), 0
	for _, s := range g.shards {
		out = append(out, [2]int{s.First, s.Last})
		n += s.Last - s.First + 1
	}
	if n == store.Buckets {
		return nil
	}
	return out
}
