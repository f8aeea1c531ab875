package memstore

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/skald-go/skald/store"
	"github.com/skald-go/skald/store/memstore/internal/mark"
	"github.com/skald-go/skald/store/memstore/internal/own"
)

type apartKey struct {
	mark.Key
	fingerprint int64
}

func keyApart(q *store.Quarantined) apartKey {
	return apartKey{mark.Key{Consumer: q.Consumer, Identity: q.Identity}, q.Fingerprint}
}

// answer stores what the handler answers with its mark.
func (tx *Tx) answer(ctx context.Context, m store.Mark, until time.Time) error {
	if !mark.Storable(m.As) {
		return fmt.Errorf("answer %s: outcome %d cannot be stored", m.ID, m.As)
	}
	key := mark.Key{Consumer: m.Consumer, Identity: m.Identity}
	if err := tx.s.db.acquire(ctx, tx, key, until); err != nil {
		return fmt.Errorf("answer: %w", err)
	}
	return tx.marks.Answer(m)
}

// keepApart stages what e does with reservations and the quarantine.
func (tx *Tx) keepApart(ctx context.Context, e store.Effect, until time.Time) error {
	d := tx.s.db
	if err := tx.unreserve(ctx, e.Reservation, until); err != nil {
		return err
	}
	if q := e.Quarantine; q != nil {
		one := *q
		one.Message, one.At = own.Message(q.Message), d.now()
		tx.changes = append(tx.changes, func(time.Time) {
			if d.findApart(&one) == nil && d.roomApart(&one) {
				d.numbered++
				one.Number = d.numbered
				d.apart = append(d.apart, one)
			}
		})
	}
	if q := e.Admitted; q != nil {
		key := keyApart(q)
		if err := d.acquire(ctx, tx, key, until); err != nil {
			return fmt.Errorf("take from quarantine: %w", err)
		}
		if was := d.findApart(q); was == nil || was.Admitted.IsZero() || !was.Taken.IsZero() {
			return fmt.Errorf("take %s from quarantine: %w", q.ID, store.ErrLost)
		}
		tx.changes = append(tx.changes, func(now time.Time) { d.findApart(q).Taken = now })
	}
	if a := e.Admit; a != nil {
		at := slices.IndexFunc(d.apart,
			func(q store.Quarantined) bool { return q.Number == a.Number && q.Admitted.IsZero() })
		if at < 0 || tx.admits[a.Number] {
			return fmt.Errorf("admit %d: %w", a.Number, store.ErrLost)
		}
		if tx.admits == nil {
			tx.admits = map[int64]bool{}
		}
		tx.admits[a.Number] = true
		tx.changes = append(tx.changes, func(now time.Time) {
			for i := range d.apart {
				if one := &d.apart[i]; one.Number == a.Number {
					one.Admitted, one.By, one.Reason = now, a.By, a.Reason
				}
			}
		})
	}
	return nil
}

// roomApart tells whether one more message may be in quarantine.
func (d *database) roomApart(one *store.Quarantined) bool {
	same, all := 0, 0
	for i := range d.apart {
		switch was := &d.apart[i]; {
		case was.Consumer != one.Consumer:
		case was.Identity == one.Identity:
			same++
			fallthrough
		case was.Taken.IsZero():
			all++
		}
	}
	return same < store.QuarantineOfOne && all < store.QuarantineOfAll
}

func (d *database) findApart(q *store.Quarantined) *store.Quarantined {
	i := slices.IndexFunc(d.apart, func(was store.Quarantined) bool { return keyApart(&was) == keyApart(q) })
	if i < 0 {
		return nil
	}
	return &d.apart[i]
}

// Secret is the key of this database's fingerprints.
func (s *Store) Secret(ctx context.Context) (key []byte, err error) {
	err = s.enter(ctx, func() error {
		key = []byte(s.db.id)
		return nil
	})
	return key, err
}

// quarantined lists messages in quarantine.
func (s *Store) quarantined(ctx context.Context, q store.Query) (out []store.Quarantined, err error) {
	limit := min(cmp.Or(q.Limit, 1000), 1000)
	err = s.enter(ctx, func() error {
		for _, one := range s.db.apart {
			if len(out) < limit && chosen(&one, &q) {
				one.Bytes = len(one.Message.Data)
				if q.Bare {
					one.Message.Data = nil
				}
				one.Message = own.Message(one.Message)
				out = append(out, one)
			}
		}
		return nil
	})
	return out, err
}

func chosen(one *store.Quarantined, q *store.Query) bool {
	any := func(want, have string) bool { return want == "" || want == have }
	return one.Number > q.After && any(q.Consumer, one.Consumer) && any(q.ID, one.ID) &&
		any(q.Topic, one.Message.Topic) &&
		any(q.Type, one.Message.Type) && (q.Why == store.Fresh || q.Why == one.Why) &&
		(q.Taken || one.Taken.IsZero()) && (!q.Admitted || !one.Admitted.IsZero())
}

// Enter takes in within a transaction of the caller's own.
func (s *Store) Enter(ctx context.Context, tx *Tx, in store.Intake) (store.Found, error) {
	u := &unit{tx: tx}
	if len(in.Settings) > 0 {
		return u.found, fmt.Errorf("enter: %w", store.ErrNoSettings)
	}
	if tx.s.db != s.db {
		return u.found, errOther
	}
	err := tx.do(func(*database) error { return u.take(ctx, in) })
	if err != nil {
		return u.found, fmt.Errorf("enter: %w", err)
	}
	return u.found, nil
}
