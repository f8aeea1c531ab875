package rabbitbroker_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/skald-go/skald"
	"github.com/skald-go/skald/broker"
	"github.com/skald-go/skald/broker/rabbitbroker"
	"github.com/skald-go/skald/internal/need"
)

// A channel that RabbitMQ closes after its consumer_timeout is told of with the reason. From then on the
// partition has half as many messages in progress, and all of them come again.
func TestConsumerTimeoutIsToldAndAvoided(t *testing.T) {
	at, ctl := need.RabbitMQ(t), need.RabbitMQCtl(t)
	b := open(t, at, &rabbitbroker.Options{Prefetch: 8})
	topic := fmt.Sprintf("slow-%d", time.Now().UnixNano())
	if err := b.MakeTopics(t.Context(), 1, topic); err != nil {
		t.Fatal(err)
	}
	was := strings.TrimSpace(ctl("eval", `{ok, V} = application:get_env(rabbit, consumer_timeout), V.`))
	set := func(name, value string) {
		ctl("eval", fmt.Sprintf("application:set_env(rabbit, %s, %s).", name, value))
	}
	t.Cleanup(func() { set("channel_tick_interval", "60000"); set("consumer_timeout", was) })
	set("channel_tick_interval", "200") // how often it is checked
	set("consumer_timeout", "1500")     // of channels that are opened now
	s, err := b.Subscribe(t.Context(), broker.Group{Name: topic, Topics: []string{topic}})
	if err != nil {
		t.Fatal(err)
	}
	for gained := false; !gained; { // with its channel
		batch, err := s.Receive(t.Context(), 1)
		if err != nil {
			t.Fatal(err)
		}
		gained = len(batch.Gained) > 0
		time.Sleep(5 * time.Millisecond)
	}
	set("consumer_timeout", was)
	var msgs []skald.Message
	for n := range 20 {
		msgs = append(msgs, message(topic, "k", n))
	}
	if err := b.Publish(t.Context(), msgs).Wait(t.Context()); err != nil {
		t.Fatal(err)
	}
	count, told := 0, ""
	deadline := time.Now().Add(30 * time.Second)
	for ; told == "" && time.Now().Before(deadline); time.Sleep(5 * time.Millisecond) {
		batch, err := s.Receive(t.Context(), 100)
		if err != nil {
			told = err.Error()
		}
		count += len(batch.Deliveries)
	}
	if count != 8 || !strings.Contains(told, "406") || !strings.Contains(told, "timed out") ||
		!strings.Contains(told, "at most 4 messages") {
		t.Fatalf("after %d deliveries: %s", count, told)
	}
	seen := map[string]bool{}
	for len(seen) < len(msgs) && time.Now().Before(deadline) {
		batch, err := s.Receive(t.Context(), 100)
		if err != nil {
			t.Fatal(err)
		}
		if n := len(batch.Deliveries); n > 4 {
			t.Fatalf("%d messages are in progress", n)
		}
		for _, d := range batch.Deliveries {
			seen[d.ID] = true
		}
		if err := s.Ack(t.Context(), batch.Deliveries); err != nil {
			t.Fatal(err)
		}
		time.Sleep(5 * time.Millisecond)
	}
	if len(seen) != len(msgs) {
		t.Errorf("%d of %d came again", len(seen), len(msgs))
	}
}
