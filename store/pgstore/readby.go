package pgstore

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/skald-go/skald/internal/startup"
	"github.com/skald-go/skald/store"
	"github.com/skald-go/skald/store/pgstore/internal/column"
	"github.com/skald-go/skald/store/pgstore/internal/outbox"
	"github.com/skald-go/skald/store/pgstore/internal/pgrun"
)

const (
	readByEach = 300 * time.Millisecond // between two looks at the slot: its reader may change
	markEach   = 5 * time.Second        // between two snapshots that wait for it
	marksMost  = 16                     // of them

	defaultPublication = "skald_debezium" // and slot
)

// ReadByOptions of a ReadBy. The zero value is for what skald debezium config prints.
type ReadByOptions struct {
	Slot        string // the replication slot that is read. Default skald_debezium
	Publication string // of the outbox, from which it is read. Default skald_debezium
	// Trust takes it, once, that the slot has had, or will have, every row that the positions do not show:
	// its reader was there before this one looked.
	Trust bool
}

// A ReadBy is a store as the source of a relay that publishes nothing but rows that were deferred: somebody
// else reads the outbox from a replication slot, Debezium for one. It moves the positions of the shards to
// where that reader has confirmed the slot, so that the retention, the backlog and all that tells of it know
// what is published. Where a relay that publishes works, this one stands by.
//
// A position moves to a snapshot only if the slot's confirmed position has passed a place of the WAL that was
// read after it, and if the slot is known to be the one from whose stream nothing that the positions do not
// show was left out. Else the positions stay, and Hearing says why.
type ReadBy struct {
	*core
	named startup.Wire
	o     ReadByOptions
	text  map[string]string

	each, cutEach time.Duration

	asks  sync.Mutex // one look at a time
	asked time.Time
	first *sighting       // the slot has been the same one from here
	last  *sighting       // to here
	apart bool            // what was seen before first was of another WAL
	trust bool            // it is taken that the slot has every row
	known map[string]bool // positions from which nothing was left out
	waits []marked        // in their order

	mu  sync.Mutex
	why string
	log *slog.Logger
}

// marked is the end of a window that waits for the slot.
type marked struct {
	tick  outbox.Tick
	place int64 // that the slot has to pass
	at    time.Time
}

// ReadBy is s as the source of such a relay. Its user must see whose session reads the slot: it is that
// session's, or has pg_read_all_stats, which pg_monitor includes.
func (s *Store) ReadBy(o *ReadByOptions) (*ReadBy, error) {
	var at ReadByOptions
	if o != nil {
		at = *o
	}
	at.Slot, at.Publication = cmp.Or(at.Slot, defaultPublication), cmp.Or(at.Publication, defaultPublication)
	if !regexp.MustCompile(`^[a-z0-9_]{1,63}$`).MatchString(at.Slot) {
		return nil, fmt.Errorf("read by: %q cannot be a slot's name: 1 to 63 lower-case letters, digits and underscores",
			at.Slot)
	}
	r := s.readBy(at)
	r.named = s
	return r, nil
}

func (c *core) readBy(o ReadByOptions) *ReadBy {
	r := &ReadBy{core: c, o: o, trust: o.Trust, each: readByEach, cutEach: markEach, text: map[string]string{},
		log: slog.New(slog.DiscardHandler), why: "slot " + o.Slot + " was not seen yet"}
	published := strings.ReplaceAll(c.pg.SQL["WALPublished"], "$slot", column.Quote(o.Publication))
	parts := strings.NewReplacer("/*server*/", c.pg.SQL["WALServer"], "/*published*/", published)
	names := strings.NewReplacer("$slot", column.Quote(o.Slot), "$publication", column.Quote(o.Publication))
	for name, text := range c.pg.SQL {
		if strings.HasPrefix(name, "ReadBy") {
			r.text[name] = names.Replace(parts.Replace(text))
		}
	}
	return r
}

var _ startup.Wire = (*ReadBy)(nil)

// String names the server, the database and the schema.
func (r *ReadBy) String() string { return startup.Name(r.named) }

// Unencrypted names the hosts that may be spoken to without TLS.
func (r *ReadBy) Unencrypted() []string { return r.named.Unencrypted() }

// Hear has the log told why positions stay, until ctx is done.
func (r *ReadBy) Hear(ctx context.Context, log *slog.Logger) {
	r.mu.Lock()
	r.log = log
	r.mu.Unlock()
	<-ctx.Done()
}

// Hearing says why positions stay.
func (r *ReadBy) Hearing() store.Hearing {
	r.mu.Lock()
	defer r.mu.Unlock()
	return store.Hearing{Why: r.why}
}

// Pull finds nothing: what is in a window was read by the slot's reader. It looks whether the window is
// there.
func (r *ReadBy) Pull(ctx context.Context, w store.Window, _ int) (store.Page, error) {
	_, err := r.core.Pull(ctx, w, 1)
	return store.Page{Done: true}, err
}

// Lease is the store's; what it answers to a look is the end of a window of which all was read. A window that
// a relay has left half published is not open here: the slot may not have its rows.
func (r *ReadBy) Lease(ctx context.Context, ask store.Ask) (got store.Leased, err error) {
	look := ask.Look
	ask.Look = nil
	if ask.Owner != "" {
		if got, err = r.core.outbox.Lease(ctx, ask, outbox.Besides{Standby: true}); err != nil {
			return got, err
		}
		for i := range got.Shards {
			at := &got.Shards[i].Cursor
			*at = store.Cursor{Base: at.Base, Tip: at.Base}
		}
	}
	if look != nil || len(got.Shards) == 0 && !ask.Leave {
		got.Tip, err = r.passed(ctx, look)
	}
	return got, err
}

// passed is where to move to from base; base itself, while that is nowhere. Without a base, of one that
// stands by, it only sees whether positions could be moved.
func (r *ReadBy) passed(ctx context.Context, from *string) (base string, err error) {
	if from != nil {
		base = *from
	}
	r.asks.Lock()
	defer r.asks.Unlock()
	if time.Since(r.asked) < r.each {
		return base, nil
	}
	r.asked = time.Now()
	s, err := r.see(ctx)
	if err != nil {
		return base, err
	}
	if from != nil {
		s.bases = append(s.bases, base)
	}
	why := r.follow(s)
	if why == nil {
		why, err = r.bounds(ctx, s)
	}
	if err == nil && why == nil && from != nil {
		base, err = r.move(ctx, base, s)
	}
	if err == nil {
		r.say(ctx, why)
	}
	return base, err
}

// follow takes up what was seen of the slot.
func (r *ReadBy) follow(s *sighting) error {
	back := s.confirmed > s.end || r.last != nil && s.place < r.last.place // the database was restored
	if s.unfit != "" || back {
		r.first, r.known, r.waits, r.apart = nil, nil, nil, r.apart || back
	}
	switch {
	case s.unfit != "":
		return errors.New(s.unfit)
	case back:
		r.last = nil
		return fmt.Errorf("slot %s is confirmed past the end of the WAL, or the WAL went back: if the database was restored, "+
			"run skald relay until it has passed all rows", r.o.Slot)
	case r.first == nil || !s.sameAs(r.last):
		r.first, r.known, r.waits = s, nil, nil
		if !s.sameAs(s) { // the next look could not tell it from another one
			r.first = nil
			return fmt.Errorf("slot %s was only just made: the next look tells", r.o.Slot)
		}
	}
	r.last = s
	return nil
}

// bounds tells why positions cannot be moved: rows that one of them does not show may not be in the slot's
// stream. All of them count, as all are moved at once.
func (r *ReadBy) bounds(ctx context.Context, s *sighting) (why, err error) {
	known := map[string]bool{}
	for _, base := range s.bases {
		if !known[base] && !r.known[base] && !r.trust {
			if why, err = r.bound(ctx, base, s); err != nil || why != nil {
				return why, err
			}
		}
		known[base] = true
	}
	r.known, r.trust = known, false
	return nil, nil
}

// bound is bounds for one: the rows are in the stream if base was cut beside this slot, or if they are of
// transactions that drew their numbers after it was made.
func (r *ReadBy) bound(ctx context.Context, base string, s *sighting) (why, err error) {
	t, err := outbox.ParseTick(base)
	if err != nil {
		return nil, err
	}
	was := sightingOf(t.Token)
	if was != nil && was.slot == s.slot && was.where == s.where && was.place < s.place {
		if was.place >= r.first.place || !r.apart && r.first.sameAs(was) {
			return nil, nil
		}
	}
	if s.oldest < r.first.next {
		return fmt.Errorf("transactions are open since before slot %s was seen", r.o.Slot), nil
	}
	left, err := r.left(ctx, t, r.first.next)
	if err == nil && left {
		why = fmt.Errorf("rows from before slot %s was seen are not known to be published: "+
			"run skald relay until it has passed them, or, if the slot has had them, begin once with --trust-slot", r.o.Slot)
	}
	return why, err
}

// left tells whether rows of transactions before number next are there that t does not show.
func (c *core) left(ctx context.Context, t outbox.Tick, next uint64) (left bool, err error) {
	ask := c.pg.Call("ReadByLeft", t.ID, t.Token, strconv.FormatUint(next, 10))
	err = c.pg.Short(ctx, "read by", ask.Into(&left))
	return left, err
}

// move goes to the newest snapshot that the slot's position has passed. It takes further ones meanwhile, so
// that a reader that confirms once a minute leaves no row waiting for two.
func (r *ReadBy) move(ctx context.Context, base string, s *sighting) (string, error) {
	from, err := outbox.ParseTick(base)
	if err != nil {
		return base, err
	}
	r.waits = slices.DeleteFunc(r.waits, func(m marked) bool { return m.tick.ID <= from.ID })
	if n := len(r.waits); n == 0 || time.Since(r.waits[n-1].at) >= r.cutEach {
		newest := base
		if n > 0 {
			newest = r.waits[n-1].tick.String()
		}
		if err := r.mark(ctx, newest, s); err != nil {
			return base, err
		}
	}
	for len(r.waits) > 0 && s.confirmed >= r.waits[0].place {
		base = r.waits[0].tick.String()
		r.waits = r.waits[1:]
	}
	return base, nil
}

// mark takes a snapshot, if there is something new, and after it the place that the slot has to pass.
func (r *ReadBy) mark(ctx context.Context, base string, s *sighting) error {
	l, err := r.outbox.Look(base)
	if err != nil {
		return fmt.Errorf("read by: %w", err)
	}
	l.Next.Token += "." + s.String()
	l.Calls[1].Args[2] = l.Next.Token
	m := marked{at: time.Now()}
	err = r.pg.Short(ctx, "read by", append(l.Calls, pgrun.Call{SQL: r.text["ReadByMarked"]}.Into(&m.place))...)
	if err != nil {
		return err
	}
	if tip, err := l.Tip(); err != nil || tip == base {
		return err
	}
	m.tick = l.Next
	if len(r.waits) == marksMost { // nobody has confirmed for long
		kept := r.waits[:0]
		for i := 1; i < marksMost; i += 2 {
			kept = append(kept, r.waits[i])
		}
		r.waits = kept
	}
	r.waits = append(r.waits, m)
	return nil
}

// say tells the log once why positions stay, and that they move again.
func (r *ReadBy) say(ctx context.Context, why error) {
	r.mu.Lock()
	was, log := r.why, r.log
	r.why = ""
	if why != nil {
		r.why = why.Error()
	}
	is := r.why
	r.mu.Unlock()
	switch {
	case is == was:
	case is != "":
		log.WarnContext(ctx, "relay: positions stay where they are", "slot", r.o.Slot, "why", is)
	default:
		log.InfoContext(ctx, "relay: positions follow the slot", "slot", r.o.Slot)
	}
}
