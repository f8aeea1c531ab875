package kafkabroker_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/skald-go/skald/broker"
	"github.com/skald-go/skald/broker/kafkabroker"
)

// TestTransactionsOfOthers: what a producer aborted is not received, and what it committed is; once that is
// acknowledged nothing waits, though markers are the last that the partition has.
func TestTransactionsOfOthers(t *testing.T) { bothKafkas(t, transactions) }

func transactions(t *testing.T, seeds string) {
	c := newChanging(t, seeds)
	b := c.open(t, kafkabroker.Options{Commit: time.Millisecond})
	must(t, b.MakeTopics(t.Context(), 1, c.topic))
	cl, err := kgo.NewClient(kgo.SeedBrokers(strings.Split(seeds, ",")...), kgo.TransactionalID(c.topic),
		kgo.DefaultProduceTopic(c.topic))
	must(t, err)
	t.Cleanup(cl.Close)
	produced := 0
	produce := func(n int, commit kgo.TransactionEndTry) {
		t.Helper()
		must(t, cl.BeginTransaction())
		for range n {
			r := kafkabroker.Encode(c.messages("k", produced, produced+1)[0])
			produced++
			must(t, cl.ProduceSync(t.Context(), r).FirstErr())
		}
		must(t, cl.Flush(t.Context()))
		must(t, cl.EndTransaction(t.Context(), commit))
	}
	lag := func(want int64) {
		t.Helper()
		until(t, fmt.Sprintf("a lag of %d", want), func() bool {
			got, err := b.Lag(t.Context(), c.topic, c.topic)
			return err == nil && got[c.topic] == want
		})
	}
	produce(1, kgo.TryCommit) // 0, marker 1
	sub := subscribe(t, b, broker.Group{Name: c.topic, Topics: []string{c.topic}})
	first := take(t, sub, 1)
	produce(2, kgo.TryAbort)  // 2 and 3, marker 4
	produce(3, kgo.TryCommit) // 5 to 7, marker 8
	produce(1, kgo.TryAbort)  // 9, marker 10
	more := take(t, sub, 3)
	for i, d := range more {
		if want := fmt.Sprintf("k-%06d", 3+i); d.ID != want {
			t.Errorf("%s came, want %s", d.ID, want)
		}
	}
	must(t, sub.Ack(t.Context(), first))
	lag(6) // up to the marker 4
	must(t, sub.Ack(t.Context(), more[:1]))
	lag(5)
	must(t, sub.Ack(t.Context(), more))
	lag(0)
	produce(1, kgo.TryAbort) // nothing is acknowledged any more
	lag(0)
	must(t, sub.Close(t.Context()))
	sub = subscribe(t, b, broker.Group{Name: c.topic, Topics: []string{c.topic}})
	produce(1, kgo.TryAbort) // before anything was received
	lag(0)
	produce(1, kgo.TryCommit)
	if got := take(t, sub, 1)[0]; got.ID != fmt.Sprintf("k-%06d", produced-1) {
		t.Errorf("%s came", got.ID)
	}
}
