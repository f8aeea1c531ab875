package sqlitestore

import (
	"database/sql"
	"time"

	"github.com/skald-go/skald"
	"github.com/skald-go/skald/internal/column"
	"github.com/skald-go/skald/store"
	"github.com/skald-go/skald/store/sqlitestore/internal/sqlexec"
)

// scanKept reads a row of the statements Claim or Parked. If the envelope of a message is unreadable, it sets
// Fault.
func scanKept(scan func(...any) error) (p store.Parked, err error) {
	var (
		key, data, env        sql.Null[[]byte]
		firstAt, lastAt, died sql.NullString
		at                    *string
		failures              string
		d                     store.Death
		due, since            int64
	)
	if err := scan(&p.Consumer, &p.Source, &p.ID, &p.Attempts, &due, &d.BlocksKey, &firstAt, &p.First.Why,
		&p.First.Host, &lastAt, &p.Last.Why,
		&p.Last.Host, &died, &d.Kind, &d.Fingerprint, &d.Stack, &d.Version, &key, &data, &env, &p.Partition,
		&p.Position, &p.Fault,
		&p.Waiting, &p.Place, &since, &at, &p.Claims, &p.CrashCount, &p.Session, &failures); err != nil {
		return p, err
	}
	if p.Message, err = column.OpenEnvelope(env.V, sqlexec.Blob(key), sqlexec.Blob(data)); err != nil {
		// not an error of scanKept, so that the list can continue with other messages
		p.Message, p.Fault = skald.Message{ID: p.ID, Source: p.Source, Key: sqlexec.Blob(key),
			Data: sqlexec.Blob(data)},
			sqlexec.Fault(err)
	}
	if p.Call, err = column.DecodeCall(at); err != nil {
		p.Fault = sqlexec.Fault(err)
	} else if p.Call != nil {
		p.Call.Age = time.Since(p.Call.Since) // SQLite uses the clock of this machine, too
	}
	p.Failures = column.DecodeFailures(failures)
	p.Since = time.UnixMilli(since).UTC()
	p.First.At, p.Last.At = sqlexec.ReadTime(firstAt.String), sqlexec.ReadTime(lastAt.String)
	if died.Valid {
		d.At = sqlexec.ReadTime(died.String)
		p.Dead = &d
	}
	if p.Dead == nil && !p.Waiting {
		p.Due = time.Duration(due) * time.Millisecond
	}
	return p, nil
}
