// This file has the messages in the quarantine. Its methods need no locks and never wait, because the caller
// has locked the messages.

package memstore

import (
	"fmt"
	"slices"
	"time"

	"github.com/skald-go/skald/store"
)

// quarantineTable has all messages in the quarantine, in their order of arrival.
type quarantineTable struct {
	rows     []store.Quarantined
	numbered int64 // the last used Number
}

// key is the lock of a message in the quarantine.
type key struct {
	markKey
	fingerprint int64
}

// quarantineKeyOf returns the key of q.
func quarantineKeyOf(q *store.Quarantined) key {
	return key{markKey{Consumer: q.Consumer, Identity: q.Identity}, q.Fingerprint}
}

// Add stores q, with q.At as the time of its arrival. It does nothing if q exists already or if the
// quarantine has no room.
func (qs *quarantineTable) Add(q store.Quarantined) {
	if qs.find(&q) != nil || !qs.hasRoom(&q) {
		return
	}
	q.Message = copyMessage(q.Message)
	qs.numbered++
	q.Number = qs.numbered
	qs.rows = append(qs.rows, q)
}

// hasRoom reports whether the quarantine has room for the message q.
func (qs *quarantineTable) hasRoom(q *store.Quarantined) bool {
	same, all := 0, 0
	for i := range qs.rows {
		switch was := &qs.rows[i]; {
		case was.Consumer != q.Consumer:
		case was.Identity == q.Identity:
			same++
			fallthrough
		case was.Taken.IsZero():
			all++
		}
	}
	return same < store.QuarantineOfOne && all < store.QuarantineOfAll
}

func (qs *quarantineTable) find(q *store.Quarantined) *store.Quarantined {
	i := slices.IndexFunc(qs.rows,
		func(was store.Quarantined) bool { return quarantineKeyOf(&was) == quarantineKeyOf(q) })
	if i < 0 {
		return nil
	}
	return &qs.rows[i]
}

// Takeable returns store.ErrLost unless q is admitted and not taken.
func (qs *quarantineTable) Takeable(q *store.Quarantined) error {
	if was := qs.find(q); was == nil || was.Admitted.IsZero() || !was.Taken.IsZero() {
		return fmt.Errorf("take %s from quarantine: %w", q.ID, store.ErrLost)
	}
	return nil
}

// Take records that q was taken.
func (qs *quarantineTable) Take(q *store.Quarantined, now time.Time) { qs.find(q).Taken = now }

// Admittable returns store.ErrLost unless the guard of a holds: the message is not admitted, or with Back, it
// is admitted and not taken.
func (qs *quarantineTable) Admittable(a *store.Admit) error {
	if !slices.ContainsFunc(qs.rows,
		func(q store.Quarantined) bool {
			return q.Number == a.Number && q.Admitted.IsZero() != a.Back && q.Taken.IsZero()
		}) {
		return fmt.Errorf("admit %d: %w", a.Number, store.ErrLost)
	}
	return nil
}

// Admit records an operator's decision.
func (qs *quarantineTable) Admit(a *store.Admit, now time.Time) {
	for i := range qs.rows {
		if one := &qs.rows[i]; one.Number == a.Number {
			one.Admitted, one.By, one.Reason = now, a.By, a.Reason
			if a.Back {
				one.Admitted = time.Time{}
			}
		}
	}
}

// Forget deletes the messages that were taken before the cutoff.
func (qs *quarantineTable) Forget(cutoff time.Time) {
	qs.rows = slices.DeleteFunc(qs.rows,
		func(q store.Quarantined) bool { return !q.Taken.IsZero() && q.Taken.Before(cutoff) })
}

// List lists messages in the quarantine.
func (qs *quarantineTable) List(q *store.QuarantineQuery, limit int) (out []store.Quarantined) {
	for _, one := range qs.rows {
		if len(out) < limit && selectsQuarantined(q, &one) {
			one.Bytes = len(one.Message.Data)
			if q.Bare {
				one.Message.Data = nil
			}
			one.Message = copyMessage(one.Message)
			out = append(out, one)
		}
	}
	return out
}

// SomeAdmitted reports whether the consumer has a message that is admitted and not taken.
func (qs *quarantineTable) SomeAdmitted(consumer string) bool {
	return len(qs.List(&store.QuarantineQuery{Consumer: consumer, Admitted: true}, 1)) > 0
}

// selectsQuarantined reports whether the query selects a message.
func selectsQuarantined(q *store.QuarantineQuery, one *store.Quarantined) bool {
	is := func(want, have string) bool { return want == "" || want == have }
	return one.Number > q.After && is(q.Consumer, one.Consumer) && is(q.ID, one.ID) &&
		is(q.Topic, one.Message.Topic) &&
		is(q.Type, one.Message.Type) && (q.Why == store.Fresh || q.Why == one.Why) &&
		(q.Taken || one.Taken.IsZero()) && (!q.Admitted || !one.Admitted.IsZero())
}

// Count adds the counts of messages that wait for an operator to the backlogs of their consumers. The
// function backlogOf returns the backlog of a consumer.
func (qs *quarantineTable) Count(backlogOf func(consumer string) *store.ConsumerBacklog, now time.Time) {
	for _, q := range qs.rows {
		if !q.Admitted.IsZero() {
			continue
		}
		k := backlogOf(q.Consumer)
		k.QuarantineAge, k.QuarantineBytes = max(k.QuarantineAge,
			now.Sub(q.At)), k.QuarantineBytes+int64(len(q.Message.Data))
		if q.Why == store.Conflict {
			k.Conflicts++
		} else {
			k.TooOld++
		}
	}
}

// Waiting counts the messages of a consumer that are not taken.
func (qs *quarantineTable) Waiting(consumer string) (n int64) {
	for i := range qs.rows {
		if qs.rows[i].Consumer == consumer && qs.rows[i].Taken.IsZero() {
			n++
		}
	}
	return n
}

// Belonging adds the number of the consumer's messages to b.
func (qs *quarantineTable) Belonging(consumer string, b *store.ConsumerRows) {
	for i := range qs.rows {
		if qs.rows[i].Consumer == consumer {
			b.Quarantined++
		}
	}
}

// Rename moves the rows of a consumer to another name.
func (qs *quarantineTable) Rename(was, is string) {
	for i := range qs.rows {
		if qs.rows[i].Consumer == was {
			qs.rows[i].Consumer = is
		}
	}
}
