package slot

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/skald-go/skald"
	"github.com/skald-go/skald/store"
	"github.com/skald-go/skald/store/pgstore/internal/column"
	"github.com/skald-go/skald/store/pgstore/internal/outbox"
	"github.com/skald-go/skald/store/pgstore/internal/pgrun"
)

// A Sighting is what was seen of a slot that somebody else reads.
type Sighting struct {
	Slot      string
	Place     int64  // of the WAL, just before
	Where     string // a hash of the server, its timeline, the database and the publication
	Session   string // a hash of the one that reads the slot; "": none does
	Restart   int64  // of the slot: never less than the place at which it was made
	confirmed int64
	end       int64 // of the WAL, just after
	// of transactions: those before oldest had ended, and none had drawn next or a later number
	oldest, next uint64
	bases        []string // the positions of the shards
	there        bool
	hidden       bool   // this user may not see who reads it
	unfit        string // why it cannot be followed
}

// SameAs tells whether the slot is known to be the one of was, an earlier sighting. It is, if it was made
// before the place at which that was seen; and if the session that read it then reads it still: a slot in use
// cannot be dropped.
func (s *Sighting) SameAs(was *Sighting) bool {
	if was == nil || s.Slot != was.Slot || s.Where != was.Where {
		return false
	}
	return s.Restart < was.Place || s.Session != "" && s.Session == was.Session
}

// String is what sightingOf reads, in the token of a tick: what to know the slot again by.
func (s *Sighting) String() string {
	return fmt.Sprintf("%s.%d.%s.%s", s.Slot, s.Place, s.Where, s.Session)
}

// SightingOf is nil for the token of a tick that was cut by a relay that publishes.
func SightingOf(token string) *Sighting {
	f := strings.Split(token, ".")
	if len(f) != 5 {
		return nil
	}
	place, err := strconv.ParseInt(f[2], 10, 64)
	if err != nil {
		return nil
	}
	return &Sighting{Slot: f[1], Place: place, Where: f[3], Session: f[4]}
}

func digest(text string) string {
	if text == "" {
		return ""
	}
	sum := sha256.Sum256([]byte(text))
	return hex.EncodeToString(sum[:8])
}

// see looks at the slot, in this order: a place, the slot, the transactions.
func (f *Follower) see(ctx context.Context) (*Sighting, error) {
	s := &Sighting{Slot: f.o.Slot}
	var server, published, plugin, status, session, publications, oldest, next string
	var here bool
	var pid int32
	var out []LeftOut
	bases := f.pg.Call("ReadByBases")
	bases.Scan = func(row pgrun.Scanner) error {
		s.bases = append(s.bases, "")
		return row.Scan(&s.bases[len(s.bases)-1])
	}
	err := f.pg.Short(ctx, "look at slot "+f.o.Slot, pgrun.Call{SQL: f.Text["ReadByPlace"]}.Into(&s.Place, &server),
		pgrun.Call{SQL: f.Text["ReadBySlot"]}.Into(&s.there, &plugin, &here, &status, &s.Restart, &s.confirmed, &pid, &session,
			&publications),
		pgrun.Call{SQL: f.Text["ReadBySnapshot"]}.Into(&oldest, &next, &published, &s.end), bases, ListLeftOut(f.pg, &out))
	if err != nil {
		return nil, err
	}
	s.Where, s.Session, s.hidden = digest(server+" "+published), digest(session), pid != 0 && session == ""
	if s.oldest, err = strconv.ParseUint(oldest, 10, 64); err == nil {
		s.next, err = strconv.ParseUint(next, 10, 64)
	}
	i := slices.IndexFunc(out, func(one LeftOut) bool { return one.Publication == f.o.Publication })
	lost := status == "lost" || s.Restart == 0 || s.confirmed == 0
	switch {
	case !s.there:
		s.unfit = fmt.Sprintf("there is no slot %s", f.o.Slot)
	case plugin != "pgoutput" || !here:
		s.unfit = fmt.Sprintf("slot %s is not one of pgoutput and of this database", f.o.Slot)
	case lost:
		s.unfit = fmt.Sprintf("slot %s was invalidated by the server, or was never ready", f.o.Slot)
	case published == "":
		s.unfit = fmt.Sprintf("publication %s does not have all rows of the outbox, as rows of skald_outbox: "+
			"skald debezium config prints how it is made", f.o.Publication)
	case i >= 0:
		s.unfit = fmt.Sprintf("publication %s leaves out the columns %s, which Debezium reads as NULL: make it without a list of columns, "+
			"as skald debezium config prints", f.o.Publication, out[i].Columns)
	case s.hidden:
		s.unfit = "this role may not see who reads the slot: GRANT pg_read_all_stats TO it"
	case publications != "" && !names(publications, f.o.Publication):
		s.unfit = fmt.Sprintf("slot %s is read by publication %s, not %s: give that as --publication", f.o.Slot,
			publications, f.o.Publication)
	}
	s.there = s.there && here && !lost
	return s, err
}

// names tells whether a list of identifiers, as PostgreSQL reads it, has name.
func names(list, name string) bool {
	for one := range strings.SplitSeq(list, ",") {
		if one = strings.TrimSpace(one); one == name || one == column.Quoted(name) {
			return true
		}
	}
	return false
}

// Examine looks whether the slot is there to which positions were moved.
//
// say tells what was found, how bad that is, and what to do about it.
func Examine(ctx context.Context, pg *pgrun.DB, say func(grade skald.Grade, saw, remedy string)) error {
	bases := pg.Call("ReadByBases")
	var ticks []outbox.Tick
	bases.Scan = func(row pgrun.Scanner) error {
		var base string
		if err := row.Scan(&base); err != nil {
			return err
		}
		t, err := outbox.ParseTick(base)
		if err == nil && SightingOf(t.Token) != nil {
			ticks = append(ticks, t)
		}
		return nil // of a tick that is none others tell
	}
	err := pg.Short(ctx, "examine", bases)
	if right := new(store.RightError); errors.As(err, &right) {
		return nil // this user may not read it
	}
	if err != nil {
		return err
	}
	for _, t := range ticks {
		was := SightingOf(t.Token)
		is, err := NewFollower(pg, nil, FollowerOptions{Slot: was.Slot}).see(ctx)
		if err != nil {
			return err
		}
		is.Where = was.Where // of which publication it was is not known here
		left, err := left(ctx, pg, t, is.next)
		if err != nil {
			return err
		}
		const remedy = "run skald relay until skald outbox shows nothing pending: it publishes again what is not known to be " +
			"published. Or begin once with skald relay --read-by --trust-slot, if the slot has had all; docs/debezium.md"
		switch {
		case is.there && is.hidden:
			say(skald.Fine, "this user may not see who reads slot "+was.Slot, "")
		case is.there && (is.SameAs(was) || !left):
			say(skald.Fine, "positions follow slot "+was.Slot, "")
		case is.there:
			say(skald.Doubtful, fmt.Sprintf("rows are there after the position, and slot %s may be another than the one "+
				"that was followed: if no skald relay --read-by is at work, nothing is emptied", was.Slot), remedy)
		default:
			say(skald.Failed, is.unfit+": positions followed it, and nothing is emptied any more", remedy)
		}
	}
	return nil
}
