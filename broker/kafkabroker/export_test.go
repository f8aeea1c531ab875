package kafkabroker

import (
	"errors"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/skald-go/skald"
)

// Kill ends the member as sudden death would: nothing is committed and, if it has a stable name, nobody is told.
func (s *Subscription) Kill() {
	s.mu.Lock()
	s.lazy = true
	s.mu.Unlock()
	_ = s.end(s.ctx, errors.New("killed"))
}

// Uncommitted is how many lanes have acknowledgements that are not committed.
func (s *Subscription) Uncommitted() (n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, ps := range s.assigned.offsets(nil) {
		n += len(ps)
	}
	return n
}

// Encode is how m travels.
func Encode(m skald.Message) *kgo.Record {
	r := &kgo.Record{}
	_, _ = newEncoder([]skald.Message{m}, nil).encode(&m, r)
	return r
}
