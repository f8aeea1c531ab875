package main_test

import (
	"context"
	"crypto/rand"
	"path/filepath"
	"strings"
	"testing"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	amqp "github.com/rabbitmq/amqp091-go"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/skald-go/skald/broker/rabbitbroker"
	"github.com/skald-go/skald/internal/need"
)

// Topics are made by the command where they are missing, twice as once; --check only says which; what is
// there stays.
func TestMigrateBroker(t *testing.T) {
	t.Parallel()
	start(t, nil, "migrate", "--broker", "nats://127.0.0.1:1").expect(2, "--topic")
	start(t, nil, "migrate", "--topic", "t").expect(2, "--broker")
	start(t, nil, "migrate", "--broker", "mem:", "--topic", "t").expect(2, "mem:")
	start(t, nil, "migrate", "--broker", "nats://127.0.0.1:1", "--topic", "t").expect(6)
	start(t, nil, "migrate", "--broker", "nats://127.0.0.1:1", "--topic", "t", "--print").expect(2, "--print")
	for _, bus := range []string{"nats://" + natsServer(t, t.TempDir(), 0).Addr().String(),
		"kafka://" + need.Kafka(t)} {
		name := "migrated." + strings.ToLower(rand.Text()[:10])
		one, two := []string{"migrate", "--broker", bus, "--topic", name + ".a"},
			[]string{"--topic", name + ".b", "--partitions", "3"}
		said := func(code int, args ...string) string {
			t.Helper()
			p := start(t, nil, args...)
			p.expect(code)
			return p.out.String()
		}
		if out := said(8, append(one, "--check")...); !strings.Contains(out, "pending") ||
			!strings.Contains(out, name+".a") {
			t.Errorf("%s: %s", bus, out)
		}
		if out := said(0, one...); !strings.Contains(out, "made") || !strings.Contains(out, name+".a") {
			t.Errorf("%s: %s", bus, out)
		}
		for _, args := range [][]string{one, append(one, "--check")} {
			if out := said(0, args...); out != "topics: up to date\n" {
				t.Errorf("%s %v: %s", bus, args, out)
			}
		}
		if out := said(0, append(one, two...)...); strings.Contains(out, name+".a") ||
			!strings.Contains(out, name+".b") {
			t.Errorf("%s: %s", bus, out)
		}
		store := "sqlite:" + filepath.Join(t.TempDir(), "x.db")
		both := append(one, "--store", store)
		if out := said(8, append(both, "--check")...); !strings.Contains(out, "pending") ||
			!strings.Contains(out, "up to date") {
			t.Errorf("%s: %s", bus, out)
		}
		said(0, both...)
		said(0, append(both, "--check")...)
		// a service's own word
		start(t, []string{"SKALD_BROKER=" + bus}, "migrate", "--store", store).expect(0)
		if _, adm, ok := strings.Cut(bus, "kafka://"); ok {
			dropTopics(t, adm, name+".a", name+".b")
		}
	}
}

// A stream of others that would lose messages is named, and left alone.
func TestMigrateForeignStream(t *testing.T) {
	t.Parallel()
	s := natsServer(t, t.TempDir(), 0)
	nc, err := nats.Connect(s.ClientURL())
	must(t, err)
	defer nc.Close()
	js, err := jetstream.New(nc)
	must(t, err)
	_, err = js.CreateStream(t.Context(), jetstream.StreamConfig{Name: "t", Subjects: []string{"t.0"},
		Retention: jetstream.WorkQueuePolicy})
	must(t, err)
	args := []string{"migrate", "--broker", "nats://" + s.Addr().String(), "--topic", "t"}
	p := start(t, nil, append(args, "--check")...)
	if p.expect(8); !strings.Contains(p.out.String(), "retention") {
		t.Error(p.out.String())
	}
	start(t, nil, args...).expect(5, "retention", "stream t")
}

// On RabbitMQ the queues of groups are made, too. What is there otherwise is named, and left alone: an
// exchange or a queue of others.
func TestMigrateRabbitMQ(t *testing.T) {
	t.Parallel()
	at, name := need.RabbitMQ(t), "migrated."+strings.ToLower(rand.Text()[:10])
	foreign, group := name+".foreign", name+".g"
	queue := rabbitbroker.Queue(group, name, 1)
	t.Cleanup(func() {
		b, err := rabbitbroker.New(strings.TrimPrefix(at, "amqp://"), nil)
		must(t, err)
		defer b.Close()
		ctx := context.Background()
		must(t, b.RemoveGroup(ctx, group, name))
		ids, err := b.Topics(ctx, name)
		must(t, err)
		must(t, b.RemoveTopics(ctx, ids))
	})
	said := func(code int, args ...string) string {
		t.Helper()
		p := start(t, nil, append([]string{"migrate", "--broker", at}, args...)...)
		p.expect(code)
		return p.out.String()
	}
	start(t, nil, "migrate", "--broker", "amqp://127.0.0.1:1", "--topic", "t").expect(6)
	start(t, nil, "migrate", "--broker", at, "--group", "g").expect(2, "--topic")
	topic := []string{"--topic", name, "--partitions", "2"}
	all := append(topic, "--group", group)
	if out := said(8, append(all, "--check")...); !strings.Contains(out, "pending") ||
		!strings.Contains(out, name) {
		t.Error(out)
	}
	said(0, topic...)
	said(0, append(topic, "--check")...)
	if out := said(8, append(all, "--check")...); !strings.Contains(out, queue) {
		t.Errorf("the queues are missing: %s", out)
	}
	said(0, all...)
	for _, args := range [][]string{all, append(all, "--check")} {
		if out := said(0, args...); out != "topics: up to date\n" {
			t.Errorf("%v: %s", args, out)
		}
	}
	must(t, onRabbitMQ(t, at, func(ch *amqp.Channel) error {
		if _, err := ch.QueueDelete(queue, false, false, false); err != nil {
			return err
		}
		_, err := ch.QueueDeclare(queue, true, false, false, false, amqp.Table{"x-message-ttl": int64(60000)})
		return err
	}))
	if out := said(8, append(all, "--check")...); !strings.Contains(out, "inequivalent arg") ||
		!strings.Contains(out, queue) {
		t.Errorf("a queue with other settings: %s", out)
	}
	start(t, nil, append([]string{"migrate", "--broker", at}, all...)...).expect(5, queue, "inequivalent arg")
	must(t, onRabbitMQ(t, at, func(ch *amqp.Channel) error {
		return ch.ExchangeDeclare(foreign, "fanout", true, false, false, false, nil)
	}))
	t.Cleanup(func() {
		must(t,
			onRabbitMQ(t, at,
				func(ch *amqp.Channel) error { return ch.ExchangeDelete(foreign, false, false) }))
	})
	start(t, nil, "migrate", "--broker", at, "--topic", foreign).expect(5, foreign)
	start(t, nil, "migrate", "--broker", at+"?route=type", "--topic", foreign).expect(0)
}

func dropTopics(t *testing.T, seeds string, topics ...string) {
	t.Helper()
	cl, err := kgo.NewClient(kgo.SeedBrokers(seeds))
	must(t, err)
	defer cl.Close()
	_, err = kadm.NewClient(cl).DeleteTopics(t.Context(), topics...)
	must(t, err)
}
