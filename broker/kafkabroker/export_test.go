package kafkabroker

import (
	"errors"
	"slices"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/skald-go/skald"
	"github.com/skald-go/skald/broker"
)

// Kill ends the member as sudden death would: nothing is committed and, if it has a stable name, nobody is
// told.
func (s *Subscription) Kill() {
	s.mu.Lock()
	s.lazy = true
	s.mu.Unlock()
	_ = s.end(s.ctx, errors.New("killed"))
}

// Uncommitted is how many partitions have acknowledgements that are not committed.
func (s *Subscription) Uncommitted() (n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, ps := range s.assigned.offsets(nil, false) {
		n += len(ps)
	}
	return n
}

// Fetched is how many records were fetched of that partition, and not delivered.
func (s *Subscription) Fetched(name string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	l, _ := s.assigned.Find(name)
	return len(l.queue)
}

// Regained reports whether that partition was lost and gained again, and nobody was told yet.
func (s *Subscription) Regained(name string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.ContainsFunc(s.assigned.Untold(), func(l *partition) bool { return l.Name == name })
}

// Encode is how m travels.
func Encode(m skald.Message) *kgo.Record {
	r := &kgo.Record{}
	codec, _ := codec(nil) // nil has no fault
	_, _ = newEncoder([]skald.Message{m}, codec).Encode(&m, r)
	return r
}

// Place is where the partitioner of that name puts key.
func Place(partitioner string, key []byte, n int) (int, error) {
	place, err := (&Options{Partitioner: partitioner}).place()
	if err != nil {
		return 0, err
	}
	return place("t", key, n), nil
}

// Map writes m with an envelope, and reads what was written.
func Map(e broker.Envelope, m skald.Message) (*kgo.Record, skald.Message, error) {
	codec, err := codec(&e)
	if err != nil {
		return nil, skald.Message{}, err
	}
	r := &kgo.Record{}
	if _, err := newEncoder([]skald.Message{m}, codec).Encode(&m, r); err != nil {
		return nil, skald.Message{}, err
	}
	back, err := Read(&e, r)
	return r, back, err
}

// Read is r as it is received.
func Read(e *broker.Envelope, r *kgo.Record) (skald.Message, error) {
	codec, err := codec(e)
	if err != nil {
		return skald.Message{}, err
	}
	var m skald.Message
	fault := decode(r, codec, &m, &skald.Message{})
	return m, fault
}

// Held is how many messages the member has that nobody has received.
func (s *Subscription) Held() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	records, _ := s.assigned.held()
	return records
}
