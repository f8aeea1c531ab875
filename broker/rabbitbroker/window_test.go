package rabbitbroker_test

import (
	"bytes"
	"fmt"
	"runtime"
	"testing"
	"time"

	"github.com/skald-go/skald"
	"github.com/skald-go/skald/broker"
	"github.com/skald-go/skald/broker/rabbitbroker"
	"github.com/skald-go/skald/internal/need"
)

// Large messages that wait in number cost a member little memory: it lowers the prefetch. Each of them comes,
// in order.
func TestMemoryOfLargeMessages(t *testing.T) {
	p := newPlace(t, need.RabbitMQ(t), &rabbitbroker.Options{}, 2)
	if err := p.Declare(t.Context(), p.group("g")); err != nil {
		t.Fatal(err)
	}
	const n, size = 100, 4 << 20
	data := bytes.Repeat([]byte("x"), size)
	for i := range n {
		m := message(p.topic, fmt.Sprint("k", i%4), i)
		m.Data = data
		if err := p.Publish(t.Context(), []skald.Message{m}).Wait(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	runtime.GC()
	s := p.join("g")
	var most uint64
	at, seen := map[string]string{}, map[string]bool{}
	held := []broker.Delivery{}
	began := time.Now()
	for deadline := time.Now().Add(time.Minute); len(seen) < n && time.Now().Before(deadline); {
		batch, err := s.Receive(t.Context(), 1000)
		if err != nil {
			t.Fatal(err)
		}
		lost := map[string]bool{}
		for _, l := range batch.Lost {
			lost[l.Name] = true
		}
		var mine []broker.Delivery
		for _, d := range append(held, batch.Deliveries...) {
			if !lost[d.Partition] {
				mine = append(mine, d)
			}
		}
		held = mine
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		most = max(most, m.HeapInuse)
		if time.Since(began) < 2*time.Second { // a handler that is slow
			time.Sleep(5 * time.Millisecond)
			continue
		}
		for _, d := range held {
			key := string(d.Key)
			if !seen[d.ID] && d.ID <= at[key] {
				t.Errorf("%s after %s", d.ID, at[key])
			}
			at[key], seen[d.ID] = d.ID, true
		}
		if err := s.Ack(t.Context(), held); err != nil {
			t.Fatal(err)
		}
		held = nil
		time.Sleep(time.Millisecond)
	}
	t.Logf("%d MiB after %v", most>>20, time.Since(began))
	if len(seen) != n || most > 300<<20 {
		t.Errorf("%d of %d came; %d MiB", len(seen), n, most>>20)
	}
}
