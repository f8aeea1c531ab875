package kafkabroker

import (
	"errors"
	"slices"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/skald-go/skald"
	"github.com/skald-go/skald/broker"
)

// Kill ends the member as a crash would. It stores nothing and does not leave the group.
func (s *Subscription) Kill() {
	s.mu.Lock()
	s.lazy = true
	s.mu.Unlock()
	_ = s.end(s.ctx, errors.New("killed"))
}

// Uncommitted returns the number of partitions with acknowledgements that are not committed.
func (s *Subscription) Uncommitted() (n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, ps := range s.assigned.offsets(nil, false) {
		n += len(ps)
	}
	return n
}

// Fetched returns the number of records of a partition that are fetched and not delivered.
func (s *Subscription) Fetched(name string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	l, _ := s.assigned.Find(name)
	return len(l.queue)
}

// Regained returns true if the member has gained a partition again, and Receive has not reported it yet.
func (s *Subscription) Regained(name string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.ContainsFunc(s.assigned.Untold(), func(l *partition) bool { return l.Name == name })
}

// Encode returns m in the form that the broker transports.
func Encode(m skald.Message) *kgo.Record {
	r := &kgo.Record{}
	codec, _ := codec(nil) // nil has no fault
	_, _ = newEncoder([]skald.Message{m}, codec).Encode(&m, r)
	return r
}

// Place returns the partition that the partitioner with that name selects for key.
func Place(partitioner string, key []byte, n int) (int, error) {
	place, err := (&Options{Partitioner: partitioner}).partitionFunc()
	if err != nil {
		return 0, err
	}
	return place("t", key, n), nil
}

// Map encodes m with an envelope. It returns the record, and the message that is decoded from it.
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

// Read decodes r with an envelope.
func Read(e *broker.Envelope, r *kgo.Record) (skald.Message, error) {
	codec, err := codec(e)
	if err != nil {
		return skald.Message{}, err
	}
	var m skald.Message
	fault := decode(r, codec, &m, &skald.Message{})
	return m, fault
}

// Held returns the number of messages that the member has fetched and not delivered.
func (s *Subscription) Held() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	records, _ := s.assigned.heldRecords()
	return records
}
