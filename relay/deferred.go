// This file retries deferred rows.

package relay

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/skald-go/skald"
	"github.com/skald-go/skald/broker"
	"github.com/skald-go/skald/internal/backoff"
	"github.com/skald-go/skald/internal/column"
	"github.com/skald-go/skald/store"
)

const (
	deferredPage = 500         // the maximum number of rows of one read
	deferredPoll = time.Second // the interval of reads while there are deferred rows
	// deferredPollSlow is the interval of reads while the relay knows of no deferred rows, over all relays
	// together. Reads are still needed, because another relay may have deferred rows.
	deferredPollSlow = 5 * time.Second
)

// retryDeferred publishes the deferred rows that are due. This keeps the order, because all newer rows of
// their keys are deferred too.
func (r *Relay) retryDeferred(ctx context.Context) (busy bool, err error) {
	now := r.o.Now()
	r.forgetPushback(now)
	if r.retrying {
		return false, nil
	}
	if r.retrySuspect() {
		return true, nil
	}
	if now.Before(r.deferredAt) || len(r.shards) == 0 {
		return false, nil
	}
	if !r.roomForPage() {
		r.deferredAt = now.Add(deferredPoll / 10)
		return false, nil
	}
	r.deferredAt = now.Add(deferredPollSlow * time.Duration(max(r.sessions, 1)))
	if r.hasDeferred {
		r.deferredAt = now.Add(deferredPoll)
	}
	due, err := store.DueRows(ctx, r.db, r.shardIDs(), deferredPage)
	if err != nil {
		return false, fmt.Errorf("read deferred rows: %w", err)
	}
	if due, err = r.withoutReplays(ctx, due); err != nil {
		return false, err
	}
	if len(due) == 0 {
		r.hasDeferred = r.mayHaveDeferred(now)
		return false, nil
	}
	r.hasDeferred = true
	if due = r.publishable(due); len(due) == 0 {
		return true, nil
	}
	r.sendDeferred(due)
	return true, nil
}

// suspect is a deferred row that the broker refused together with others. The relay publishes it alone.
type suspect struct {
	row   store.DeferredRow
	shard *shard // the owned shard at that time
}

// retrySuspect publishes the next suspect alone. It returns false if there is none.
func (r *Relay) retrySuspect() bool {
	for len(r.suspects) > 0 {
		next := r.suspects[0]
		r.suspects[0] = suspect{}
		r.suspects = r.suspects[1:]
		if s := next.shard; !s.gone && !s.awaitsReplay(next.row.Topic) && !s.defersOlder(&next.row) {
			r.sendDeferred([]store.DeferredRow{next.row})
			return true
		}
	}
	return false
}

// sendDeferred publishes deferred rows in one call.
func (r *Relay) sendDeferred(due []store.DeferredRow) {
	c, msgs := &call{deferred: due, rows: len(due)}, make([]skald.Message, 0, len(due))
	for i := range due {
		msgs = appendOutgoing(msgs, &due[i].Row)
		c.bytes += column.Weight(&due[i].Message)
		s := r.byBucket[due[i].Bucket]
		c.shards = append(c.shards, s)
		if s != nil {
			s.noteTopic(due[i].Topic, r.topics.ids)
		}
	}
	r.retrying = true
	r.send(c, msgs)
}

// withoutReplays removes rows of recreated topics from dueRows, because a replay publishes them. It also
// removes a row if an older row of its key will be stored as deferred.
func (r *Relay) withoutReplays(ctx context.Context,
	dueRows []store.DeferredRow) ([]store.DeferredRow, error) {
	names := make([]string, len(dueRows))
	for i := range dueRows {
		names[i] = dueRows[i].Topic
	}
	if err := r.learn(ctx, names); err != nil {
		return nil, err
	}
	return slices.DeleteFunc(dueRows, func(a store.DeferredRow) bool {
		s := r.byBucket[a.Bucket]
		return s != nil && (s.awaitsReplay(a.Topic) || s.defersOlder(&a))
	}), nil
}

// publishable returns those dueRows that can be decoded and are within the limits. It postpones the other
// rows. It also omits later rows of their keys.
func (r *Relay) publishable(dueRows []store.DeferredRow) []store.DeferredRow {
	waits := map[string]bool{}
	return slices.DeleteFunc(dueRows, func(a store.DeferredRow) bool {
		if a.Key != nil && waits[keyOf(&a.Message)] {
			return true
		}
		why := unpublishable(&a.Row)
		if why == "" {
			return false
		}
		waits[keyOf(&a.Message)] = true
		if s := r.byBucket[a.Bucket]; s != nil && !s.gone {
			a.Attempts++
			a.Why, a.Due = why, backoff.After(a.Attempts, r.o.DeferFirst, r.o.DeferMost)
			s.deferred = append(s.deferred, a)
			r.tel.Refused(a.Topic)
			r.scheduleDeferred(a.Due)
		}
		return true
	})
}

// mayHaveDeferred returns true if there may be deferred rows that are not due yet.
func (r *Relay) mayHaveDeferred(now time.Time) bool {
	if now.Before(r.deferredLast) {
		return true
	}
	for _, s := range r.shards {
		if len(s.blocked) > 0 || len(s.deferred) > 0 || len(s.pieces) > 0 {
			return true
		}
	}
	return false
}

// scheduleDeferred records that a deferred row is due after d. Until then, the relay reads deferred rows
// often.
func (r *Relay) scheduleDeferred(d time.Duration) {
	r.hasDeferred = true
	if soon := r.o.Now().Add(deferredPoll); soon.Before(r.deferredAt) {
		r.deferredAt = soon
	}
	if last := r.o.Now().Add(d + deferredPollSlow); last.After(r.deferredLast) {
		r.deferredLast = last
	}
}

func (r *Relay) shardIDs() []int {
	ids := make([]int, 0, len(r.shards))
	for id, s := range r.shards {
		if !s.leaving {
			ids = append(ids, id)
		}
	}
	return ids
}

// deferredAnswered removes the acknowledged rows from the deferred rows, and postpones the others.
func (r *Relay) deferredAnswered(c *call, err error) {
	r.retrying = false
	v := newVerdict(err)
	r.noteAnswer(v, len(c.deferred))
	freed, seen := false, keysSeen{}
	for i := range c.deferred {
		a := &c.deferred[i]
		s := c.shards[i] // the owned shard at that time; a later owner may have published the row
		if s == nil || s.gone {
			continue
		}
		switch failed, refused := v.of(i); {
		case errors.Is(failed, broker.ErrRecreated):
			r.topics.forget(a.Topic)
		case failed != nil && v.all == nil && !seen.isFirst(&a.Message): // an earlier row held it back
		case failed != nil && v.all == nil:
			r.notePushback(s, &a.Row, failed)
			r.deferAgain(s, a, failed)
		case refused != nil && len(c.deferred) > 1 && errors.Is(refused, broker.ErrShared):
			if seen.isFirst(&a.Message) {
				r.suspects = append(r.suspects, suspect{row: *a, shard: s})
			}
		case refused != nil:
			seen.isFirst(&a.Message)
			if a.Attempts > 0 && withoutNumbers(a.Why) != withoutNumbers(refused.Error()) {
				r.logDeferred(s, &a.Row, refused)
			}
			r.deferAgain(s, a, refused)
			if !errors.Is(refused, broker.ErrNoTopic) {
				r.o.Logger.Debug("relay: row refused again", "owner", r.o.Owner, "shard", s.ID, "seq", a.Seq,
					"id", a.ID, "error", refused)
			}
		case failed == nil:
			s.freed = append(s.freed, a.Seq)
			r.topics.published(a.Topic)
			r.count(func(h *Health) { h.Published++ })
			r.tel.Took(&a.Message, r.o.Now())
			freed = true
		}
	}
	if freed {
		r.deferredAt = r.o.Now() // the next rows of these keys may be due
	}
}

// deferAgain postpones a row that was not acknowledged. The delay grows each time.
func (r *Relay) deferAgain(s *shard, a *store.DeferredRow, why error) {
	a.Attempts++
	r.tel.Refused(a.Topic)
	a.Why, a.Due = why.Error(), backoff.After(a.Attempts, r.o.DeferFirst, r.o.DeferMost)
	s.deferred = append(s.deferred, *a)
	r.scheduleDeferred(a.Due)
}

// reload reads the keys with deferred rows again, after some rows were published.
func (r *Relay) reload(ctx context.Context, shards []*shard) error {
	ids := make([]int, len(shards))
	for i, s := range shards {
		ids[i] = s.ID
	}
	blocked, err := store.DeferredKeys(ctx, r.db, ids)
	if err != nil {
		return fmt.Errorf("read keys of deferred rows: %w", err)
	}
	for _, s := range shards {
		s.setBlocked(blocked)
	}
	r.hasDeferred = r.hasDeferred || len(blocked) > 0
	return nil
}
