package wal

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/skald-go/skald/store"
	"github.com/skald-go/skald/store/pgstore/internal/query"
	"github.com/skald-go/skald/store/pgstore/internal/sqlexec"
)

// DefaultPublication is the name of the publication, and of the slot, in the output of skald debezium
// config.
const DefaultPublication = "skald_debezium"

const marksMost = 16 // maximum number of snapshots that wait for the slot

// FollowerOptions configures a Follower.
type FollowerOptions struct {
	Slot        string // the replication slot to follow
	Publication string // the slot's publication of the outbox
	Trust       bool   // assume, once, that the slot has every row above the positions

	Each    time.Duration // interval of the checks of the slot. Default 300 ms
	CutEach time.Duration // minimum time between two new snapshots that wait for the slot. Default 5 s
}

// Follower moves the positions of the shards to the position that another program has confirmed. That program
// reads the outbox from a replication slot. A position is a snapshot, so Follower takes snapshots and waits
// until the slot has passed the end of the WAL at the snapshot.
type Follower struct {
	pg     *sqlexec.DB
	outbox *query.Outbox
	o      FollowerOptions
	text   map[string]string // the statements with the names in o

	asks  sync.Mutex      // guards the fields up to waits; one check of the slot at a time
	asked time.Time       // time of the last check
	first *sighting       // the first check of the present slot
	last  *sighting       // the last check of the present slot
	apart bool            // the WAL went back before first, so earlier checks do not compare with it
	trust bool            // assume that the slot has every row
	known map[string]bool // positions above which the slot has every row
	waits []marked        // snapshots that wait for the slot, oldest first

	mu  sync.Mutex
	why string // the reason why positions do not move; "" if they move
	log *slog.Logger
}

// marked is a snapshot that waits until the slot has passed a place in the WAL.
type marked struct {
	tick  query.Tick
	place int64
	at    time.Time
}

// NewFollower returns a follower of the slot in o.
func NewFollower(pg *sqlexec.DB, out *query.Outbox, o FollowerOptions) *Follower {
	o.Each, o.CutEach = cmp.Or(o.Each, 300*time.Millisecond), cmp.Or(o.CutEach, 5*time.Second)
	return &Follower{
		pg: pg, outbox: out, o: o, text: FollowerStatements(pg, o.Slot, o.Publication), trust: o.Trust,
		log: slog.New(slog.DiscardHandler), why: "slot " + o.Slot + " was not seen yet",
	}
}

// FollowerStatements returns the statements of a Follower, with the names of its slot and publication.
func FollowerStatements(pg *sqlexec.DB, slot, publication string) map[string]string {
	out := map[string]string{}
	published := strings.ReplaceAll(pg.SQL["WALPublished"], "$slot", sqlexec.Quote(publication))
	parts := strings.NewReplacer("/*server*/", pg.SQL["WALServer"], "/*published*/", published)
	names := strings.NewReplacer("$slot", sqlexec.Quote(slot), "$publication", sqlexec.Quote(publication))
	for name, text := range pg.SQL {
		if strings.HasPrefix(name, "ReadBy") {
			out[name] = names.Replace(parts.Replace(text))
		}
	}
	return out
}

// Listen gives the Follower a log for the reasons why positions do not move, until ctx is done.
func (f *Follower) Listen(ctx context.Context, log *slog.Logger) {
	f.mu.Lock()
	f.log = log
	f.mu.Unlock()
	<-ctx.Done()
}

// Listening returns the reason why the positions do not move.
func (f *Follower) Listening() store.Listening {
	f.mu.Lock()
	defer f.mu.Unlock()
	return store.Listening{Why: f.why}
}

// Pull checks that the window exists. It returns no rows, because the reader of the slot publishes them.
func (f *Follower) Pull(ctx context.Context, w store.Window, _ int) (store.Page, error) {
	_, err := f.outbox.Pull(ctx, w, 1)
	return store.Page{Done: true}, err
}

// Lease takes, renews and releases shards. If the request r asks for a new window, Lease returns a window
// with only rows that the reader of the slot has confirmed. Lease does not open a window that a publishing
// relay left half published, because the slot may not have its rows.
func (f *Follower) Lease(ctx context.Context, r store.LeaseRequest) (got store.Leased, err error) {
	look := r.SnapshotBase
	r.SnapshotBase = nil
	if r.Owner != "" {
		if got, err = f.outbox.Lease(ctx, r, query.LeaseOptions{Standby: true}); err != nil {
			return got, err
		}
		for i := range got.Shards {
			at := &got.Shards[i].Cursor
			*at = store.Cursor{Base: at.Base, Tip: at.Base}
		}
	}
	if look != nil || len(got.Shards) == 0 && !r.Leave {
		got.Tip, err = f.advance(ctx, look)
	}
	return got, err
}

// advance returns the position after start, or start itself if positions do not move. For a standby, start
// is nil, and advance only checks whether positions could move.
func (f *Follower) advance(ctx context.Context, start *string) (base string, err error) {
	if start != nil {
		base = *start
	}
	f.asks.Lock()
	defer f.asks.Unlock()
	if time.Since(f.asked) < f.o.Each {
		return base, nil
	}
	f.asked = time.Now()
	s, err := f.checkSlot(ctx)
	if err != nil {
		return base, err
	}
	if start != nil {
		s.bases = append(s.bases, base)
	}
	why := f.follow(s)
	if why == nil {
		why, err = f.bounds(ctx, s)
	}
	if err == nil && why == nil && start != nil {
		base, err = f.move(ctx, base, s)
	}
	if err == nil {
		f.logState(ctx, why)
	}
	return base, err
}

// follow records the check s of the slot. It returns a reason if the Follower cannot use the slot.
func (f *Follower) follow(s *sighting) error {
	back := s.confirmed > s.end || f.last != nil && s.place < f.last.place // the database was restored
	if s.unfit != "" || back {
		f.first, f.known, f.waits, f.apart = nil, nil, nil, f.apart || back
	}
	switch {
	case s.unfit != "":
		return errors.New(s.unfit)
	case back:
		f.last = nil
		return fmt.Errorf("slot %s is confirmed past the end of the WAL, or the WAL went back: if the database was restored, "+
			"run skald relay until it has passed all rows", f.o.Slot)
	case f.first == nil || !s.sameAs(f.last):
		f.first, f.known, f.waits = s, nil, nil
		if !s.sameAs(s) { // a later check could not distinguish this slot from a new one with the same name
			f.first = nil
			return fmt.Errorf("slot %s was just created: the next look decides", f.o.Slot)
		}
	}
	f.last = s
	return nil
}

// bounds checks that the slot has all rows above the positions of the shards. Otherwise it returns a reason,
// and no position may move, because all positions move together.
func (f *Follower) bounds(ctx context.Context, s *sighting) (why, err error) {
	known := map[string]bool{}
	for _, base := range s.bases {
		if !known[base] && !f.known[base] && !f.trust {
			if why, err = f.bound(ctx, base, s); err != nil || why != nil {
				return why, err
			}
		}
		known[base] = true
	}
	f.known, f.trust = known, false
	return nil, nil
}

// bound does as bounds for one position. The slot has the rows above base in two cases: a Follower of the
// same slot took base, or the transactions of these rows began after the first check of the slot.
func (f *Follower) bound(ctx context.Context, base string, s *sighting) (why, err error) {
	t, err := query.ParseTick(base)
	if err != nil {
		return nil, err
	}
	was := sightingOf(t.Token)
	if was != nil && was.slot == s.slot && was.where == s.where && was.place < s.place {
		if was.place >= f.first.place || !f.apart && f.first.sameAs(was) {
			return nil, nil
		}
	}
	if s.oldest < f.first.next {
		return fmt.Errorf("transactions are open that began before slot %s was first seen", f.o.Slot), nil
	}
	left, err := hasEarlier(ctx, f.pg, t, f.first.next)
	if err == nil && left {
		why = fmt.Errorf("rows from before slot %s was seen are not known to be published: "+
			"run skald relay until it has passed them, or, if the slot has had them, begin once with --trust-slot", f.o.Slot)
	}
	return why, err
}

// hasEarlier reports whether there are rows above t from transactions with a number below xid.
func hasEarlier(ctx context.Context, pg *sqlexec.DB, t query.Tick, xid uint64) (found bool, err error) {
	ask := pg.Call("ReadByLeft", t.ID, t.Token, strconv.FormatUint(xid, 10))
	err = pg.Short(ctx, "read by", ask.Into(&found))
	return found, err
}

// move returns the newest waiting snapshot that the slot has passed, or base. It also takes a new snapshot
// every CutEach. So after the reader of the slot confirms a row, the positions pass that row soon.
func (f *Follower) move(ctx context.Context, base string, s *sighting) (string, error) {
	from, err := query.ParseTick(base)
	if err != nil {
		return base, err
	}
	f.waits = slices.DeleteFunc(f.waits, func(m marked) bool { return m.tick.ID <= from.ID })
	if n := len(f.waits); n == 0 || time.Since(f.waits[n-1].at) >= f.o.CutEach {
		newest := base
		if n > 0 {
			newest = f.waits[n-1].tick.String()
		}
		if err := f.mark(ctx, newest, s); err != nil {
			return base, err
		}
	}
	for len(f.waits) > 0 && s.confirmed >= f.waits[0].place {
		base = f.waits[0].tick.String()
		f.waits = f.waits[1:]
	}
	return base, nil
}

// mark takes a snapshot if there are new rows. Then it reads the end of the WAL: every row in the snapshot is
// before that place.
func (f *Follower) mark(ctx context.Context, base string, s *sighting) error {
	l, err := f.outbox.Look(base, s.String())
	if err != nil {
		return fmt.Errorf("read by: %w", err)
	}
	m := marked{at: time.Now()}
	err = f.pg.Short(ctx, "read by", append(l.Calls,
		sqlexec.Call{SQL: f.text["ReadByMarked"]}.Into(&m.place))...)
	if err != nil {
		return err
	}
	if tip, err := l.Tip(); err != nil || tip == base {
		return err
	}
	m.tick = l.Next
	f.waits = append(thinned(f.waits), m)
	return nil
}

// thinned drops every second snapshot if there are too many, because the reader of the slot confirmed nothing
// for a long time. It keeps the newest.
func thinned(waits []marked) []marked {
	if len(waits) < marksMost {
		return waits
	}
	kept := waits[:0]
	for i := 1; i < len(waits); i += 2 {
		kept = append(kept, waits[i])
	}
	return kept
}

// logState stores and logs a new reason why positions do not move. If positions move again, reason is nil,
// and logState logs that once.
func (f *Follower) logState(ctx context.Context, reason error) {
	f.mu.Lock()
	was, log := f.why, f.log
	f.why = ""
	if reason != nil {
		f.why = reason.Error()
	}
	is := f.why
	f.mu.Unlock()
	switch {
	case is == was:
	case is != "":
		log.WarnContext(ctx, "relay: positions do not move", "slot", f.o.Slot, "why", is)
	default:
		log.InfoContext(ctx, "relay: positions follow the slot", "slot", f.o.Slot)
	}
}
