package bridges_test

import (
	"context"
	"flag"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/skald-go/skald/broker"
	"github.com/skald-go/skald/broker/kafkabroker"
	"github.com/skald-go/skald/broker/membroker"
	"github.com/skald-go/skald/broker/natsbroker"
	"github.com/skald-go/skald/broker/rabbitbroker"
	"github.com/skald-go/skald/internal/need"
)

// bus is a driver as both suites need it.
type bus = broker.Broker

// A kind of broker that the suites run on.
type kind struct {
	name string
	// server finds the one that all tests share; memory has none.
	server func(t testing.TB) string
	// client makes one; memory's are all of one broker.
	client func(at string) (bus, error)
	// remove takes away from the shared server what was made there.
	remove func(ctx context.Context, at string, n *notes) error
	// forward: it cannot rewind, so a group begins where it first joined.
	forward bool
	// short has Watermill's suite send less, as it does by itself with -short; -full overrules it.
	short bool
}

var full = flag.Bool("full", false, "Watermill's suite in full length on RabbitMQ, too: some minutes more")

func kinds() []kind {
	return []kind{
		{name: "memory"},
		{name: "kafka", server: need.Kafka,
			client: func(at string) (bus, error) { return kafkabroker.New(at, nil) }, remove: removeKafka},
		{name: "nats", server: need.NATS,
			client: func(at string) (bus, error) { return natsbroker.New(host(at), nil) },
			remove: removeNATS},
		{name: "rabbitmq", server: need.RabbitMQ,
			client: func(at string) (bus, error) { return rabbitbroker.New(host(at), nil) },
			remove: removeRabbitMQ, forward: true, short: true},
	}
}

// host is a URL without its scheme.
func host(at string) string { return at[strings.LastIndexByte(at, '/')+1:] }

// shared says how clients of the server that others use, too, are made. What they make is removed with t.
func (k kind) shared(t *testing.T) func(*testing.T) bus {
	t.Helper()
	if k.server == nil {
		first := membroker.New(nil)
		return func(t *testing.T) bus { return closing(t, first.Client(), nil) }
	}
	at := k.server(t)
	n := &notes{groups: map[string][]string{}}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
		defer cancel()
		if err := k.remove(ctx, at, n); err != nil {
			t.Errorf("remove what was made: %v", err)
		}
	})
	return func(t *testing.T) bus {
		b, err := k.client(at)
		return &noting{closing(t, b, err), n}
	}
}

func closing(t *testing.T, b bus, err error) bus {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := b.Close(); err != nil {
			t.Errorf("close the client: %v", err)
		}
	})
	return b
}

// own starts a server of the test's own by scripts/services, and says what kills it and starts it again.
func (k kind) own(t *testing.T) (client func(*testing.T) bus, restart []string) {
	t.Helper()
	k.server(t) // where there is one, another can be started
	dir := t.TempDir()
	script := []string{"env", "-u", "SKALD_TEST_" + strings.ToUpper(k.name), "SKALD_SERVICES_DIR=" + dir,
		"../scripts/services"}
	run := func(args ...string) {
		t.Helper()
		all := append(script[1:len(script):len(script)], args...)
		if out, err := exec.Command(script[0], all...).CombinedOutput(); err != nil {
			t.Fatalf("scripts/services %s: %v\n%s", strings.Join(args, " "), err, out)
		}
	}
	t.Cleanup(func() { run("down", k.name) })
	run("up", k.name)
	port, err := os.ReadFile(filepath.Join(dir, k.name+".port"))
	if err != nil {
		t.Fatal(err)
	}
	at := "127.0.0.1:" + strings.TrimSpace(string(port))
	return func(t *testing.T) bus {
		b, err := k.client(at)
		return closing(t, b, err)
	}, append(script, "restart", k.name)
}

// notes are what was made on a shared server.
type notes struct {
	mu     sync.Mutex
	topics []string
	groups map[string][]string // with their topics
}

type noting struct {
	bus
	notes *notes
}

func (n *noting) MakeTopics(ctx context.Context, partitions int, topics ...string) error {
	n.notes.mu.Lock()
	n.notes.topics = append(n.notes.topics, topics...)
	n.notes.mu.Unlock()
	return n.bus.MakeTopics(ctx, partitions, topics...)
}

func (n *noting) Subscribe(ctx context.Context, g broker.Group) (broker.Subscription, error) {
	n.notes.mu.Lock()
	for _, t := range g.Topics {
		if !slices.Contains(n.notes.groups[g.Name], t) {
			n.notes.groups[g.Name] = append(n.notes.groups[g.Name], t)
		}
	}
	n.notes.mu.Unlock()
	return n.bus.Subscribe(ctx, g)
}

func removeKafka(ctx context.Context, at string, n *notes) error {
	cl, err := kgo.NewClient(kgo.SeedBrokers(strings.Split(at, ",")...))
	if err != nil {
		return err
	}
	defer cl.Close()
	adm := kadm.NewClient(cl)
	if _, err := adm.DeleteTopics(ctx, n.topics...); err != nil {
		return err
	}
	_, err = adm.DeleteGroups(ctx, slices.Collect(maps.Keys(n.groups))...)
	return err
}

func removeNATS(ctx context.Context, at string, n *notes) error {
	b, err := natsbroker.New(host(at), nil)
	if err != nil {
		return err
	}
	defer b.Close()
	for g := range n.groups {
		if err := b.RemoveGroup(ctx, g); err != nil {
			return err
		}
	}
	made, err := b.Topics(ctx, n.topics...)
	if err != nil {
		return err
	}
	return b.RemoveTopics(ctx, made)
}

func removeRabbitMQ(ctx context.Context, at string, n *notes) error {
	b, err := rabbitbroker.New(host(at), nil)
	if err != nil {
		return err
	}
	defer b.Close()
	for g, topics := range n.groups {
		if err := b.RemoveGroup(ctx, g, topics...); err != nil {
			return err
		}
	}
	made, err := b.Topics(ctx, n.topics...)
	if err != nil {
		return err
	}
	return b.RemoveTopics(ctx, made)
}

func TestMain(m *testing.M) {
	// The suites wait more than they work. A -parallel of the caller's wins.
	if err := flag.Set("test.parallel", "16"); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(m.Run())
}
