package admin

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/skald-go/skald/internal/retention"
	"github.com/skald-go/skald/store"
	"github.com/skald-go/skald/store/sqlitestore/internal/sqlexec"
)

const (
	// batch is the maximum number of rows of one delete. The delete has the write lock for some milliseconds.
	batch = 500
	// batchWait is the maximum wait for the write lock. If the file is busy, the next run continues.
	batchWait = 20 * time.Millisecond
)

// maintain deletes expired rows in small transactions, the oldest first. It stops if another writer has the
// write lock for longer than batchWait.
func (s *Steward) maintain(ctx context.Context, keep store.Retention) (done store.Maintained, err error) {
	if keep, err = retention.OrDefaults(keep); err != nil {
		return done, sqlexec.Failed("maintain", err)
	}
	done.Rows, err = s.purge(ctx, &done, "skald_outbox",
		func(ctx context.Context, x *sqlexec.Session) (int64, error) {
			if _, err := x.Exec(ctx, "Looked", keep.Outbox.Milliseconds(), keep.Marks.Milliseconds(),
				keep.Steps.Milliseconds(), keep.Sagas.Milliseconds()); err != nil {
				return 0, err
			}
			var covered int64
			if err := x.Row(ctx, "Covered").Scan(&covered); err != nil {
				return 0, err
			}
			return x.Count(ctx, "DeleteRows", covered, ago(keep.Outbox), batch)
		})
	if err != nil {
		return done, sqlexec.Failed("maintain outbox", err)
	}
	done.Marks, err = s.purge(ctx, &done, "skald_mark", func(ctx context.Context, x *sqlexec.Session) (int64,
		error) {
		if _, err := x.Exec(ctx, "RaiseFloors", ago(keep.Marks), batch); err != nil {
			return 0, err
		}
		return x.Count(ctx, "DeleteMarks", ago(keep.Marks), batch)
	})
	if err != nil {
		return done, sqlexec.Failed("maintain marks", err)
	}
	expired, err := s.purge(ctx, &done, "skald_mark", func(ctx context.Context, x *sqlexec.Session) (int64,
		error) {
		if _, err := x.Exec(ctx, "RaiseExpired", ago(retention.LeastMarks), batch); err != nil {
			return 0, err
		}
		return x.Count(ctx, "DeleteExpired", ago(retention.LeastMarks), batch)
	})
	if err != nil {
		return done, sqlexec.Failed("maintain marks", err)
	}
	done.Marks += expired
	_, err = s.purge(ctx, &done, "skald_quarantine", func(ctx context.Context, x *sqlexec.Session) (int64,
		error) {
		return x.Count(ctx, "DeleteQuarantine", ago(keep.Marks), batch)
	})
	if err != nil {
		return done, sqlexec.Failed("maintain quarantine", err)
	}
	_, err = s.purge(ctx, &done, "skald_reservation", func(ctx context.Context, x *sqlexec.Session) (int64,
		error) {
		return x.Count(ctx, "DeleteReservations")
	})
	if err != nil {
		return done, sqlexec.Failed("maintain reservations", err)
	}
	done.Steps, err = s.purge(ctx, &done, "skald_step", func(ctx context.Context, x *sqlexec.Session) (int64,
		error) {
		return forgetSteps(ctx, x, keep.Steps)
	})
	if err != nil {
		return done, sqlexec.Failed("maintain steps", err)
	}
	done.Sagas, err = s.purge(ctx, &done, "skald_saga", func(ctx context.Context, x *sqlexec.Session) (int64,
		error) {
		return x.Count(ctx, "DeleteSagas", ago(keep.Sagas), batch)
	})
	if err != nil {
		return done, sqlexec.Failed("maintain sagas", err)
	}
	return done, nil
}

// forecast counts the rows that maintain would delete.
func (s *Steward) forecast(ctx context.Context, keep store.Retention) (out store.Maintained, err error) {
	if keep, err = retention.OrDefaults(keep); err != nil {
		return out, sqlexec.Failed("forecast", err)
	}
	p, err := s.run.Prepare(ctx)
	if err != nil {
		return out, sqlexec.Failed("forecast", err)
	}
	var covered int64
	if err = p.Row(ctx, "Covered").Scan(&covered); err == nil {
		err = p.Row(ctx, "Forecast", covered, ago(keep.Outbox), ago(keep.Marks),
			ago(keep.Steps), ago(keep.Sagas), ago(retention.LeastMarks)).
			Scan(&out.Rows, &out.Marks, &out.Steps, &out.Sagas)
	}
	if err != nil {
		return out, sqlexec.Failed("forecast", err)
	}
	return out, nil
}

// ago returns -d as a modifier for SQLite's time functions.
func ago(d time.Duration) string { return fmt.Sprintf("-%.3f seconds", d.Seconds()) }

// purge calls deleteBatch until no expired rows are left. Each call has its own transaction.
func (s *Steward) purge(ctx context.Context, done *store.Maintained, what string,
	deleteBatch func(context.Context, *sqlexec.Session) (int64, error)) (total int64, err error) {
	for {
		var n int64
		begun := false
		err := s.run.AloneFor(ctx, batchWait, sqlexec.DefaultHandle,
			func(ctx context.Context, x *sqlexec.Session) (err error) {
				begun = true
				if n, err = deleteBatch(ctx, x); err == nil && n > 0 {
					_, err = x.Exec(ctx, "Emptied", what)
				}
				return err
			})
		if errors.Is(err, store.ErrBusy) && !begun {
			done.Left = append(done.Left, what+": another writer has the file")
			return total, nil
		}
		if err != nil {
			return total, err
		}
		if total += n; n < batch {
			return total, nil
		}
	}
}

// forgetSteps deletes a batch of expired steps. It also raises the floors, so that a late message of a
// deleted step counts as too old.
func forgetSteps(ctx context.Context, x *sqlexec.Session, keep time.Duration) (int64, error) {
	if _, err := x.Exec(ctx, "RaiseStepFloors", ago(keep), batch); err != nil {
		return 0, err
	}
	return x.Count(ctx, "DeleteSteps", batch)
}
