package pgstore

import (
	"cmp"
	"context"
	"strconv"
	"strings"
	"time"

	"github.com/skald-go/skald/store"
)

// spotting are the calls that read a consumer's spots by the statement of that name, and say which server it is.
func (c *core) spotting(statement, consumer string, out *store.Spots) []call {
	server := c.call("Server")
	server.scan = func(row scanner) error {
		var start time.Time
		var database int64
		err := row.Scan(&start, &database)
		out.Server = start.UTC().Format(time.RFC3339Nano) + "/" + strconv.FormatInt(database, 10)
		return err
	}
	read := c.call(statement, name(consumer))
	read.scan = func(row scanner) error {
		var s store.Spot
		err := row.Scan(&s.Lane, &s.Origin, &s.Position, &s.Reach, &s.Suspect, &s.Life, &s.Note, &s.At)
		s.At = s.At.UTC()
		out.Spots = append(out.Spots, s)
		return err
	}
	return []call{read, server}
}

// begun is when the server of that name began; nil: it is none.
func begun(server string) *time.Time {
	at, _, _ := strings.Cut(server, "/")
	if t, err := time.Parse(time.RFC3339Nano, at); err == nil {
		return &t
	}
	return nil
}

// databaseOf is the number of the database on it.
func databaseOf(server string) int64 {
	_, number, _ := strings.Cut(server, "/")
	n, err := strconv.ParseInt(number, 10, 64)
	if err != nil {
		return 0 // no database has it
	}
	return n
}

// Spots tells how a consumer stands: one round trip.
func (c *core) Spots(ctx context.Context, consumer string) (out store.Spots, err error) {
	if err = c.short(ctx, "read spots", c.spotting("Spots", consumer, &out)...); err != nil {
		return store.Spots{}, err
	}
	return out, nil
}

// Occupy notes who has lanes: one round trip. Behind a change of the server nothing is taken before it, so that it is what looks at the numbers.
func (c *core) Occupy(ctx context.Context, consumer, life, note string, lanes []store.Spot) (out store.Spots, err error) {
	var l spotLists
	for i := range lanes {
		l.add(&lanes[i])
	}
	calls := append(append([]call{c.call("Walk"), c.call("GuardNumbers")}, c.spotting("SpotsLocked", consumer, &out)...),
		c.call("Unclaim", name(consumer), legible(life), l.lanes),
		c.call("OccupySpots", name(consumer), legible(life), legible(note), l.lanes, l.origins, l.positions, l.reaches))
	if err = c.short(ctx, "occupy lanes", calls...); lost(err) {
		err = cmp.Or(c.short(ctx, "occupy lanes", c.behind()...), err) // why
	}
	if err != nil {
		return store.Spots{}, err
	}
	return out, nil
}

// Advance stores how far lanes have come: one statement for all of them.
func (c *core) Advance(ctx context.Context, consumer, server, note string, lanes []store.Spot) (out store.Spots, err error) {
	var l spotLists
	for i := range lanes {
		l.add(&lanes[i])
	}
	calls := c.spotting("Spots", consumer, &out)
	if len(lanes) > 0 {
		calls = append([]call{c.call("AdvanceSpots", name(consumer), begun(server), legible(note), l.lanes, l.notes, l.positions, l.reaches, l.lives,
			databaseOf(server))}, calls...)
	}
	if err = c.short(ctx, "advance lanes", calls...); err != nil {
		return store.Spots{}, err
	}
	return out, nil
}

type spotLists struct {
	lanes, origins, lives, notes []string
	positions, reaches           []int64
}

func (l *spotLists) add(s *store.Spot) {
	l.lanes, l.origins = append(l.lanes, legible(s.Lane)), append(l.origins, legible(s.Origin))
	l.lives, l.notes = append(l.lives, legible(s.Life)), append(l.notes, legible(s.Note))
	l.positions, l.reaches = append(l.positions, s.Position), append(l.reaches, s.Reach)
}

func (c *core) rewind(r *store.Rewind) call {
	return c.call("RewindSpot", name(r.Consumer), legible(r.Lane), legible(r.Origin), r.Position, legible(r.Note))
}
