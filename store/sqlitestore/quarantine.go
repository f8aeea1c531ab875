package sqlitestore

import (
	"cmp"
	"context"
	"database/sql"
	"encoding/hex"
	"errors"
	"fmt"
	"time"

	"github.com/skald-go/skald/internal/column"
	"github.com/skald-go/skald/internal/fingerprint"
	"github.com/skald-go/skald/store"
	"github.com/skald-go/skald/store/sqlitestore/internal/sqlexec"
)

// putForConsumer applies the answer, the reservation and the quarantine of e.
func putForConsumer(ctx context.Context, x *sqlexec.Session, e *store.Effect) error {
	if err := unreserve(ctx, x, e.Reservation); err != nil {
		return err
	}
	if e.Answer != nil {
		if err := storeAnswer(ctx, x, e.Answer); err != nil {
			return err
		}
	}
	if q := e.Quarantine; q != nil {
		text, err := column.EncodeBare(&q.Message)
		if err != nil {
			return err
		}
		_, err = x.Exec(ctx, "Quarantine", q.Consumer, q.Source, q.ID, q.Fingerprint, int64(q.Why),
			q.Message.Topic, q.Message.Type, text, sqlexec.Bytes(q.Message.Data))
		if err != nil {
			return fmt.Errorf("quarantine %s: %w", q.ID, err)
		}
	}
	if q := e.Admitted; q != nil {
		n, err := x.Count(ctx, "TakeAdmitted", q.Consumer, q.Source, q.ID, q.Fingerprint)
		if err == nil && n != 1 {
			err = store.ErrLost
		}
		if err != nil {
			return fmt.Errorf("take %s from quarantine: %w", q.ID, err)
		}
	}
	if a := e.Admit; a != nil {
		statement := "Admit"
		if a.Back {
			statement = "PutBack"
		}
		n, err := x.Count(ctx, statement, a.Number, a.By, a.Reason)
		if err == nil && n != 1 {
			err = store.ErrLost
		}
		if err != nil {
			return fmt.Errorf("admit %d: %w", a.Number, err)
		}
	}
	return nil
}

// Database identifies the file by the key of its fingerprints, so a copy of the file is the same database.
func (s *Store) Database(ctx context.Context) (store.Database, error) {
	key, err := s.Secret(ctx)
	if err != nil {
		return store.Database{}, err
	}
	return store.Database{ID: fingerprint.Database(hex.EncodeToString(key)), Name: "a SQLite file"}, nil
}

// Secret returns the key of the fingerprints of this database. A fingerprint is a keyed hash of a message.
func (s *Store) Secret(ctx context.Context) ([]byte, error) {
	p, err := s.run.Prepare(ctx)
	if err != nil {
		return nil, sqlexec.Failed("read key", err)
	}
	var text string
	if err := p.Row(ctx, "Secret").Scan(&text); err != nil {
		return nil, sqlexec.Failed("read key", err)
	}
	key, err := hex.DecodeString(text)
	if err != nil || len(key) < 16 {
		return nil,
			errors.Join(errors.New("read key: skald_setting has no 'fingerprint key': run: skald migrate"),
				err)
	}
	return key, nil
}

// quarantined lists messages in the quarantine.
func (s *Store) quarantined(ctx context.Context, q store.QuarantineQuery) ([]store.Quarantined, error) {
	limit := min(cmp.Or(q.Limit, 1000), 1000)
	name, args := "Quarantined", []any{q.After, q.Consumer, q.ID, q.Topic, q.Type, int64(q.Why), q.Taken,
		q.Admitted, limit, q.Bare}
	if waiting := (store.QuarantineQuery{Consumer: q.Consumer, Admitted: true, After: q.After,
		Limit: q.Limit}); q == waiting && q.Consumer != "" {
		// Consumers read this list often, so it has its own index.
		name, args = "Admitted", []any{q.After, q.Consumer, limit}
	}
	rows, err := s.run.Query(ctx, name, args...)
	if err != nil {
		return nil, sqlexec.Failed("list quarantine", err)
	}
	out, err := sqlexec.Collect(rows, quarantined)
	return out, sqlexec.Failed("list quarantine", err)
}

func quarantined(scan func(...any) error) (one store.Quarantined, err error) {
	var text, at, admitted, taken string
	var data sql.Null[[]byte]
	err = scan(&one.Number, &one.Consumer, &one.Source, &one.ID, &one.Fingerprint, &one.Why, &text, &at,
		&admitted, &one.By, &one.Reason, &taken, &data, &one.Bytes)
	if err != nil {
		return one, err
	}
	for _, t := range []struct {
		text string
		to   *time.Time
	}{{at, &one.At}, {admitted, &one.Admitted}, {taken, &one.Taken}} {
		if t.text != "" {
			if *t.to, err = time.Parse(time.RFC3339, t.text); err != nil {
				return one, err
			}
		}
	}
	if one.Message, err = column.DecodeMessage(text); err != nil {
		one.Fault = sqlexec.Fault(err)
	}
	one.Message.Data = sqlexec.Blob(data)
	return one, nil
}

// Enter applies an intake in a transaction of the caller.
func (s *Store) Enter(ctx context.Context, tx *sql.Tx, in store.Intake) (found store.Found, err error) {
	if len(in.Settings) > 0 {
		return found, sqlexec.Failed("enter", store.ErrNoSettings)
	}
	x, u, err := s.sessionOf(ctx, tx)
	if err != nil {
		return found, sqlexec.Failed("enter", err)
	}
	given := map[entity]int64{}
	if u != nil {
		given = u.given
	}
	found = store.Found{Marks: make([]store.Verdict, len(in.Marks)), Steps: make([]store.Step, len(in.Steps)),
		Locks: make([]int64, len(in.Locks)),
		Sagas: make([]bool, len(in.Sagas))}
	for i, m := range in.Marks {
		if found.Marks[i], err = markPut(ctx, x, m); err != nil {
			return found, sqlexec.Failed("enter", err)
		}
	}
	for i := range in.Steps {
		if found.Steps[i], err = step(ctx, x, &in.Steps[i]); err != nil {
			return found, sqlexec.Failed("enter", err)
		}
	}
	for i, l := range in.Locks {
		if found.Locks[i], err = lockEntity(ctx, x, l, given); err != nil {
			return found, sqlexec.Failed("enter", err)
		}
	}
	for i, r := range in.Sagas {
		if found.Sagas[i], err = hasVersion(ctx, x, r); err != nil {
			return found, sqlexec.Failed("enter", err)
		}
	}
	return found, nil
}
