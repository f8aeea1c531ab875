package kafkabroker_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/skald-go/skald/broker"
	"github.com/skald-go/skald/broker/brokertest"
	"github.com/skald-go/skald/broker/kafkabroker"
	"github.com/skald-go/skald/internal/need"
)

// TestBroker runs the suite on a Kafka of three brokers in this process.
func TestBroker(t *testing.T) {
	fake := newFake(t)
	brokertest.Run(t, func(t *testing.T) brokertest.Harness {
		h := harness(t, fake.seeds)
		h.Disturb = fake.disturb
		return h
	})
}

// TestBrokerOnKafka runs it on a real one.
func TestBrokerOnKafka(t *testing.T) {
	seeds := need.Kafka(t)
	brokertest.Run(t, func(t *testing.T) brokertest.Harness {
		line := &flaky{conns: map[net.Conn]bool{}}
		h := harness(t, seeds, kgo.Dialer(line.dial))
		h.Messages, h.Disturb = 5000, line.disturb
		return h
	})
}

func harness(t *testing.T, seeds string, more ...kgo.Opt) brokertest.Harness {
	raw, err := kgo.NewClient(kgo.SeedBrokers(strings.Split(seeds, ",")...),
		kgo.MetadataMinAge(10*time.Millisecond))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(raw.Close)
	return brokertest.Harness{
		Open: func(t *testing.T) brokertest.Broker {
			return open(t, seeds, &kafkabroker.Options{Client: more})
		},
		Lasting: func(t *testing.T) brokertest.Broker {
			return open(t, seeds, &kafkabroker.Options{Client: more, Session: 5 * time.Minute,
				Patience: 5 * time.Minute, Heartbeat: 500 * time.Millisecond})
		},
		Frugal: func(t *testing.T) brokertest.Broker {
			return open(t, seeds, &kafkabroker.Options{Client: more, Prefetch: brokertest.Holds})
		},
		Unacknowledged: func(s broker.Subscription) int { return s.(*kafkabroker.Subscription).Held() },
		Capabilities:   kafkabroker.Capabilities,
		Via: func(t *testing.T,
			dial func(context.Context, string, string) (net.Conn, error)) brokertest.Broker {
			return open(t, seeds, &kafkabroker.Options{Client: []kgo.Opt{kgo.Dialer(dial)}})
		},
		Limit: func(t *testing.T, topic string, bytes int) {
			setTopic(t, raw, topic, "max.message.bytes", fmt.Sprint(bytes))
		},
		Keep: func(t *testing.T, topic string, d time.Duration) {
			setTopic(t, raw, topic, "retention.ms", fmt.Sprint(d.Milliseconds()))
			setTopic(t, raw, topic, "segment.ms", "3600000")
		},
		Purge: func(t *testing.T, topic string, n int) {
			adm := kadm.NewClient(raw)
			starts, err := adm.ListStartOffsets(t.Context(), topic)
			if err != nil {
				t.Fatalf("purge topic: %v", err)
			}
			to := starts.Offsets()
			to.Each(func(o kadm.Offset) { o.At += int64(n); to.Add(o) })
			if _, err := adm.DeleteRecords(t.Context(), to); err != nil {
				t.Fatalf("purge topic: %v", err)
			}
		},
		Foreign: func(t *testing.T, topic string, r brokertest.Record) {
			rec := &kgo.Record{Topic: topic, Key: r.Key, Value: r.Data}
			for _, h := range r.Headers {
				rec.Headers = append(rec.Headers, kgo.RecordHeader{Key: h.Name, Value: h.Value})
			}
			if err := raw.ProduceSync(t.Context(), rec).FirstErr(); err != nil {
				t.Fatalf("produce: %v", err)
			}
		},
		Mapped: func(t *testing.T, e *broker.Envelope) brokertest.Broker {
			return open(t, seeds, &kafkabroker.Options{Client: more, Envelope: e})
		},
		Kill: func(_ *testing.T, s broker.Subscription) { s.(*kafkabroker.Subscription).Kill() },
		Remove: func(t *testing.T, topic string) {
			if gone, err := kadm.NewClient(raw).DeleteTopics(t.Context(), topic); err != nil ||
				gone.Error() != nil {
				t.Fatalf("delete topic: %v %v", err, gone.Error())
			}
		},
	}
}

// setTopic changes a setting of a topic.
func setTopic(t *testing.T, raw *kgo.Client, topic, name, value string) {
	t.Helper()
	resp, err := kadm.NewClient(raw).AlterTopicConfigs(t.Context(),
		[]kadm.AlterConfig{{Name: name, Value: &value}}, topic)
	if err == nil {
		_, err = resp.On(topic, func(r *kadm.AlterConfigsResponse) error { return r.Err })
	}
	if err != nil {
		t.Fatalf("set %s: %v", name, err)
	}
	until(t, name, func() bool { // Kafka answers before its brokers know
		got, err := kadm.NewClient(raw).DescribeTopicConfigs(t.Context(), topic)
		return err == nil && slices.ContainsFunc(got[0].Configs,
			func(c kadm.Config) bool { return c.Key == name && c.MaybeValue() == value })
	})
}

func open(t *testing.T, seeds string, opts *kafkabroker.Options) *kafkabroker.Broker {
	t.Helper()
	b, err := kafkabroker.New(seeds, opts)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { b.Close() })
	return b
}

type fake struct {
	*kfake.Cluster
	seeds string
}

func newFake(t *testing.T, more ...kfake.Opt) *fake {
	t.Helper()
	c, err := kfake.NewCluster(append([]kfake.Opt{kfake.NumBrokers(3), kfake.BrokerConfigs(map[string]string{
		"group.initial.rebalance.delay.ms": "0",
	})}, more...)...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	seeds := ""
	for i, a := range c.ListenAddrs() {
		if i > 0 {
			seeds += ","
		}
		seeds += a
	}
	return &fake{c, seeds}
}

// disturb makes produce requests fail with errors that real brokers return, but never with an error about the
// message itself. Some failures are temporary, and some requests are executed before they fail. It also moves
// leaders.
func (f *fake) disturb(t *testing.T) (stop func()) {
	ctx, cancel := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	wg.Go(func() {
		rng := rand.New(rand.NewPCG(21, 22))
		errs := []*kerr.Error{kerr.NotLeaderForPartition, kerr.NotEnoughReplicas, kerr.RequestTimedOut,
			kerr.UnknownServerError, kerr.CorruptMessage}
		for ctx.Err() == nil {
			h := f.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.Produce}, Err: errs[rng.IntN(len(errs))]})
			if rng.IntN(5) == 0 {
				f.ShufflePartitionLeaders()
			}
			waiting, end := context.WithTimeout(ctx, time.Second)
			_ = h.Wait(waiting, 1)
			end()
			<-time.After(time.Duration(rng.IntN(10)) * time.Millisecond)
		}
	})
	return func() { cancel(); wg.Wait() }
}

// flaky cuts connections at any time, also in the middle of a request.
type flaky struct {
	mu    sync.Mutex
	conns map[net.Conn]bool
}

func (f *flaky) dial(ctx context.Context, network, host string) (net.Conn, error) {
	c, err := new(net.Dialer).DialContext(ctx, network, host)
	if err == nil {
		f.mu.Lock()
		defer f.mu.Unlock()
		f.conns[c] = true
	}
	return c, err
}

func (f *flaky) disturb(t *testing.T) (stop func()) {
	ctx, cancel := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	wg.Go(func() {
		for ctx.Err() == nil {
			f.mu.Lock()
			for c := range f.conns {
				_ = c.Close()
			}
			clear(f.conns)
			f.mu.Unlock()
			<-time.After(20 * time.Millisecond)
		}
	})
	return func() { cancel(); wg.Wait() }
}
