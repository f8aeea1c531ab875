package main_test

import (
	"context"
	"encoding/json"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/skald-go/skald"
	"github.com/skald-go/skald/broker"
	"github.com/skald-go/skald/cmd/skald/internal/connect"
	"github.com/skald-go/skald/inbox"
	"github.com/skald-go/skald/internal/need"
	"github.com/skald-go/skald/store"
)

// A said is a topic of one partition with four messages, of which two came behind a moment.
type said struct {
	broker.Broker
	url, topic string
	ids        broker.Topics
	middle     time.Time
	end        int64 // the position behind them
}

func say(t *testing.T, url string) said {
	t.Helper()
	connect, err := connect.Dial(url)
	must(t, err)
	bus, err := connect()
	must(t, err)
	t.Cleanup(func() { _ = bus.Close() })
	s := said{Broker: bus, url: url, topic: fmt.Sprintf("rewind.%x", time.Now().UnixNano())}
	must(t, bus.MakeTopics(t.Context(), 1, s.topic))
	for i := range 4 {
		if i == 2 { // a broker's clock may have milliseconds
			<-time.After(20 * time.Millisecond)
			s.middle = time.Now().Add(-10 * time.Millisecond)
		}
		m := skald.Message{ID: fmt.Sprint(i), Source: "/o", Topic: s.topic, Type: "said", Key: []byte("k"),
			Data: []byte("1")}
		must(t, bus.Publish(t.Context(), []skald.Message{m}).Wait(t.Context()))
	}
	s.ids, err = bus.Topics(t.Context(), s.topic)
	must(t, err)
	places, err := bus.Find(t.Context(), s.topic, time.Now().Add(time.Hour))
	must(t, err)
	s.end = places[0].Position
	return s
}

// rewindable are the brokers that read again, each beside each store.
func rewindable(t *testing.T, try func(*testing.T, said, *bed)) {
	onEachStore(t, func(t *testing.T, fresh func(*testing.T) *bed) { rewindableOn(t, fresh, try) })
}

func rewindableOn(t *testing.T, fresh func(*testing.T) *bed, try func(*testing.T, said, *bed)) {
	t.Run("kafka", func(t *testing.T) {
		t.Parallel()
		seeds := need.Kafka(t)
		s := say(t, "kafka://"+seeds)
		t.Cleanup(func() {
			client, err := kgo.NewClient(kgo.SeedBrokers(seeds))
			must(t, err)
			defer client.Close()
			_, err = kadm.NewClient(client).DeleteTopics(context.Background(), s.topic)
			must(t, err)
		})
		try(t, s, fresh(t))
	})
	t.Run("nats", func(t *testing.T) {
		t.Parallel()
		try(t, say(t, "nats://"+natsServer(t, t.TempDir(), 0).Addr().String()), fresh(t))
	})
}

// A consumer is set back to a time, partition by partition, where it is farther and the topic is the one that
// it knows.
func TestInboxRewind(t *testing.T) { rewindable(t, testRewind) }

func testRewind(t *testing.T, bus said, b *bed) {
	topic, ids, middle, end := bus.topic, bus.ids, bus.middle, bus.end
	s := b.migrate().s
	at := []string{"consumer", "rewind", "--store=" + b.at, "--broker=" + bus.url, "--consumer=stock",
		"--topic=" + topic,
		"--to-time=" + middle.Format(time.RFC3339Nano)}
	with := func(more ...string) []string { return append(at[:len(at):len(at)], more...) }
	start(t, nil, with("--yes")...).expect(2, "--reason")
	says := func(word string, args ...string) {
		t.Helper()
		p := start(t, nil, args...)
		if p.expect(0); !strings.Contains(p.out.String(), word) {
			t.Errorf("no %q in %s", word, &p.out)
		}
	}
	says("has no position in this partition", with("--dry-run")...)
	if _, err := s.SyncConsumer(t.Context(), store.SyncRequest{Consumer: "stock", Take: true, Session: "", Stamp: "1",
		Checkpoints: []store.Checkpoint{{Partition: topic + "/0", Origin: ids[topic], Position: end,
			InFlightEnd: end + 5}}}); err != nil {
		t.Fatal(err)
	}
	where := func() store.Checkpoint {
		t.Helper()
		all, err := s.SyncConsumer(t.Context(), store.SyncRequest{Consumer: "stock"})
		if err != nil || len(all.Checkpoints) != 1 {
			t.Fatalf("%+v %v", all, err)
		}
		return all.Checkpoints[0]
	}
	says("would be rewound", with("--dry-run")...)
	if is := where(); is.Position != end || is.Stamp != "1" {
		t.Errorf("a dry run left %+v", is)
	}
	p := start(t, nil, with("--yes", "--json", "--reason=restored", "--by=ann")...)
	p.expect(0)
	var told struct {
		Partitions []struct {
			Partition string
			From, To  int64
			Rewound   bool
		}
	}
	if err := json.Unmarshal([]byte(p.out.String()), &told); err != nil || len(told.Partitions) != 1 ||
		!told.Partitions[0].Rewound || told.Partitions[0].From != end || told.Partitions[0].To != end-2 {
		t.Errorf("%s: %v", p.out.String(), err)
	}
	if is := where(); is.Position != end-2 || is.Stamp == "1" {
		t.Errorf("rewound to %+v", is)
	}
	var who, why, partition string
	if err := b.db.QueryRowContext(t.Context(),
		"SELECT author, reason, source FROM skald_audit WHERE action = 'rewind'").Scan(&who, &why,
		&partition); err != nil ||
		who != "ann" || why != "restored" || partition != topic+"/0" {
		t.Errorf("the audit has %q %q %q: %v", who, why, partition, err)
	}
	says("not after this place", with("--yes", "--reason=again")...)
}

// A consumer that has nothing to do is set back while it runs: it finds out by itself, and what its database
// does not know any more is taken again, once, and the rest is not.
func TestRewindOfAnIdleConsumer(t *testing.T) { rewindable(t, testRewindIdle) }

func testRewindIdle(t *testing.T, bus said, b *bed) {
	in := b.migrate().run(bus.Broker, bus.topic, bus.topic, "said",
		inbox.Options{Workers: 2, Instance: inbox.Instance{Member: "one"}}, nil)
	until(t, "all are taken", func() bool { return b.taken() == "0 1 2 3" })
	until(t, "its position is stored", func() bool {
		all, err := b.s.SyncConsumer(t.Context(), store.SyncRequest{Consumer: bus.topic})
		return err == nil && len(all.Checkpoints) == 1 && all.Checkpoints[0].Position == bus.end
	})
	b.exec("DELETE FROM taken WHERE id IN ('2', '3')") // as if somebody had put these tables back
	b.exec("DELETE FROM skald_mark WHERE id IN ('2', '3')")
	start(t, nil, "consumer", "rewind", "--store="+b.at, "--broker="+bus.url, "--consumer="+bus.topic,
		"--topic="+bus.topic,
		"--to-time="+bus.middle.Add(-time.Hour).Format(time.RFC3339Nano), "--yes",
		"--reason=restored").expect(0)
	began := time.Now()
	until(t, "what is not known any more is taken again", func() bool { return b.taken() == "0 1 2 3" })
	t.Logf("taken again after %.1f s", time.Since(began).Seconds())
	until(t, "the others were seen again", func() bool { return in.Health().Duplicates >= 2 })
	if is := b.taken(); is != "0 1 2 3" {
		t.Errorf("the effects are of %s", is)
	}
}

// RabbitMQ keeps nothing that was acknowledged: it is said, and nothing is changed.
func TestRewindOnRabbitMQIsRefused(t *testing.T) {
	t.Parallel()
	at, path := need.RabbitMQ(t), filepath.Join(t.TempDir(), "r.db")
	start(t, nil, "migrate", "--store=sqlite:"+path).expect(0)
	start(t, nil, "consumer", "rewind", "--store=sqlite:"+path, "--broker="+at, "--consumer=stock",
		"--topic=orders", "--to-time=1h", "--yes", "--reason=r").
		expect(2, "cannot be rewound", "publish them again")
	if n := number(t.Context(), path, "SELECT count(*) FROM skald_audit"); n != 0 {
		t.Errorf("%d entries were noted", n)
	}
}
