package membroker_test

import (
	"errors"
	"math/rand/v2"
	"sync"
	"testing"

	"github.com/skald-go/skald"
	"github.com/skald-go/skald/broker"
	"github.com/skald-go/skald/broker/brokertest"
	"github.com/skald-go/skald/broker/membroker"
)

func TestBroker(t *testing.T) {
	brokertest.Run(t, func(t *testing.T) brokertest.Harness {
		faults := &faults{limits: map[string]int{}}
		first := membroker.New(&membroker.Options{Fail: faults.fail})
		return brokertest.Harness{
			Open:    func(*testing.T) brokertest.Broker { return first.Client() },
			Limit:   func(_ *testing.T, topic string, bytes int) { faults.limit(topic, bytes) },
			Fill:    func(_ *testing.T, topic string) func() { return faults.fill(topic) },
			Disturb: func(*testing.T) func() { return faults.disturb() },
			Kill:    func(_ *testing.T, s broker.Subscription) { s.(*membroker.Subscription).Kill() },
			Remove: func(t *testing.T, topic string) {
				if err := first.RemoveTopics(t.Context(), topic); err != nil {
					t.Fatal(err)
				}
			},
			Counts:       true,
			Capabilities: membroker.Capabilities,
		}
	})
}

// faults refuses messages above their topic's limit. While disturbed, it also fails one message in ten.
type faults struct {
	mu     sync.Mutex
	limits map[string]int
	full   string
	rng    *rand.Rand
}

func (f *faults) limit(topic string, bytes int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.limits[topic] = bytes
}

func (f *faults) fill(topic string) (drain func()) {
	set := func(topic string) {
		f.mu.Lock()
		defer f.mu.Unlock()
		f.full = topic
	}
	set(topic)
	return func() { set("") }
}

func (f *faults) disturb() (stop func()) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.rng = rand.New(rand.NewPCG(11, 12))
	return func() {
		f.mu.Lock()
		defer f.mu.Unlock()
		f.rng = nil
	}
}

func (f *faults) fail(m *skald.Message) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	switch {
	case f.limits[m.Topic] > 0 && len(m.Data) > f.limits[m.Topic]:
		return membroker.ErrRefused
	case f.full == m.Topic:
		return errors.New("full")
	case f.rng != nil && f.rng.IntN(10) == 0:
		return errors.New("disturbed")
	}
	return nil
}
