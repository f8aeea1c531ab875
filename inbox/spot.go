package inbox

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/skald-go/skald/broker"
	"github.com/skald-go/skald/internal/backoff"
	"github.com/skald-go/skald/store"
)

const (
	noteEvery = 50 * time.Millisecond  // how old what the database says of positions may be
	lookLanes = 5 * time.Second        // how often an idle inbox looks whether it was rewound
	grace     = 400 * time.Millisecond // in which whoever had a lane says that it left in peace
	graceLook = 25 * time.Millisecond  // how often whoever had a lane is looked for meanwhile
	leastRoom = 2                      // positions that may be begun before they are noted; as many as share a transaction, if that is more
)

// A book is what an inbox stores of its lanes. It belongs to the goroutine of Run or Step.
type book struct {
	member  string // our name at the broker
	life    string
	notes   int          // names given
	server  string       // on which lanes were occupied
	moved   bool         // the database is not where it was, or was rewound: begin anew
	patient bool         // others may still be leaving: Run waits for them a little
	left    []store.Spot // of lanes that were lost, to be stored
	at      time.Time    // when to store again
	fails   int          // in a row
	shut    time.Time    // not before, after a failure
	looked  time.Time
	fetches int               // that brought something
	waiting []broker.Delivery // received, and not in their lanes yet
	beyond  []*chain          // whose heads wait until they are noted: nothing is begun that the database does not know of
}

// An errand is what is to be asked of the store about lanes; it is done beside what else goes on.
type errand struct {
	life, note, server string
	look               bool
	occupy             []*lane
	advance            []*lane // of those that are stored, the first ones
	spots              []store.Spot
	left               int // of spots, those of lanes that were lost: the last ones
	roll               *roll

	was store.Spots // the answer
	err error
}

// errand says what is to be asked now, and when to look again if nothing is.
func (in *Inbox[TTx]) errand(now time.Time) (e errand, wait time.Duration, some bool) {
	g := &in.book
	if now.Before(g.shut) {
		return e, g.shut.Sub(now), false
	}
	wait, e = time.Hour, errand{life: g.life, note: g.life + "-" + strconv.Itoa(g.notes), server: g.server}
	for _, l := range in.byName() {
		switch d := l.patience(now, g); {
		case l.open:
		case l.was == nil, d > 0 && now.Sub(l.looked) >= graceLook:
			e.look = true
		case d == 0:
			e.occupy = append(e.occupy, l)
		default:
			wait = min(wait, graceLook)
		}
	}
	if e.look {
		e.occupy = nil // which is another errand: nothing is occupied by a look
	}
	for _, l := range e.occupy {
		e.spots = append(e.spots, store.Spot{Lane: l.name, Origin: l.origin, Position: l.at})
	}
	if e.look || len(e.occupy) > 0 {
		g.notes++
		return e, 0, true
	}
	urgent := in.urgent()
	if !urgent {
		if e.roll = in.roll(now); e.roll != nil {
			return e, 0, true
		}
	}
	if urgent || !now.Before(g.at) {
		in.toStore(&e)
	}
	switch {
	case len(e.spots) > 0:
		g.notes++
		return e, 0, true
	case g.patient && now.Sub(g.looked) >= lookLanes:
		e.look = true
		return e, 0, true
	}
	wait = min(wait, in.view.told.Add(tellKinds).Sub(now))
	if d := g.at.Sub(now); d > 0 && in.dirty() {
		wait = min(wait, d)
	}
	if g.patient {
		wait = min(wait, g.looked.Add(lookLanes).Sub(now))
	}
	return e, wait, false
}

func (in *Inbox[TTx]) byName() []*lane {
	out := make([]*lane, 0, len(in.lanes))
	for _, l := range in.lanes {
		out = append(out, l)
	}
	slices.SortFunc(out, func(a, b *lane) int { return cmp.Compare(a.name, b.name) })
	return out
}

// patience is how long whoever had the lane before may still take to say that it left in peace.
func (l *lane) patience(now time.Time, g *book) time.Duration {
	if !g.patient || l.was == nil || !l.foreign || g.member != "" && strings.HasPrefix(l.was.Life, g.ours()) {
		return 0 // under our name there is nobody any more who could say so
	}
	return max(0, l.since.Add(grace).Sub(now))
}

func (in *Inbox[TTx]) dirty() bool {
	for _, l := range in.lanes {
		if l.dirty() {
			return true
		}
	}
	return len(in.book.left) > 0
}

// dirty tells whether the database does not know how far the lane has come. Where positions mean nothing, there is nothing to know.
func (l *lane) dirty() bool {
	return l.open && l.origin != "" && (l.at != l.spot.Position || l.wanted > l.spot.Reach)
}

// toStore adds to e what is to be stored: of lanes that are dirty, and of those that were lost.
func (in *Inbox[TTx]) toStore(e *errand) {
	for _, l := range in.byName() {
		if l.dirty() {
			e.advance = append(e.advance, l)
			e.spots = append(e.spots, in.next(l))
		}
	}
	e.left = len(in.book.left)
	e.spots = append(e.spots, in.book.left...)
}

// goFor does an errand. It touches nothing of the inbox.
func (in *Inbox[TTx]) goFor(ctx context.Context, e errand) errand {
	switch {
	case e.roll != nil:
		e.roll.all, e.err = in.db.Kinds(ctx, in.group, e.roll.own, e.roll.forget)
	case e.look:
		e.was, e.err = in.db.Spots(ctx, in.group)
	case len(e.occupy) > 0:
		e.was, e.err = in.db.Occupy(ctx, in.group, e.life, e.note, e.spots)
	default:
		e.was, e.err = in.db.Advance(ctx, in.group, e.server, e.note, e.spots)
	}
	return e
}

// done takes up what an errand found. An error stops the consumer.
func (in *Inbox[TTx]) done(ctx context.Context, e errand) error {
	g, now := &in.book, in.o.Now()
	if e.err != nil {
		for _, l := range e.advance {
			l.trying = append(l.trying, e.note)
		}
		if store.Incurable(e.err) {
			return fmt.Errorf("consumer %s: %w", in.group, e.err)
		}
		if e.roll != nil {
			in.view.since, in.view.again = time.Time{}, true
		}
		g.fails++
		g.shut = now.Add(backoff.After(g.fails, in.o.RetryFirst, outageMost))
		in.o.Logger.DebugContext(ctx, "inbox: positions", "consumer", in.group, "error", e.err)
		return nil
	}
	if g.fails = 0; e.roll != nil {
		in.enrolled(*e.roll)
		return nil
	}
	g.looked = now
	defer in.noted()
	if g.server != "" && g.server != e.was.Server {
		g.moved = true
		return nil
	}
	switch {
	case len(e.occupy) > 0:
		in.occupied(ctx, e, now)
	default:
		in.compare(e, now)
		g.left = g.left[e.left:]
		for i := range g.left { // lost meanwhile
			if at := slices.IndexFunc(e.spots, func(s store.Spot) bool { return s.Lane == g.left[i].Lane && s.Note == g.left[i].Note }); at >= 0 {
				g.left[i].Note = e.note
			}
		}
		if !e.look {
			g.at = now.Add(noteEvery)
		}
	}
	return nil
}

// occupied opens lanes.
func (in *Inbox[TTx]) occupied(ctx context.Context, e errand, now time.Time) {
	g := &in.book
	if !in.begins.stand(e) {
		g.moved = true
		return
	}
	g.server = e.was.Server
	for _, l := range e.occupy {
		s, there := spotOf(e.was, l.name)
		if !there || s.Origin != l.origin {
			s = store.Spot{Lane: l.name, Origin: l.origin, Position: -1}
		}
		s.Life, s.Note = g.life, e.note
		l.spot, l.trying, l.open, l.server, l.life = &s, nil, true, g.server, g.life
		l.at = max(l.at, s.Position)
		if l.foreign {
			in.shelf.soon(now) // what was in hand in the store is due
			l.suspects, l.redelivered, l.tried = s.Suspect, l.origin == "", map[string]bool{}
			in.o.Logger.WarnContext(ctx, "inbox: a lane was left uncleanly", "consumer", in.group, "lane", l.name, "by", l.was.Life,
				"from", s.Position, "to", s.Reach, "suspected_to", s.Suspect)
		}
	}
	g.at = now.Add(noteEvery)
}

// compare looks how lanes stand: as they were stored, or not.
func (in *Inbox[TTx]) compare(e errand, now time.Time) {
	g := &in.book
	sent := map[*lane]store.Spot{}
	for i, l := range e.advance {
		sent[l] = e.spots[i]
	}
	for _, l := range in.byName() {
		s, there := spotOf(e.was, l.name)
		if !l.open {
			l.was, l.looked = &s, now
			l.foreign = s.Life != "" && s.Life != g.life
			continue
		}
		next, stored := sent[l]
		switch {
		case there && stored && s.Note == e.note:
			next.Note = e.note
			l.spot, l.trying, l.begun = &next, nil, 0
		case there && (s.Note == l.spot.Note || slices.Contains(l.trying, s.Note)): // as before, or the answer was lost
			l.spot.Note, l.spot.Position, l.spot.Reach = s.Note, s.Position, s.Reach
			if stored {
				l.trying = nil
			}
		case there && s.Life != "" && s.Life != g.life: // a rival has it, or had; the broker knows better
			l.open, l.was, l.foreign, l.since, l.looked = false, &s, true, now, now
		case there || l.origin != "":
			g.moved = true
		}
	}
}

// errands does what is to be asked until nothing is: for Step, which has nothing beside it.
func (in *Inbox[TTx]) errands(ctx context.Context) error {
	for range 5 {
		e, _, some := in.errand(in.o.Now())
		if !some || in.book.moved {
			return nil
		}
		if err := in.done(ctx, in.goFor(ctx, e)); err != nil {
			return err
		}
	}
	return nil
}

// admissible takes out of what waits what may be put into its lane.
func (in *Inbox[TTx]) admissible() []broker.Delivery {
	g := &in.book
	held := map[string]bool{} // lanes of which something must wait: what is behind it waits, too
	var now, kept []broker.Delivery
	for i := range g.waiting {
		d := &g.waiting[i]
		l := in.lanes[d.Lane]
		waits := l != nil && !l.open || held[d.Lane] || in.undecided(*d)
		if waits && kept == nil { // as a rule nothing does, and nothing is copied
			now = slices.Clone(g.waiting[:i])
		}
		switch {
		case waits:
			held[d.Lane] = true
			kept = append(kept, *d)
		case kept != nil:
			now = append(now, *d)
		}
	}
	if kept == nil {
		now = g.waiting
	}
	g.waiting = kept
	return now
}

// parts has it stored of a lane that was lost that it was left in peace.
func (in *Inbox[TTx]) parts(l *lane) {
	if l.open && len(l.trying) == 0 {
		s := *l.spot
		s.Position, s.Life = l.at, ""
		in.book.left = append(in.book.left, s)
		in.book.at = time.Time{}
	}
}

// goodbye says of all lanes that they were left in peace. Where the database does not hear it, their next owner is careful.
func (in *Inbox[TTx]) goodbye(ctx context.Context) {
	for _, l := range in.byName() {
		in.parts(l)
	}
	if len(in.book.left) == 0 || in.book.moved {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	in.book.notes++
	if _, err := in.db.Advance(ctx, in.group, in.book.server, in.book.life+"-"+strconv.Itoa(in.book.notes), in.book.left); err != nil {
		in.o.Logger.DebugContext(ctx, "inbox: say that lanes were left", "consumer", in.group, "error", err)
	}
}

// joinAgain leaves the group and joins it anew: the database is not where it was, so what is known of lanes in memory is worth
// nothing, and they begin where the database says.
func (in *Inbox[TTx]) joinAgain(ctx context.Context) error {
	if in.sub != nil {
		in.o.Logger.WarnContext(ctx, "inbox: the database went back, or was rewound: joining the group anew", "consumer", in.group)
		err := in.sub.Close(ctx)
		if err != nil && !errors.Is(err, broker.ErrClosed) {
			in.o.Logger.WarnContext(ctx, "inbox: leave the group", "consumer", in.group, "error", err)
		}
	}
	for _, l := range in.lanes {
		l.lost = true
	}
	in.sub, in.lanes, in.askAt = nil, map[string]*lane{}, time.Time{}
	in.view.since = time.Time{} // what others noted may be lost, too
	in.book.reset(false)
	return in.open(ctx)
}

// ours is what the lives of all that have our name at the broker begin with.
func (g *book) ours() string {
	if g.member == "" {
		return ""
	}
	return g.member + ":"
}

// reset forgets all lanes. A life that has ended is not taken up again.
func (g *book) reset(ended bool) {
	next := book{member: g.member, life: g.life, notes: g.notes, patient: g.patient, fetches: g.fetches + 1}
	if ended {
		next.life = g.ours() + rand.Text()
	}
	*g = next
}
