package pgstore

import (
	"cmp"
	"context"
	"strconv"
	"strings"
	"time"

	"github.com/skald-go/skald/store"
)

// spotting are the calls that read a consumer's checkpoints by the statement of that name, and say which
// server it is.
func (c *core) spotting(statement, consumer string, out *store.Attended) []call {
	server := c.call("Server")
	server.scan = func(row scanner) error {
		var start time.Time
		var database int64
		var tables string
		err := row.Scan(&start, &database, &tables)
		out.Server = start.UTC().Format(time.RFC3339Nano) + "/" + strconv.FormatInt(database, 10) + "/" + tables
		return err
	}
	read := c.call(statement, name(consumer))
	read.scan = func(row scanner) error {
		var s store.Checkpoint
		err := row.Scan(&s.Partition, &s.Origin, &s.Position, &s.InFlightEnd, &s.CrashSuspect, &s.Session, &s.Stamp, &s.At)
		s.At = s.At.UTC()
		out.Checkpoints = append(out.Checkpoints, s)
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

// tablesOf are the number of the database on that server, and the name of the tables in it.
func tablesOf(server string) (database int64, tables string) {
	_, rest, _ := strings.Cut(server, "/")
	number, tables, _ := strings.Cut(rest, "/")
	database, err := strconv.ParseInt(number, 10, 64)
	if err != nil {
		return 0, tables // no database has it
	}
	return database, tables
}

// Attend reads how far a consumer has come, and writes what its process knows: one round trip.
func (c *core) Attend(ctx context.Context, a store.Attend) (out store.Attended, err error) {
	var l checkpointLists
	for i := range a.Checkpoints {
		l.add(&a.Checkpoints[i])
	}
	var calls []call
	switch {
	case a.Take:
		// after a change of the server nothing is taken before it, so GuardNumbers looks at the new one's
		// numbers
		calls = append(append([]call{c.call("Walk"), c.call("GuardNumbers")}, c.spotting("CheckpointsLocked", a.Consumer, &out)...),
			c.call("Unclaim", name(a.Consumer), legible(a.Session), l.partitions),
			c.call("OccupyCheckpoints", name(a.Consumer), legible(a.Session), legible(a.Stamp), l.partitions, l.origins, l.positions, l.reaches))
	case len(a.Checkpoints) > 0:
		database, tables := tablesOf(a.Server)
		calls = append([]call{c.call("AdvanceCheckpoints", name(a.Consumer), begun(a.Server), legible(a.Stamp), l.partitions, l.notes, l.positions, l.reaches,
			l.sessions, database, legible(tables))}, c.spotting("Checkpoints", a.Consumer, &out)...)
	default:
		calls = c.spotting("Checkpoints", a.Consumer, &out)
	}
	if a.Beat != nil {
		calls = append(calls, c.beat(a.Consumer, *a.Beat, &out)...)
	}
	if err = c.short(ctx, "attend", calls...); a.Take && lost(err) {
		err = cmp.Or(c.short(ctx, "attend", c.behind()...), err) // why
	}
	if err != nil {
		return store.Attended{}, err
	}
	return out, nil
}

type checkpointLists struct {
	partitions, origins, sessions, notes []string
	positions, reaches                   []int64
}

func (l *checkpointLists) add(s *store.Checkpoint) {
	l.partitions, l.origins = append(l.partitions, legible(s.Partition)), append(l.origins, legible(s.Origin))
	l.sessions, l.notes = append(l.sessions, legible(s.Session)), append(l.notes, legible(s.Stamp))
	l.positions, l.reaches = append(l.positions, s.Position), append(l.reaches, s.InFlightEnd)
}

func (c *core) rewind(r *store.Rewind) call {
	return c.call("RewindCheckpoint", name(r.Consumer), legible(r.Partition), legible(r.Origin), r.Position, legible(r.Stamp))
}
