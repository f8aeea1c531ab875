package wal

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
	"github.com/skald-go/skald/store/pgstore/internal/query"
	"github.com/skald-go/skald/store/pgstore/internal/sqlexec"
)

// sighting is the result of one check of a slot that another program reads.
type sighting struct {
	slot      string
	place     int64  // the end of the WAL just before the check
	where     string // a hash of the server, its timeline, the database and the publication
	session   string // a hash of the session that reads the slot; "" without such a session
	restart   int64  // restart_lsn of the slot, which is not before the creation of the slot
	confirmed int64  // confirmed_flush_lsn of the slot
	end       int64  // the end of the WAL just after the check
	// oldest and next are transaction numbers at the check. All transactions before oldest had ended, and no
	// transaction had the number next or a later number.
	oldest, next uint64
	bases        []string // the positions of the shards
	there        bool     // the slot exists and is usable
	hidden       bool     // this user may not see the session that reads the slot
	unfit        string   // the reason why a Follower cannot use the slot
}

// sameAs reports whether the slot is certainly the same slot as at an earlier check. A new slot with the
// same name is excluded in two cases: the slot was created before the earlier check, or the same session
// still reads the slot, so nobody can have dropped it.
func (s *sighting) sameAs(earlier *sighting) bool {
	if earlier == nil || s.slot != earlier.slot || s.where != earlier.where {
		return false
	}
	return s.restart < earlier.place || s.session != "" && s.session == earlier.session
}

// String returns s as the token of a tick, so that a later process can recognize the slot: see sightingOf.
func (s *sighting) String() string {
	return fmt.Sprintf("%s.%d.%s.%s", s.slot, s.place, s.where, s.session)
}

// sightingOf parses the token of a tick. It returns nil for the tick of a relay that publishes.
func sightingOf(token string) *sighting {
	f := strings.Split(token, ".")
	if len(f) != 5 {
		return nil
	}
	place, err := strconv.ParseInt(f[2], 10, 64)
	if err != nil {
		return nil
	}
	return &sighting{slot: f[1], place: place, where: f[3], session: f[4]}
}

func digest(text string) string {
	if text == "" {
		return ""
	}
	sum := sha256.Sum256([]byte(text))
	return hex.EncodeToString(sum[:8])
}

// checkSlot checks the slot. It reads the end of the WAL first, then the slot, then the transactions: see
// the statements for the reasons.
func (f *Follower) checkSlot(ctx context.Context) (*sighting, error) {
	s := &sighting{slot: f.o.Slot}
	var server, published, plugin, status, session, publications, oldest, next string
	var here bool
	var pid int32
	var out []LeftOut
	bases := f.pg.Call("ReadByBases")
	bases.Scan = func(row sqlexec.Scanner) error {
		s.bases = append(s.bases, "")
		return row.Scan(&s.bases[len(s.bases)-1])
	}
	err := f.pg.Short(ctx, "look at slot "+f.o.Slot,
		sqlexec.Call{SQL: f.text["ReadByPlace"]}.Into(&s.place, &server),
		sqlexec.Call{SQL: f.text["ReadBySlot"]}.Into(&s.there, &plugin, &here, &status, &s.restart,
			&s.confirmed, &pid, &session,
			&publications),
		sqlexec.Call{SQL: f.text["ReadBySnapshot"]}.Into(&oldest, &next, &published, &s.end), bases,
		ListLeftOut(f.pg, &out))
	if err != nil {
		return nil, err
	}
	s.where, s.session, s.hidden = digest(server+" "+published), digest(session), pid != 0 && session == ""
	if s.oldest, err = strconv.ParseUint(oldest, 10, 64); err == nil {
		s.next, err = strconv.ParseUint(next, 10, 64)
	}
	i := slices.IndexFunc(out, func(one LeftOut) bool { return one.Publication == f.o.Publication })
	lost := status == "lost" || s.restart == 0 || s.confirmed == 0
	switch {
	case !s.there:
		s.unfit = fmt.Sprintf("there is no slot %s", f.o.Slot)
	case plugin != "pgoutput" || !here:
		s.unfit = fmt.Sprintf("slot %s is not one of pgoutput and of this database", f.o.Slot)
	case lost:
		s.unfit = fmt.Sprintf("slot %s was invalidated by the server, or was never ready", f.o.Slot)
	case published == "":
		s.unfit = fmt.Sprintf(
			"publication %s does not have all rows of the outbox, as rows of skald_outbox: "+
				"skald debezium config prints how it is made", f.o.Publication)
	case i >= 0:
		s.unfit = fmt.Sprintf("publication %s leaves out the columns %s, which Debezium reads as NULL: make it without a list of columns, "+
			"as skald debezium config prints", f.o.Publication, out[i].Columns)
	case s.hidden:
		s.unfit = "this role may not see the session that reads the slot: GRANT pg_read_all_stats TO it"
	case publications != "" && !names(publications, f.o.Publication):
		s.unfit = fmt.Sprintf("slot %s is read by publication %s, not %s: give that as --publication",
			f.o.Slot,
			publications, f.o.Publication)
	}
	s.there = s.there && here && !lost
	return s, err
}

// names reports whether list, a list of SQL identifiers, has name.
func names(list, name string) bool {
	for one := range strings.SplitSeq(list, ",") {
		if one = strings.TrimSpace(one); one == name || one == sqlexec.Quoted(name) {
			return true
		}
	}
	return false
}

// Examine checks the slots that the positions of the shards follow. It calls report with each result and its
// remedy.
func Examine(ctx context.Context, pg *sqlexec.DB, report func(grade skald.Grade, saw, remedy string)) error {
	bases := pg.Call("ReadByBases")
	var ticks []query.Tick
	bases.Scan = func(row sqlexec.Scanner) error {
		var base string
		if err := row.Scan(&base); err != nil {
			return err
		}
		t, err := query.ParseTick(base)
		if err == nil && sightingOf(t.Token) != nil {
			ticks = append(ticks, t)
		}
		return nil // others report an invalid tick
	}
	err := pg.Short(ctx, "examine", bases)
	if right := new(store.RightError); errors.As(err, &right) {
		return nil // this user may not read the shards
	}
	if err != nil {
		return err
	}
	for _, t := range ticks {
		was := sightingOf(t.Token)
		is, err := NewFollower(pg, nil, FollowerOptions{Slot: was.slot}).checkSlot(ctx)
		if err != nil {
			return err
		}
		is.where = was.where // the publication at that look is not known
		left, err := hasEarlier(ctx, pg, t, is.next)
		if err != nil {
			return err
		}
		const remedy = "run skald relay until skald outbox shows nothing pending: it publishes again each row that is not known to be " +
			"published. Or begin once with skald relay --read-by --trust-slot, if the slot has had all; docs/adopt.md"
		switch {
		case is.there && is.hidden:
			report(skald.Fine, "this user may not see the session that reads slot "+was.slot, "")
		case is.there && (is.sameAs(was) || !left):
			report(skald.Fine, "positions follow slot "+was.slot, "")
		case is.there:
			report(skald.Doubtful,
				fmt.Sprintf("there are rows above the position, and slot %s may be another than the one "+
					"that was followed: if no skald relay --read-by runs, the retention deletes nothing",
					was.slot), remedy)
		default:
			report(skald.Failed,
				is.unfit+": positions followed it, and the retention deletes nothing any more", remedy)
		}
	}
	return nil
}
