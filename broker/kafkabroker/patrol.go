package kafkabroker

import (
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
)

// patrol looks every Options.Session whether retention has removed what is to be fetched next: where nothing
// is left, no fetch tells.
func (s *Subscription) patrol() {
	tick := time.NewTicker(s.b.opts.Session)
	defer tick.Stop()
	for {
		select {
		case <-s.ctx.Done():
			return
		case <-tick.C:
			s.inspect()
		}
	}
}

func (s *Subscription) inspect() {
	var topics []string
	for topic := range byTopic(s.assigned.Owned()) {
		topics = append(topics, topic)
	}
	if len(topics) == 0 {
		return
	}
	starts, _ := s.b.adm.ListStartOffsets(s.ctx, topics...) // what it lacks is looked at by the next turn
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.cl.BufferedFetchRecords() > 0 {
		return // what was removed may have been fetched before
	}
	starts.Each(func(o kadm.ListedOffset) {
		if o.Err == nil {
			s.assigned.from(o.Topic, o.Partition, o.Offset)
		}
	})
	s.assigned.Wake()
}
