package kafkabroker

import (
	"context"
	"errors"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"

	"github.com/skald-go/skald/broker"
)

// checkLoop checks, at intervals of Options.Session, whether retention has removed unread records, and
// whether topics are missing. No fetch reports this for an empty partition.
func (s *Subscription) checkLoop() {
	tick := time.NewTicker(s.b.opts.Session)
	defer tick.Stop()
	for missing := map[string]bool{}; ; {
		select {
		case <-s.ctx.Done():
			return
		case <-tick.C:
			s.inspect()
			missing = s.missingTopics(missing)
		}
	}
}

// missingTopics returns the topics that do not exist. If a topic was also missing in the previous check,
// missingTopics reports an error to Receive, because fetches of a deleted topic may end without an error.
func (s *Subscription) missingTopics(before map[string]bool) map[string]bool {
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

// inspect reports records that retention removed before the client fetched them.
func (s *Subscription) inspect() {
	var topics []string
	for topic := range byTopic(s.assigned.Owned()) {
		topics = append(topics, topic)
	}
	if len(topics) == 0 {
		return
	}
	starts, _ := s.b.adm.ListStartOffsets(s.ctx, topics...) // the next check includes topics without a result
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.cl.BufferedFetchRecords() > 0 {
		return // the client may have fetched the records before they were removed
	}
	starts.Each(func(o kadm.ListedOffset) {
		if o.Err == nil {
			s.assigned.setFirst(o.Topic, o.Partition, o.Offset)
		}
	})
	s.assigned.Wake()
}
