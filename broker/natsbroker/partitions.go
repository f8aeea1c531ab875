// This file keeps a member in its group, and claims and releases partitions.

package natsbroker

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/skald-go/skald/broker"
	"github.com/skald-go/skald/broker/internal/feed"
)

// run handles changes in the bucket, and renews the member's presence, until the member leaves or its context
// ends.
func (s *Subscription) run() {
	defer close(s.done)
	defer s.kill()
	period := min(s.b.opts.Commit, s.b.opts.Heartbeat)
	tick := time.NewTicker(period)
	defer tick.Stop()
	s.looked = time.Now()
	var watch jetstream.KeyWatcher
	defer func() { stopWatch(watch) }()
	for {
		var updates <-chan jetstream.KeyValueEntry
		if watch != nil {
			updates = watch.Updates()
		}
		select {
		case <-s.ctx.Done():
			s.die(broker.ErrClosed)
			return
		case ctx := <-s.leave:
			s.goodbye(ctx)
			return
		case <-s.again:
			stopWatch(watch)
			watch = nil
		case e, ok := <-updates:
			if !ok {
				watch = nil
			} else if s.drain(e, updates); !s.synced {
				continue
			}
		case <-tick.C:
			if watch == nil {
				watch = s.watch()
			}
			s.beat()
			s.flush()
			s.removeDead(period)
		}
		s.balance()
	}
}

func stopWatch(w jetstream.KeyWatcher) {
	if w != nil {
		_ = w.Stop()
	}
}

// watch starts to watch the keys of the group. It returns nil after an error.
func (s *Subscription) watch() jetstream.KeyWatcher {
	w, err := s.kv.WatchFiltered(s.ctx, []string{s.memberKey("*"), partitionsOf(s.groupName)})
	if err != nil {
		return nil // run retries at the next tick
	}
	clear(s.peers)
	clear(s.rows)
	s.synced = false
	return w
}

// drain processes all changes that have arrived, so that run calls balance only once for them.
func (s *Subscription) drain(e jetstream.KeyValueEntry, more <-chan jetstream.KeyValueEntry) {
	for {
		if e == nil {
			s.synced = true
		} else {
			s.handleChange(e)
		}
		select {
		case next, ok := <-more:
			if !ok {
				return
			}
			e = next
		default:
			return
		}
	}
}

// begin returns the first position of a partition, by the rule of feed.Facts, and the number of messages that
// are delivered again. A stored position after the end of the stream counts as the end.
func (s *Subscription) begin(ctx context.Context, t topic, index int, told broker.Resumed) (at, again int64) {
	f := feed.FactsOf(s.resumes != nil, told, feed.Partition(t.name, index))
	f.Own, f.Oldest, f.End = true, int64(t.first), int64(t.last)+1
	for _, r := range s.rows {
		f.Group = f.Group || r.Position > 0
	}
	if old := s.rows[s.partitionKey(t, index)]; old.Stream == t.created && old.Position > 0 {
		f.Position = int64(min(old.Position, t.last)) + 1
	}
	if at, again = f.Begin(); at < 0 || again == 0 {
		return min(at, f.End), 0
	}
	again, err := s.b.countBehind(ctx, t, index, uint64(max(at-1, 0)))
	if f.Position > 0 && err == nil {
		var open int64
		open, err = s.b.countBehind(ctx, t, index, uint64(f.Position-1))
		again -= open
	}
	if err != nil {
		again = f.End - at // an upper limit
	}
	return at, again
}

// claim makes this member the owner of a free partition. It returns nil if another member has changed the
// row, or if NATS does not answer.
func (s *Subscription) claim(t topic, index int, resumed broker.Resumed) *partition {
	ctx, cancel := context.WithTimeout(s.ctx, patience)
	defer cancel()
	key := s.partitionKey(t, index)
	old := s.rows[key]
	at, again := s.begin(ctx, t, index, resumed)
	missed := s.removed(t, index)
	at = max(at, missed.To)
	r := row{Member: s.member, SessionID: s.sessionID, Stream: t.created,
		Position: uint64(max(at-1, 0))}
	rev, err := s.store(ctx, key, r, old.rev)
	if stale(err) {
		s.reread(ctx, key)
		return nil
	}
	if err != nil {
		return nil
	}
	s.rows[key] = seenRow{r, rev}
	told := broker.Partition{Name: feed.Partition(t.name, index), Origin: t.created,
		Start: int64(r.Position) + 1, Started: true, Redelivered: again}
	l := &partition{Holding: feed.Holding{Partition: told, Topic: t.name, Index: index,
		Acked: int64(r.Position)}, topic: t, key: key, row: r, rev: rev, missed: missed,
		room: make(chan struct{}, 1)}
	if l.read = r.Position + 1; at < 1 { // messages before the group do not count as missed
		l.read = max(l.read, t.first)
	}
	return l
}

// reportFault reports err to the next Receive if a retry cannot cure it.
func (s *Subscription) reportFault(err error) {
	if !errors.Is(err, broker.ErrNoTopic) && !errors.Is(err, errUnsafe) {
		return
	}
	s.feed.Fail(err)
}

// reread reads the row of a key again.
func (s *Subscription) reread(ctx context.Context, key string) {
	e, err := s.kv.Get(ctx, key)
	if errors.Is(err, jetstream.ErrKeyNotFound) {
		s.rows[key] = seenRow{}
		return
	}
	var r row
	if err == nil && json.Unmarshal(e.Value(), &r) == nil {
		s.rows[key] = seenRow{r, e.Revision()}
	}
}

// flush stores the acknowledged positions of the partitions.
func (s *Subscription) flush() {
	for _, l := range s.feed.Owned() {
		s.mu.Lock()
		acked := uint64(l.Acked)
		s.mu.Unlock()
		if acked == l.row.Position {
			continue
		}
		r := l.row
		r.Position = acked
		if _, err := s.change(s.ctx, l, r); errors.Is(err, errFenced) {
			s.lose(l, false)
		}
	}
}

// change stores the row of an owned partition. It returns errFenced if the partition has another owner.
func (s *Subscription) change(ctx context.Context, l *partition, r row) (uint64, error) {
	rev, err := s.store(ctx, l.key, r, l.rev)
	if stale(err) { // an earlier attempt may have succeeded without an answer
		s.reread(ctx, l.key)
		is := s.rows[l.key]
		if is.Member != s.member || is.SessionID != s.sessionID {
			return 0, errFenced
		}
		rev, err = s.store(ctx, l.key, r, is.rev)
	}
	if err != nil {
		return 0, fmt.Errorf("store partition %s: %w", l.Name, s.b.orUnavailable(err))
	}
	l.row, l.rev = r, rev
	s.rows[l.key] = seenRow{r, rev}
	return rev, nil
}

// release stops the deliveries of a partition, and then removes the owner from its row.
func (s *Subscription) release(ctx context.Context, l *partition) error {
	r := row{Position: s.lose(l, true), Stream: l.row.Stream}
	_, err := s.change(ctx, l, r)
	if err != nil && !errors.Is(err, errFenced) { // the row still has this member as owner
		s.rows[l.key] = seenRow{row{Member: s.member, SessionID: s.sessionID, Position: r.Position,
			Stream: r.Stream}, l.rev}
		return err
	}
	return nil
}

// orphan removes this member from a row for which release has failed.
func (s *Subscription) orphan(key string, r seenRow) {
	free := row{Position: r.Position, Stream: r.Stream}
	rev, err := s.store(s.ctx, key, free, r.rev)
	if err == nil {
		s.rows[key] = seenRow{free, rev}
	} else if stale(err) {
		s.reread(s.ctx, key)
	}
}

// goodbye stores acknowledgements, releases all partitions and leaves the group.
func (s *Subscription) goodbye(ctx context.Context) {
	var errs []error
	for _, l := range s.feed.Owned() {
		errs = append(errs, s.release(ctx, l))
	}
	err := s.kv.Delete(ctx, s.memberKey(s.member), jetstream.LastRevision(s.rev))
	if err != nil && !stale(err) {
		errs = append(errs, fmt.Errorf("leave group %q: %w", s.groupName, s.b.orUnavailable(err)))
	}
	s.mu.Lock()
	s.left = errors.Join(errs...)
	s.mu.Unlock()
	s.die(broker.ErrClosed)
}
