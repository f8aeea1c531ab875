package main_test

import (
	"context"
	"crypto/rand"
	"fmt"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/skald-go/skald/broker"
	"github.com/skald-go/skald/broker/natsbroker"
	"github.com/skald-go/skald/internal/need"
)

// natsServer is a NATS with its files in dir; port 0 is any.
func natsServer(t *testing.T, dir string, port int) *server.Server {
	t.Helper()
	if port == 0 {
		port = server.RANDOM_PORT
	}
	s, err := server.NewServer(&server.Options{
		Host: "127.0.0.1", Port: port, JetStream: true, StoreDir: dir, SyncAlways: true, NoSigs: true,
		NoLog:              true,
		JetStreamMaxMemory: 64 << 20, JetStreamMaxStore: 4 << 30,
	})
	if err != nil {
		t.Fatal(err)
	}
	go s.Start()
	if !s.ReadyForConnections(5 * time.Minute) {
		t.Fatal("NATS does not start")
	}
	t.Cleanup(func() { s.Shutdown(); s.WaitForShutdown() })
	return s
}

// Faults in the shop, a NATS that ends and begins again twice, a demo that is killed and started again: every
// promise is kept.
func TestDemoOnNATSThatRestarts(t *testing.T) {
	need.Nightly(t, "natsbroker TestRestart and TestDemoOnForeignNATS stay")
	t.Parallel()
	files, dir := t.TempDir(), filepath.Join(t.TempDir(), "demo")
	port := need.FreePort(t)
	s := natsServer(t, files, port)
	args := []string{"demo", "--orders", "150", "--faults", "wild", "--dir", dir, "--broker",
		"nats://" + s.Addr().String(), "--json"}
	p := start(t, nil, args...)
	for _, n := range []int{10, 60} {
		p.until("orders", func() bool {
			return number(t.Context(), filepath.Join(dir, "order.db"), "SELECT count(*) FROM orders") > n
		})
		s.Shutdown()
		s.WaitForShutdown()
		s = natsServer(t, files, port)
	}
	p.kill()
	p = start(t, nil, args...)
	p.expect(0)
	if o := p.outcome(); !o.OK || o.Orders.Placed != 150 {
		t.Errorf("%s", &p.out)
	}
	start(t, nil, args...).expect(0) // the verdict again, of the same run at the same NATS
}

// Topics that the run did not make are left alone, and a NATS that is away is told as such.
func TestDemoOnForeignNATS(t *testing.T) {
	t.Parallel()
	s := natsServer(t, t.TempDir(), 0)
	bus := "nats://" + s.Addr().String()
	start(t, nil, "demo", "--orders", "5", "--faults", "none", "--broker", bus).expect(0)
	start(t, nil, "demo", "--orders", "5", "--faults", "none", "--broker", bus).expect(5,
		"skald_demo.orders", "--prefix")
	s.Shutdown()
	s.WaitForShutdown()
	start(t, nil, "demo", "--orders", "5", "--broker", bus).expect(6)
	start(t, nil, "relay", "--store", "sqlite:"+filepath.Join(t.TempDir(), "x.db"), "--broker",
		"nats://u:hush@h:1?user=v").expect(2, "in front of the host")
	start(t, nil, "demo", "--broker", "nats:").expect(2, "nats://")
}

// What a demo made at a NATS goes with it, also one that was killed, and nothing else: others' streams,
// groups and the bucket stay; a stream that was made anew is another's.
func TestDemoRemoveOnNATS(t *testing.T) {
	if testing.Short() {
		t.Skip("a demo of half a minute: in make test")
	}
	t.Parallel()
	s := natsServer(t, t.TempDir(), 0)
	nc, err := nats.Connect(s.ClientURL())
	must(t, err)
	defer nc.Close()
	js, err := jetstream.New(nc)
	must(t, err)
	other, err := natsbroker.New(s.Addr().String(), nil)
	must(t, err)
	defer other.Close()
	must(t, other.MakeTopics(t.Context(), 1, "skald_demo", "others"))
	sub, err := other.Subscribe(t.Context(), broker.Group{Name: "skald_demo", Topics: []string{"others"}})
	must(t, err)
	defer sub.Close(t.Context())

	dir := filepath.Join(t.TempDir(), "demo")
	where := []string{"--dir", dir, "--broker", "nats://" + s.Addr().String()}
	demo := func(args ...string) *program {
		return start(t, nil, append(append([]string{"demo"}, args...), where...)...)
	}
	p := demo("--orders", "5000")
	p.until("mails", func() bool {
		return number(t.Context(), filepath.Join(dir, "notification.db"), "SELECT count(*) FROM mails") > 5
	})
	// its members are in their groups until their sessions end
	p.kill()
	// as by a removal that was killed
	must(t, js.DeleteStream(t.Context(), natsbroker.Stream("skald_demo.orders")))
	demo("remove", "--yes").expect(0)
	missing(t, dir)
	list := js.StreamNames(t.Context())
	var streams []string
	for name := range list.Name() {
		streams = append(streams, name)
	}
	slices.Sort(streams)
	if want := []string{"KV_skald", "others", "skald_demo"}; list.Err() != nil ||
		!slices.Equal(streams, want) {
		t.Errorf("streams %v are left, want %v: %v", streams, want, list.Err())
	}
	kv, err := js.KeyValue(t.Context(), "skald")
	must(t, err)
	keys, err := kv.Keys(t.Context())
	must(t, err)
	for _, key := range keys {
		if strings.HasPrefix(key, "partition.skald_demo=") || strings.HasPrefix(key, "member.skald_demo=") {
			t.Errorf("the bucket has %s", key)
		}
	}
	if !slices.Contains(keys, "partition.skald_demo.others.0") || !slices.Contains(keys, "incarnation") {
		t.Errorf("the bucket has only %v", keys)
	}

	demo("--orders", "10", "--faults", "none").expect(0) // it can be begun anew
	made, err := js.Stream(t.Context(), natsbroker.Stream("skald_demo.payments"))
	must(t, err)
	must(t, js.DeleteStream(t.Context(), made.CachedInfo().Config.Name))
	_, err = js.CreateStream(t.Context(), made.CachedInfo().Config)
	must(t, err)
	demo("remove", "--yes").expect(5, "skald_demo.payments")
	if n := number(t.Context(), filepath.Join(dir, "order.db"), "SELECT count(*) FROM orders"); n != 10 {
		t.Errorf("%d orders are left", n)
	}
}

// Who NATS does not know is told so, without the password, and with the exit code of wrong passwords; a relay
// goes on asking.
func TestWrongPasswordForNATS(t *testing.T) {
	t.Parallel()
	s, err := server.NewServer(&server.Options{Host: "127.0.0.1", Port: server.RANDOM_PORT, NoSigs: true,
		NoLog:     true,
		JetStream: true, StoreDir: t.TempDir(), Username: "skald", Password: "hush-hush"})
	must(t, err)
	s.Start()
	defer s.Shutdown()
	bus, store := "nats://"+s.Addr().String()+"?user=skald", filepath.Join(t.TempDir(), "x.db")
	env := []string{"SKALD_NATS_PASSWORD=s3cr3t-wrong"}
	p := start(t, env, "demo", "--broker", bus)
	p.expect(3, "Authorization Violation")
	start(t, nil, "migrate", "--store", "sqlite:"+store).expect(0)
	exec1(t, store, "INSERT INTO skald_outbox (topic, key, type, data) VALUES ('t', 'k', 'said', '{}')")
	relay := start(t, env, "relay", "--store", "sqlite:"+store, "--broker", bus)
	relay.until("the refusal",
		func() bool { return strings.Contains(strings.ToLower(relay.errs.String()), "authorization") })
	relay.signal(syscall.SIGTERM)
	relay.expect(0)
	if said := p.errs.String() + relay.errs.String(); strings.Contains(said, "s3cr3t") {
		t.Errorf("the password is said:\n%s", said)
	}
	start(t, []string{"SKALD_NATS_PASSWORD=hush-hush"}, "demo", "--orders", "5", "--faults", "none",
		"--broker", bus).expect(0)
}

// The command as a relay to a real NATS, killed and started again: another's client finds every row, of each
// key the first time in order.
func TestRelayToNATS(t *testing.T) {
	t.Parallel()
	at, topic := need.NATS(t), "relayed-"+strings.ToLower(rand.Text()[:10])
	nc, err := nats.Connect(at)
	must(t, err)
	defer nc.Close()
	js, err := jetstream.New(nc)
	must(t, err)
	maker, err := natsbroker.New(strings.TrimPrefix(at, "nats://"), nil)
	must(t, err)
	defer maker.Close()
	must(t, maker.MakeTopics(t.Context(), 3, topic))
	defer func() { must(t, js.DeleteStream(context.Background(), topic)) }()
	store := filepath.Join(t.TempDir(), "outbox.db")
	start(t, nil, "migrate", "--store", "sqlite:"+store).expect(0)
	const keys, each = 20, 50
	exec1(t, store, fmt.Sprintf(`WITH RECURSIVE n (i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM n WHERE i < %d)
		INSERT INTO skald_outbox (topic, key, type, data) SELECT '%s', 'k' || (i %% %d), 'said', CAST(i / %d AS TEXT) FROM n`, keys*each-1, topic, keys, keys))
	stream, err := js.Stream(t.Context(), topic)
	must(t, err)
	stored := func() uint64 {
		info, err := stream.Info(t.Context())
		must(t, err)
		return info.State.Msgs
	}
	relay := start(t, nil, "relay", "--store", "sqlite:"+store, "--broker", at)
	relay.until("some rows", func() bool { return stored() > 100 })
	relay.kill()
	relay = start(t, nil, "relay", "--store", "sqlite:"+store, "--broker", at)
	c, err := stream.OrderedConsumer(t.Context(), jetstream.OrderedConsumerConfig{})
	must(t, err)
	next, whole := map[string]int{}, 0
	for whole < keys {
		m, err := c.Next(jetstream.FetchMaxWait(5 * time.Minute))
		must(t, err)
		key := m.Headers().Get("ce-partitionkey")
		n, err := strconv.Atoi(string(m.Data()))
		must(t, err)
		if n > next[key] {
			t.Fatalf("%s: %d came before %d", key, n, next[key])
		}
		if n == next[key] {
			if next[key]++; next[key] == each {
				whole++
			}
		}
	}
	relay.signal(syscall.SIGTERM)
	relay.expect(0)
}
