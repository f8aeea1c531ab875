package query

import (
	"cmp"
	"context"
	"strconv"
	"strings"
	"time"

	"github.com/skald-go/skald/store"
	"github.com/skald-go/skald/store/pgstore/internal/sqlexec"
)

// spotting returns two calls: statement, which reads the checkpoints of a consumer, and one that identifies
// the server. A consumer compares the server to detect lost commits after a fail-over.
func (c *Consumers) spotting(statement, consumer string, out *store.SyncResult) []sqlexec.Call {
	server := c.pg.Call("Server")
	server.Scan = func(row sqlexec.Scanner) error {
		var start time.Time
		var database int64
		var tables string
		err := row.Scan(&start, &database, &tables)
		out.Server = start.UTC().Format(time.RFC3339Nano) + "/" + strconv.FormatInt(database, 10) +
			"/" + tables
		return err
	}
	read := c.pg.Call(statement, sqlexec.Name(consumer))
	read.Scan = func(row sqlexec.Scanner) error {
		var s store.Checkpoint
		err := row.Scan(&s.Partition, &s.Origin, &s.Position, &s.InFlightEnd, &s.CrashSuspect, &s.Session,
			&s.Stamp, &s.At)
		s.At = s.At.UTC()
		out.Checkpoints = append(out.Checkpoints, s)
		return err
	}
	return []sqlexec.Call{read, server}
}

// Read returns the calls that read a consumer's checkpoints into the result.
func (c *Consumers) Read(consumer string, result *store.SyncResult) []sqlexec.Call {
	return c.spotting("Checkpoints", consumer, result)
}

// ServerStart returns the start time in server, a SyncResult.Server; nil if server is not valid.
func ServerStart(server string) *time.Time {
	at, _, _ := strings.Cut(server, "/")
	if t, err := time.Parse(time.RFC3339Nano, at); err == nil {
		return &t
	}
	return nil
}

// tablesOf returns the number of the database and the id of the tables in server, a SyncResult.Server.
func tablesOf(server string) (database int64, tables string) {
	_, rest, _ := strings.Cut(server, "/")
	number, tables, _ := strings.Cut(rest, "/")
	database, err := strconv.ParseInt(number, 10, 64)
	if err != nil {
		return 0, tables // no database has the number 0
	}
	return database, tables
}

// SyncConsumer writes the state of a consumer's process and reads that of the consumer: one round trip.
func (c *Consumers) SyncConsumer(ctx context.Context, a store.SyncRequest) (out store.SyncResult, err error) {
	var l lists
	for i := range a.Checkpoints {
		l.add(&a.Checkpoints[i])
	}
	var calls []sqlexec.Call
	switch {
	case a.Take:
		// No call before GuardNumbers may lock rows. So after a change of servers, GuardNumbers checks the
		// numbers of the new server.
		calls = append(append([]sqlexec.Call{c.pg.Call("Walk"), c.pg.Call("GuardNumbers")},
			c.spotting("CheckpointsLocked", a.Consumer, &out)...),
			c.pg.Call("Unclaim", sqlexec.Name(a.Consumer), sqlexec.StorableText(a.Session), l.partitions),
			c.pg.Call("OccupyCheckpoints", sqlexec.Name(a.Consumer), sqlexec.StorableText(a.Session),
				sqlexec.StorableText(a.Stamp), l.partitions, l.origins, l.positions, l.reaches))
	case len(a.Checkpoints) > 0:
		database, tables := tablesOf(a.Server)
		calls = append([]sqlexec.Call{c.pg.Call("AdvanceCheckpoints", sqlexec.Name(a.Consumer),
			ServerStart(a.Server),
			sqlexec.StorableText(a.Stamp), l.partitions, l.notes, l.positions, l.reaches,
			l.sessions, database, sqlexec.StorableText(tables))},
			c.spotting("Checkpoints", a.Consumer, &out)...)
	default:
		calls = c.Read(a.Consumer, &out)
	}
	if a.Heartbeat != nil {
		calls = append(calls, c.heartbeat(a.Consumer, *a.Heartbeat, &out)...)
	}
	if err = c.pg.Short(ctx, "sync the consumer", calls...); a.Take && sqlexec.Lost(err) {
		// Behind returns the reason as an error.
		err = cmp.Or(c.pg.Short(ctx, "sync the consumer", c.recovery.Behind()...), err)
	}
	if err != nil {
		return store.SyncResult{}, err
	}
	return out, nil
}

// Control returns the calls that store an instruction, such as a pause, for the processes of a consumer.
func (c *Consumers) Control(o *store.Control) (calls []sqlexec.Call) {
	for i := range o.Checkpoints {
		var l lists
		l.add(&o.Checkpoints[i])
		calls = append(calls, c.pg.Call("OccupyCheckpoints", sqlexec.Name(o.Consumer),
			sqlexec.StorableText(o.Checkpoints[i].Session), sqlexec.StorableText(o.Checkpoints[i].Stamp),
			l.partitions, l.origins, l.positions, l.reaches))
	}
	return calls
}

// Rewind returns the call that moves a consumer back to an earlier position.
func (c *Consumers) Rewind(r *store.Rewind) sqlexec.Call {
	return c.pg.Call("RewindCheckpoint", sqlexec.Name(r.Consumer), sqlexec.StorableText(r.Partition),
		sqlexec.StorableText(r.Origin), r.Position, sqlexec.StorableText(r.Stamp))
}

// lists has checkpoints as arrays, one for each column.
type lists struct {
	partitions, origins, sessions, notes []string
	positions, reaches                   []int64
}

func (l *lists) add(s *store.Checkpoint) {
	l.partitions, l.origins = append(l.partitions, sqlexec.StorableText(s.Partition)),
		append(l.origins, sqlexec.StorableText(s.Origin))
	l.sessions, l.notes = append(l.sessions, sqlexec.StorableText(s.Session)),
		append(l.notes, sqlexec.StorableText(s.Stamp))
	l.positions, l.reaches = append(l.positions, s.Position), append(l.reaches, s.InFlightEnd)
}
