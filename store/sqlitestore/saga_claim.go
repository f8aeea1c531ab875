package sqlitestore

import (
	"cmp"
	"context"
	"database/sql"
	"slices"
	"time"

	"github.com/skald-go/skald/internal/sagarow"
	"github.com/skald-go/skald/store"
	"github.com/skald-go/skald/store/sqlitestore/internal/sqlexec"
)

// dueSaga is a saga that a process may claim.
type dueSaga struct {
	name, key string
	due       int64
	session   string // the session that had the expired lease
	bytes     int
}

func scanDue(scan func(...any) error) (d dueSaga, err error) {
	err = scan(&d.name, &d.key, &d.due, &d.session, &d.bytes)
	return d, err
}

// Claim claims due sagas. It writes nothing if no sagas are due.
func (s *sagaTable) Claim(ctx context.Context, w store.ClaimRequest) (out store.Claimed, err error) {
	hashes := slices.Compact(slices.Sorted(slices.Values(w.Sagas.Hashes)))
	some, next, err := s.anyDue(ctx, hashes)
	if err == nil && some {
		err = s.run.Alone(ctx, func(ctx context.Context, x *sqlexec.Session) (err error) {
			out.Sagas, some, err = claimDue(ctx, x, w, hashes)
			return err
		})
	}
	if err != nil {
		return store.Claimed{}, sqlexec.Failed("claim sagas", err)
	}
	if out.Next = next; some {
		out.Next = 0
	}
	return out, nil
}

// anyDue reports whether sagas are due. It also returns the time until another saga is due; -1 if no saga
// will be.
func (s *sagaTable) anyDue(ctx context.Context, hashes []string) (some bool, next time.Duration, err error) {
	next = -1
	p, err := s.run.Prepare(ctx)
	if err != nil {
		return false, next, err
	}
	for _, hash := range hashes {
		var in sql.NullInt64
		var due int
		if err := p.Row(ctx, "NextSaga", hash).Scan(&in, &due); err != nil {
			return false, next, err
		}
		if d := time.Duration(max(in.Int64, 1)) * time.Millisecond; in.Valid && (next < 0 || d < next) {
			next = d
		}
		some = some || due > 0
	}
	return some, next, nil
}

// claimDue claims due sagas. It returns true if more sagas are due.
func claimDue(ctx context.Context, x *sqlexec.Session, w store.ClaimRequest,
	hashes []string) (out []store.Saga, more bool, err error) {
	var all []dueSaga
	for _, hash := range hashes {
		rows, err := x.Rows(ctx, "DueSagas", hash, w.Sagas.Limit+1)
		if err != nil {
			return nil, false, err
		}
		due, err := sqlexec.Collect(rows, scanDue)
		if err != nil {
			return nil, false, err
		}
		all = append(all, due...)
	}
	slices.SortFunc(all, func(a, b dueSaga) int {
		return cmp.Or(cmp.Compare(a.due, b.due), cmp.Compare(a.name, b.name), cmp.Compare(a.key, b.key))
	})
	bytes := 0
	for _, d := range all {
		if bytes += d.bytes; len(out) == w.Sagas.Limit || len(out) > 0 && bytes > sagarow.MaxClaim {
			return out, true, nil
		}
		if _, err := x.Exec(ctx, "ClaimSaga", d.name, d.key, w.Session,
			sqlexec.Milliseconds(w.Lease)); err != nil {
			return nil, false, err
		}
		one, err := scanSaga(x.Row(ctx, "FindSaga", d.name, d.key).Scan)
		if err != nil {
			return nil, false, err
		}
		one.Lapsed = d.session
		out = append(out, one)
	}
	return out, false, nil
}
