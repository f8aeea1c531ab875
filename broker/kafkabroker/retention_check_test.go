package kafkabroker_test

import (
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"

	"github.com/skald-go/skald/broker"
	"github.com/skald-go/skald/broker/kafkabroker"
)

// A member that lives tells of what retention removed before it read it, though nothing is left that a fetch
// could bring.
func TestLivingMemberTellsOfRemovedMessages(t *testing.T) { bothKafkas(t, livingMemberTells) }

func livingMemberTells(t *testing.T, seeds string) {
	c := newChanging(t, seeds)
	b := c.open(t, kafkabroker.Options{Session: 6 * time.Second})
	must(t, b.MakeTopics(t.Context(), 1, c.topic))
	must(t, b.Publish(t.Context(), c.messages("k", 0, 10)).Wait(t.Context()))
	sub := subscribe(t, b, broker.Group{Name: c.topic, Topics: []string{c.topic}})
	must(t, sub.Ack(t.Context(), take(t, sub, 10)))
	sub.Pause(c.topic + "/0")
	must(t, b.Publish(t.Context(), c.messages("k", 10, 30)).Wait(t.Context()))
	all := kadm.Offsets{c.topic: {0: kadm.Offset{Topic: c.topic, At: 30}}}
	_, err := c.adm.DeleteRecords(t.Context(), all)
	must(t, err)
	var told []broker.Missed
	until(t, "what was removed", func() bool {
		got, err := sub.Receive(t.Context(), 100)
		if told = append(told, got.Missed...); len(got.Deliveries) > 0 {
			t.Fatalf("%s came", got.Deliveries[0].ID)
		}
		return err == nil && len(told) > 0
	})
	if told[0].Count != 20 || !strings.HasPrefix(told[0].Partition, c.topic) {
		t.Errorf("it tells %+v", told)
	}
	must(t, sub.Close(t.Context()))
}
