package kafkabroker

import (
	"context"
	"errors"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"

	"github.com/skald-go/skald/broker"
)

// patrol checks every Options.Session whether retention removed the next record to fetch. If a partition is
// empty, no fetch reports that.
func (s *Subscription) patrol() {
	tick := time.NewTicker(s.b.opts.Session)
	defer tick.Stop()
	for missing := map[string]bool{}; ; {
		select {
		case <-s.ctx.Done():
			return
		case <-tick.C:
			s.inspect()
			missing = s.missing(missing)
		}
	}
}

// missing returns the topics that do not exist. If a topic was missing in the previous turn, too, it
// becomes an error, because fetches of a deleted topic may end without one.
func (s *Subscription) missing(before map[string]bool) map[string]bool {
	now := map[string]bool{}
	ctx, cancel := context.WithTimeout(s.ctx, s.b.opts.Session)
	defer cancel()
	there, err := look(ctx, s.b.cl, s.group.Topics)
	if err != nil {
		return now
	}
	for _, t := range s.group.Topics {
		if err := there[t].Err; errors.Is(err, broker.ErrNoTopic) {
			if now[t] = true; before[t] {
				s.assigned.Fail(&broker.TopicError{Topic: t, Err: err})
			}
		}
	}
	return now
}

func (s *Subscription) inspect() {
	var topics []string
	for topic := range byTopic(s.assigned.Owned()) {
		topics = append(topics, topic)
	}
	if len(topics) == 0 {
		return
	}
	starts, _ := s.b.adm.ListStartOffsets(s.ctx, topics...) // the next turn checks topics without a result
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.cl.BufferedFetchRecords() > 0 {
		return // the removed records may have been fetched before
	}
	starts.Each(func(o kadm.ListedOffset) {
		if o.Err == nil {
			s.assigned.from(o.Topic, o.Partition, o.Offset)
		}
	})
	s.assigned.Wake()
}
