package rabbitbroker_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/skald-go/skald"
	"github.com/skald-go/skald/broker"
	"github.com/skald-go/skald/broker/rabbitbroker"
	"github.com/skald-go/skald/internal/need"
)

// TestAlarm: while RabbitMQ is short of memory it takes nothing, and consumers go on: what they acknowledge
// is heard, so that the alarm can end; they say that there is one; and nobody is taken for dead for being
// silent.
func TestAlarm(t *testing.T) {
	at := need.RabbitMQ(t)
	ctl := need.RabbitMQCtl(t)
	b := open(t, at, &rabbitbroker.Options{Prefetch: 10, Session: 2 * time.Second})
	topic := fmt.Sprintf("alarm.%x", time.Now().UnixNano())
	if err := b.MakeTopics(t.Context(), 2, topic); err != nil {
		t.Fatal(err)
	}
	var members []broker.Subscription
	owned := make([]int, 2)
	for range owned {
		s, err := b.Subscribe(t.Context(), broker.Group{Name: topic, Topics: []string{topic}})
		if err != nil {
			t.Fatal(err)
		}
		members = append(members, s)
	}
	seen, lost := map[string]bool{}, 0
	receive := func() {
		for i, s := range members {
			got, err := s.Receive(t.Context(), 100)
			if err != nil {
				t.Fatal(err)
			}
			owned[i] += len(got.Gained) - len(got.Lost)
			lost += len(got.Lost)
			for _, d := range got.Deliveries {
				seen[d.ID] = true
			}
			if err := s.Ack(t.Context(), got.Deliveries); err != nil {
				t.Fatal(err)
			}
		}
	}
	until(t, "a partition each", func() bool { receive(); return owned[0] == 1 && owned[1] == 1 })
	var msgs []skald.Message
	for i := range 200 {
		msgs = append(msgs, message(topic, fmt.Sprint("k", i%20), i))
	}
	for _, s := range members {
		s.Pause(topic+"/0", topic+"/1")
	}
	if err := b.Publish(t.Context(), msgs).Wait(t.Context()); err != nil {
		t.Fatal(err)
	}
	ctl("set_vm_memory_high_watermark", "absolute", "1")
	t.Cleanup(func() { ctl("set_vm_memory_high_watermark", "0.4") })
	alarmed := func(n int) func() bool {
		return func() bool {
			have := 0
			for _, s := range members {
				if s.Alarm() != "" {
					have++
				}
			}
			receive()
			return have == n
		}
	}
	until(t, "the alarm at both", alarmed(2))
	began := time.Now()
	lost = 0
	for _, s := range members {
		s.Resume(topic+"/0", topic+"/1")
	}
	until(t, "all messages, during the alarm", func() bool { receive(); return len(seen) == 200 })
	until(t, "more than a session", func() bool { receive(); return time.Since(began) > 3*time.Second })
	if lost > 0 || owned[0] != 1 || owned[1] != 1 {
		t.Errorf("during the alarm partitions moved: %d were lost, owned are %v", lost, owned)
	}
	ctl("set_vm_memory_high_watermark", "0.4")
	until(t, "the end of the alarm", alarmed(0))
	for _, s := range members {
		if err := s.Close(t.Context()); err != nil {
			t.Error(err)
		}
	}
}
