package query

import (
	"cmp"
	"context"
	"crypto/rand"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/skald-go/skald/store"
	"github.com/skald-go/skald/store/pgstore/internal/sqlexec"
)

const (
	pageRows  = 5000            // number of rows in one transaction, while writers continue
	lockWait  = 2 * time.Second // maximum wait for open writers; new writers wait as long
	lockTries = 20
	lockPause = 500 * time.Millisecond // pause between two tries, so that writers can continue
)

// Recover repairs the outbox of a database that moved, and sequences that are behind the stored rows. It
// first settles the rows page by page while writers continue; a later call can repeat this part. Then two
// transactions block writers. Each of them runs the call audit, which stores an audit record. If audit is
// nil, Recover only returns what it would repair.
func (r *Recovery) Recover(ctx context.Context, audit *sqlexec.Call) (done store.Recovered, err error) {
	var recovers, horizon, moved, behind, arrivals string
	var last int64
	err = r.pg.Short(ctx, "look for a move", r.pg.Call("Recoveries").Into(&recovers),
		r.pg.Call("Moved").Into(&moved), r.pg.Call("Horizon").Into(&horizon), r.pg.Call("Walk"),
		r.pg.Call("After").Into(&behind))
	if err == nil {
		err = r.pg.Short(ctx, "read all marks", r.pg.Call("Patient"), r.pg.Call("LastArrival").Into(&last))
	}
	if err == nil {
		err = r.pg.Short(ctx, "look for a move", r.pg.Call("ArrivalAfter", last).Into(&arrivals))
	}
	saw := slices.DeleteFunc([]string{moved, cmp.Or(behind, arrivals)},
		func(s string) bool { return s == "" })
	done.Moved = strings.Join(saw, "; ")
	if err != nil || audit == nil || done.Moved == "" {
		return done, err
	}
	if behind+arrivals != "" {
		err := r.retryLocked(ctx, func() error { return r.raise(ctx, last, &done, audit) })
		switch {
		case sqlexec.Lost(err) && moved == "":
			return store.Recovered{}, nil // another recover did it meanwhile
		case sqlexec.Lost(err):
		case err != nil || moved == "":
			return done, err
		}
	}
	switch err := r.settle(ctx, recovers, horizon, &done, audit); {
	case sqlexec.Lost(err) && done.Raised == 0:
		return store.Recovered{}, nil // another recover did it meanwhile
	case err != nil && !sqlexec.Lost(err):
		return done, err
	}
	r.wake()
	return done, nil
}

// retryLocked calls f, which blocks writers. If f cannot get its lock, retryLocked calls f again after a
// pause, at most lockTries times.
func (r *Recovery) retryLocked(ctx context.Context, f func() error) error {
	for try := 1; ; try++ {
		err := f()
		switch {
		case err == nil || sqlexec.Lost(err):
			return err
		case sqlexec.SQLState(err) != "55P03" && sqlexec.SQLState(err) != "40P01" || try == lockTries:
			return fmt.Errorf("recover: block writers: %w", r.pg.Explain(err))
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(lockPause):
		}
	}
}

// Behind returns the calls that fail with a *store.MovedError if sequences are behind the stored rows, for
// example after logical replication. Otherwise the store could use a number twice: two messages would have
// one place, or a message would get the answer of another message.
func (r *Recovery) Behind() []sqlexec.Call {
	look := r.pg.Call("After")
	look.Scan = func(row sqlexec.Scanner) error {
		var saw string
		if err := row.Scan(&saw); err != nil || saw == "" {
			return err
		}
		return &store.MovedError{Observed: saw}
	}
	return []sqlexec.Call{r.pg.Call("Walk"), look}
}

// raise moves the sequences past the numbers in use, and runs the call audit.
func (r *Recovery) raise(ctx context.Context, arrival int64, done *store.Recovered,
	audit *sqlexec.Call) error {
	raised := 0
	calls := []sqlexec.Call{r.pg.Session(lockWait, sqlexec.DefaultHandle), r.pg.Call("Walk"),
		r.pg.Call("LockNumbered"), r.pg.Call("GuardBehind", arrival)}
	for _, up := range []sqlexec.Call{r.pg.Call("RaiseAudits"), r.pg.Call("RaisePlaces"),
		r.pg.Call("RaiseArrivals", arrival), r.pg.Call("RaiseQuarantined")} {
		up.Scan = func(row sqlexec.Scanner) error {
			raised++
			var to int64
			return row.Scan(&to)
		}
		calls = append(calls, up)
	}
	err := r.pg.Runner.Run(ctx, append(calls, *audit)...)
	if err == nil {
		done.Raised = raised
	}
	return err
}

// settle finds out, page by page, which rows the shards have published. Then it resets the shards, so that
// relays publish the other rows. If a guard fails, another recovery has settled the database.
func (r *Recovery) settle(ctx context.Context, recovers, horizon string, done *store.Recovered,
	note *sqlexec.Call) error {
	guarded := func(act string, calls ...sqlexec.Call) error {
		all := append([]sqlexec.Call{r.pg.Call("Walk"), r.pg.Call("LockPage"),
			r.pg.Call("GuardRecoveries", recovers)}, calls...)
		return r.retryLocked(ctx, func() error { return r.pg.Short(ctx, act, all...) })
	}
	for after := int64(0); ; {
		var rows, last, covered, again int64
		err := guarded("settle rows", r.pg.Call("SettlePage", after, int32(pageRows), horizon,
			recovers).Into(&rows, &last, &covered, &again))
		if err != nil {
			return err
		}
		if rows == 0 {
			break
		}
		after, done.Covered, done.Again = last, done.Covered+covered, done.Again+again
	}
	if err := guarded("raise the sequence of ticks", r.pg.Call("RaiseSnapshots")); err != nil {
		return err
	}
	return r.retryLocked(ctx, func() error { return r.finishSettling(ctx, recovers, horizon, done, note) })
}

// finishSettling finishes the recovery in one transaction. It settles the rows that were written meanwhile,
// gives new numbers to rows with a duplicate number, and resets the shards.
func (r *Recovery) finishSettling(ctx context.Context, recovers, horizon string, done *store.Recovered,
	note *sqlexec.Call) error {
	token := rand.Text()
	var late, renumbered, shards int64
	settle, renumber, seat := r.pg.Call("SettleNew", horizon), r.pg.Call("Renumber", token),
		r.pg.Call("SeatShards", token)
	settle.Done = func(n int64) { late = n }
	renumber.Done = func(n int64) { renumbered = n }
	seat.Done = func(n int64) { shards = n }
	err := r.pg.Runner.Run(ctx, r.pg.Session(lockWait, sqlexec.DefaultHandle), r.pg.Call("Walk"),
		r.pg.Call("LockOutbox"), r.pg.Call("RecoverSnapshot", token),
		r.pg.Call("RecoverOnce"), r.pg.Call("GuardRecoveries", recovers), settle, renumber, seat,
		r.pg.Call("ForgetAllRelays"), r.pg.Call("EndRecover"), *note)
	if err != nil {
		return err
	}
	done.Again, done.Renumbered, done.Shards = done.Again+late, renumbered, int(shards)
	return nil
}
