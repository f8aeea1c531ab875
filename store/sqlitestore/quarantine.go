package sqlitestore

import (
	"cmp"
	"context"
	"database/sql"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/skald-go/skald/internal/held"
	"github.com/skald-go/skald/store"
)

// verdict reads what FindMark answers.
func verdict(row *sql.Row, v *store.Verdict) error {
	var result []byte
	err := row.Scan(&v.Outcome, &v.Reason, &v.Fingerprint, &v.Code, &result, &v.Said)
	v.Result = string(result)
	return err
}

// answer stores what the handler answers with its mark.
func (x *session) answer(ctx context.Context, m *store.Mark) error {
	if !storable(m.As) {
		return fmt.Errorf("answer %s: outcome %d cannot be stored", m.ID, m.As)
	}
	reason := sql.NullString{String: clip(m.Reason), Valid: m.As == store.Rejected}
	var result []byte
	if m.Result != "" {
		result = []byte(m.Result)
	}
	n, err := x.count(ctx, "AnswerMark", m.Consumer, m.Source, m.ID, int64(m.As), reason, m.Code, result, sql.NullString{String: m.Said, Valid: m.Said != ""})
	if err == nil && n != 1 {
		err = store.ErrLost
	}
	if err != nil {
		return fmt.Errorf("answer %s: %w", m.ID, err)
	}
	return nil
}

// keepApart is what e does with answers and with the quarantine.
func (x *session) keepApart(ctx context.Context, e *store.Effect) error {
	if e.Answer != nil {
		if err := x.answer(ctx, e.Answer); err != nil {
			return err
		}
	}
	if q := e.Quarantine; q != nil {
		text, err := held.Encode(&q.Message)
		if err != nil {
			return err
		}
		_, err = x.exec(ctx, "Quarantine", q.Consumer, q.Source, q.ID, q.Fingerprint, int64(q.Why), q.Message.Topic, q.Message.Type, text)
		if err != nil {
			return fmt.Errorf("quarantine %s: %w", q.ID, err)
		}
	}
	if q := e.Admitted; q != nil {
		n, err := x.count(ctx, "TakeAdmitted", q.Consumer, q.Source, q.ID, q.Fingerprint)
		if err == nil && n != 1 {
			err = store.ErrLost
		}
		if err != nil {
			return fmt.Errorf("take %s from quarantine: %w", q.ID, err)
		}
	}
	return nil
}

// Secret is the key of this database's fingerprints.
func (s *Store) Secret(ctx context.Context) ([]byte, error) {
	p, err := s.prepare(ctx)
	if err != nil {
		return nil, failed("read key", err)
	}
	var text string
	if err := p.stmts["Secret"].QueryRowContext(ctx).Scan(&text); err != nil {
		return nil, failed("read key", err)
	}
	key, err := hex.DecodeString(text)
	if err != nil || len(key) < 16 {
		return nil, errors.Join(errors.New("read key: skald_setting has no 'fingerprint key': run: skald migrate"), err)
	}
	return key, nil
}

// Quarantined lists messages in quarantine.
func (s *Store) Quarantined(ctx context.Context, q store.Query) ([]store.Quarantined, error) {
	limit := min(cmp.Or(q.Limit, 1000), 1000)
	rows, err := s.query(ctx, "Quarantined", q.After, q.Consumer, q.ID, q.Topic, q.Type, int64(q.Why), q.Taken, limit)
	if q.Admitted && q.Consumer != "" {
		if err == nil {
			err = rows.Close()
		}
		if err == nil {
			rows, err = s.query(ctx, "Admitted", q.After, q.Consumer, limit)
		}
	}
	if err != nil {
		return nil, failed("list quarantine", err)
	}
	out, err := collect(rows, quarantined)
	if err != nil {
		return nil, failed("list quarantine", err)
	}
	if q.Admitted {
		out = slices.DeleteFunc(out, func(one store.Quarantined) bool { return one.Admitted.IsZero() })
	}
	return out, nil
}

func quarantined(scan func(...any) error) (one store.Quarantined, err error) {
	var text, at, admitted, taken string
	err = scan(&one.Number, &one.Consumer, &one.Source, &one.ID, &one.Fingerprint, &one.Why, &text, &at, &admitted, &one.By, &one.Reason, &taken)
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
	one.Message, err = held.Decode(text)
	return one, err
}

// Admit lets consumers take what is in quarantine.
func (s *Store) Admit(ctx context.Context, numbers []int64, by, reason string) (int, error) {
	x, err := s.begin(ctx, s.wait, defaultHandle)
	if err != nil {
		return 0, failed("admit", err)
	}
	total := int64(0)
	for _, number := range numbers {
		n, err := x.count(quiet(ctx), "Admit", number, by, reason)
		if err != nil {
			err = x.why(err)
			return 0, failed("admit", errors.Join(err, x.close()))
		}
		total += n
	}
	defer x.end()
	x.timer.Stop()
	if err := x.commit(); err != nil {
		return 0, failed("admit", err)
	}
	return int(total), nil
}

// Enter takes in within a transaction of the caller's own.
func (s *Store) Enter(ctx context.Context, tx *sql.Tx, in store.Intake) (found store.Found, err error) {
	if len(in.Settings) > 0 {
		return found, failed("enter", store.ErrNoSettings)
	}
	x, u, err := s.within(ctx, tx)
	if err != nil {
		return found, failed("enter", err)
	}
	given := map[entity]int64{}
	if u != nil {
		given = u.given
	}
	found = store.Found{Marks: make([]store.Verdict, len(in.Marks)), Steps: make([]store.Step, len(in.Steps)), Locks: make([]int64, len(in.Locks))}
	for i, m := range in.Marks {
		if found.Marks[i], err = x.mark(ctx, m); err != nil {
			return found, failed("enter", err)
		}
	}
	for i := range in.Steps {
		if found.Steps[i], err = x.step(ctx, &in.Steps[i]); err != nil {
			return found, failed("enter", err)
		}
	}
	for i, l := range in.Locks {
		if found.Locks[i], err = x.entity(ctx, l, given); err != nil {
			return found, failed("enter", err)
		}
	}
	return found, nil
}
