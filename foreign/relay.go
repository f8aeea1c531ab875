// This file has the loop of a relay.

package foreign

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/skald-go/skald/internal/backoff"
	"github.com/skald-go/skald/internal/endpoint"
	"github.com/skald-go/skald/store"
)

// check checks once that the Table matches the table in the database.
func (r *Relay) check(ctx context.Context) error {
	if r.text != nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, storeTimeout)
	defer cancel()
	if err := r.table.check(); err != nil {
		return err
	}
	s, err := look(ctx, r.db, &r.table)
	if err != nil {
		return err
	}
	if err := r.table.checkShape(s); err != nil {
		return err
	}
	text, err := compile(&r.table, s, r.o.idleMost())
	if err != nil {
		return err
	}
	if err := r.compiles(ctx, text); err != nil {
		return err
	}
	log := r.o.Logger.With("table", r.table.Name)
	log.InfoContext(ctx, "relay: publishing a table", "broker", endpoint.DriverName(r.bus))
	endpoint.Warn(ctx, log, "relay", r.bus)
	for _, w := range r.table.warnings(s) {
		log.WarnContext(ctx, "relay: "+w[0], "remedy", w[1])
	}
	r.text = text
	return nil
}

// compiles prepares the statements, to find faults of the Table before the first row is published.
func (r *Relay) compiles(ctx context.Context, text *statements) error {
	tx, err := r.db.BeginTx(ctx, nil)
	if err != nil {
		return fmt.Errorf("begin: %w", err)
	}
	defer func() { _ = tx.Rollback() }()
	// Limit the time for which a paused process keeps the locks of the statements below.
	if _, err := tx.ExecContext(ctx, text.bound); err != nil {
		return fmt.Errorf("bound the transaction: %w", err)
	}
	for _, one := range []string{text.peek, text.page, text.payloads, text.mark} {
		s, err := tx.PrepareContext(ctx, one)
		if inMap(err) {
			return r.table.wrong("the database refuses the statement for its columns: "+err.Error(),
				"correct where, order or done, and the columns that they name")
		}
		if err != nil {
			return fmt.Errorf("read the table %s: %w", r.table.Name, err)
		}
		if err := s.Close(); err != nil {
			return fmt.Errorf("read the table %s: %w", r.table.Name, err)
		}
	}
	return nil
}

// inMap returns true if err is about a statement, and false if it is about the server, the connection or a
// right.
func inMap(err error) bool {
	class := sqlState(err)
	return class != "42501" && (strings.HasPrefix(class, "42") || strings.HasPrefix(class, "22"))
}

// sqlState returns the SQLSTATE of an error, or "".
func sqlState(err error) string {
	var state interface{ SQLState() string }
	if errors.As(err, &state) {
		return state.SQLState()
	}
	return ""
}

// Step publishes one page. It reads rows, publishes them, waits for the broker's answer, and marks the rows.
// busy is true if there may be more rows. Step does not wait for new rows.
func (r *Relay) Step(ctx context.Context) (busy bool, err error) {
	if err := r.check(ctx); err != nil {
		return false, err
	}
	did, more, err := r.turn(ctx)
	return did > 0 || more, err
}

func (r *Relay) turn(ctx context.Context) (done int, more bool, err error) {
	if r.deferred.full() {
		r.deferred.except() // removes old entries
		if r.deferred.full() {
			return 0, false, fmt.Errorf("%d rows, keys and topics are deferred, which is the limit: check the column map", deferredMost)
		}
	}
	done, more, err = r.publishPage(ctx)
	r.some = more && err == nil
	r.note(func(h *Health) {
		h.Published += int64(done)
		h.Deferred = len(r.deferred.held)
		h.Standby = errors.Is(err, errStandby)
		h.Ready = err == nil || h.Standby
		if h.Why = ""; !h.Ready {
			h.Why = err.Error()
		}
	})
	return done, more, err
}

// Run publishes until ctx is done. Then it waits for its current page, for at most Options.Drain. During
// outages of the database and the broker, Run waits. It returns an error only if a retry cannot help: a
// table, a column or a right is missing.
func (r *Relay) Run(ctx context.Context) error {
	hard, kill := context.WithCancel(context.WithoutCancel(ctx))
	defer kill()
	defer context.AfterFunc(ctx, func() { time.AfterFunc(r.o.Drain, kill) })()
	defer r.tel.Watch(r.o.Owner, r.shardState, func() bool { return false })()
	err := r.loop(ctx, hard)
	why := "stopped"
	if err != nil {
		why = err.Error()
	}
	r.note(func(h *Health) { h.Live, h.Ready, h.Why = false, false, why })
	return err
}

// shardState returns the number of owned shards for metrics; the table counts as one shard.
func (r *Relay) shardState() (shards int, ready bool) {
	h := r.Health()
	if h.Ready && !h.Standby {
		shards = 1
	}
	return shards, h.Ready
}

func (r *Relay) loop(ctx, hard context.Context) error {
	fails, active := 0, time.Time{}
	for ctx.Err() == nil {
		began := r.o.Now()
		done, more, err := 0, false, r.check(hard)
		if err == nil {
			done, more, err = r.turn(hard)
		}
		if incurable(err) {
			return fmt.Errorf("relay stops: %w", err)
		}
		wait := r.pause(began, active)
		switch {
		case errors.Is(err, errStandby):
			wait = r.o.MaxPollInterval
		case err != nil:
			fails++
			wait = backoff.After(fails, r.o.RetryFirst, r.o.RetryMost)
			if r.say.Due(r.o.Now()) {
				r.o.Logger.WarnContext(ctx, "relay: cannot continue", "table", r.table.Name, "error", err)
			}
		case done > 0 || more:
			fails, active, wait = 0, r.o.Now(), 0
		default:
			fails = 0
		}
		if err == nil && r.say.Over() {
			r.o.Logger.InfoContext(ctx, "relay: continues", "table", r.table.Name)
		}
		r.rest(ctx, wait)
	}
	return nil
}

// incurable returns true if a retry cannot help.
func incurable(err error) bool {
	var table *TableError
	var right *store.RightError
	return errors.As(err, &table) || errors.As(err, &right)
}

// pause returns the pause after a poll that found no rows.
func (r *Relay) pause(began, active time.Time) time.Duration {
	now := r.o.Now()
	wait := min(max(now.Sub(active)/20, 5*time.Millisecond), r.o.MaxPollInterval)
	if due := r.deferred.earliestDue(); !due.IsZero() {
		wait = min(wait, max(due.Sub(now), 5*time.Millisecond))
	}
	return max(wait, min(10*now.Sub(began), time.Minute)) // a poll without an index reads the whole table
}

func (r *Relay) rest(ctx context.Context, wait time.Duration) {
	if wait <= 0 {
		return
	}
	t := time.NewTimer(wait)
	defer t.Stop()
	select {
	case <-ctx.Done():
	case <-t.C:
	}
}
