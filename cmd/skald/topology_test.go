package main_test

import (
	"crypto/rand"
	"path/filepath"
	"strings"
	"testing"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/skald-go/skald/internal/need"
)

// Topics are made by the command where they are missing, twice as once; --check only says which; what is there stays.
func TestMigrateBroker(t *testing.T) {
	t.Parallel()
	start(t, nil, "migrate", "--broker", "nats://127.0.0.1:1").expect(2, "--topic")
	start(t, nil, "migrate", "--topic", "t").expect(2, "--broker")
	start(t, nil, "migrate", "--broker", "mem:", "--topic", "t").expect(2, "mem:")
	start(t, nil, "migrate", "--broker", "nats://127.0.0.1:1", "--topic", "t").expect(6)
	start(t, nil, "migrate", "--broker", "nats://127.0.0.1:1", "--topic", "t", "--print").expect(2, "--print")
	for _, bus := range []string{"nats://" + natsServer(t, t.TempDir(), 0).Addr().String(), "kafka://" + need.Kafka(t)} {
		name := "migrated." + strings.ToLower(rand.Text()[:10])
		one, two := []string{"migrate", "--broker", bus, "--topic", name + ".a"}, []string{"--topic", name + ".b", "--lanes", "3"}
		said := func(code int, args ...string) string {
			t.Helper()
			p := start(t, nil, args...)
			p.expect(code)
			return p.out.String()
		}
		if out := said(8, append(one, "--check")...); !strings.Contains(out, "pending") || !strings.Contains(out, name+".a") {
			t.Errorf("%s: %s", bus, out)
		}
		if out := said(0, one...); !strings.Contains(out, "made") || !strings.Contains(out, name+".a") {
			t.Errorf("%s: %s", bus, out)
		}
		for _, args := range [][]string{one, append(one, "--check")} {
			if out := said(0, args...); out != "up to date\n" {
				t.Errorf("%s %v: %s", bus, args, out)
			}
		}
		if out := said(0, append(one, two...)...); strings.Contains(out, name+".a") || !strings.Contains(out, name+".b") {
			t.Errorf("%s: %s", bus, out)
		}
		store := "sqlite:" + filepath.Join(t.TempDir(), "x.db")
		both := append(one, "--store", store)
		if out := said(8, append(both, "--check")...); !strings.Contains(out, "pending") || !strings.Contains(out, "up to date") {
			t.Errorf("%s: %s", bus, out)
		}
		said(0, both...)
		said(0, append(both, "--check")...)
		start(t, []string{"SKALD_BROKER=" + bus}, "migrate", "--store", store).expect(0) // a service's own word
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
	_, err = js.CreateStream(t.Context(), jetstream.StreamConfig{Name: "t", Subjects: []string{"t.0"}, Retention: jetstream.WorkQueuePolicy})
	must(t, err)
	args := []string{"migrate", "--broker", "nats://" + s.Addr().String(), "--topic", "t"}
	p := start(t, nil, append(args, "--check")...)
	if p.expect(8); !strings.Contains(p.out.String(), "retention") {
		t.Error(p.out.String())
	}
	start(t, nil, args...).expect(5, "retention", "stream t")
}

func dropTopics(t *testing.T, seeds string, topics ...string) {
	t.Helper()
	cl, err := kgo.NewClient(kgo.SeedBrokers(seeds))
	must(t, err)
	defer cl.Close()
	_, err = kadm.NewClient(cl).DeleteTopics(t.Context(), topics...)
	must(t, err)
}
