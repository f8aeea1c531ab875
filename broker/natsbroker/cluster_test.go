package natsbroker_test

import (
	"errors"
	"fmt"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/skald-go/skald"
	"github.com/skald-go/skald/broker"
	"github.com/skald-go/skald/broker/natsbroker"
	"github.com/skald-go/skald/internal/need"
)

// cluster starts a cluster of three servers.
func cluster(t *testing.T) (all []*server.Server, addrs string) {
	t.Helper()
	var routes []*url.URL
	var ports []int
	for range 3 {
		port := need.FreePort(t)
		ports = append(ports, port)
		routes = append(routes, &url.URL{Scheme: "nats", Host: fmt.Sprintf("127.0.0.1:%d", port)})
	}
	var hosts []string
	for i, port := range ports {
		s, err := server.NewServer(&server.Options{
			ServerName: fmt.Sprint("s", i), Host: "127.0.0.1", Port: server.RANDOM_PORT, NoSigs: true,
			NoLog:     true,
			JetStream: true, StoreDir: t.TempDir(), Routes: routes,
			Cluster: server.ClusterOpts{Name: "c", Host: "127.0.0.1", Port: port},
		})
		if err != nil {
			t.Fatal(err)
		}
		s.Start()
		t.Cleanup(func() { s.Shutdown(); s.WaitForShutdown() })
		all = append(all, s)
		hosts = append(hosts, s.Addr().String())
	}
	until(t, "a leader of the cluster", func() bool {
		for _, s := range all {
			if s.JetStreamIsLeader() && s.NumRoutes() > 0 {
				return true
			}
		}
		return false
	})
	return all, strings.Join(hosts, ",")
}

// TestCluster: streams and bucket on three servers. Of rivals for a row one wins and the others know that
// they lost, by whichever code the servers say it: that is the fence. A server that dies loses nothing.
func TestCluster(t *testing.T) {
	all, addrs := cluster(t)
	b, err := natsbroker.New(addrs, &natsbroker.Options{Replicas: 3})
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	until(t, "three servers for a stream", func() bool { return b.MakeTopics(t.Context(), 1, "t") == nil })
	_, js := raw(t, all[0].Addr().String())
	if n := stream(t, js, "t").CachedInfo().Config.Replicas; n != 3 {
		t.Errorf("the stream has %d replicas", n)
	}
	fenced(t, b, js, "t")
	rivals(t, js)
	all[1].Shutdown()
	until(t, "a publish without one of three", func() bool {
		return b.Publish(t.Context(), []skald.Message{message("t", "k", 1)}).Wait(t.Context()) == nil
	})
	var sub broker.Subscription
	until(t, "a member without one of three", func() bool {
		sub, err = b.Subscribe(t.Context(), broker.Group{Name: "h", Topics: []string{"t"}})
		return err == nil
	})
	ds := receive(t, sub, func(ds []broker.Delivery) bool { return len(ds) >= 2 })
	if ds[0].ID != message("t", "k", 0).ID || ds[len(ds)-1].ID != message("t", "k", 1).ID {
		t.Errorf("got %s and %s", ds[0].ID, ds[len(ds)-1].ID)
	}
	if err := sub.Close(t.Context()); err != nil {
		t.Error(err)
	}
}

// rivals change the same row at the same time. At most one may succeed. The servers may refuse all of them
// while a change is not yet on each server; then they retry, as members do.
func rivals(t *testing.T, js jetstream.JetStream) {
	t.Helper()
	kv, err := js.KeyValue(t.Context(), "skald")
	if err != nil {
		t.Fatal(err)
	}
	rev, err := kv.Create(t.Context(), "partition.rivals.t.0", []byte("{}"))
	if err != nil {
		t.Fatal(err)
	}
	for rounds := 0; rounds < 50; {
		var wg sync.WaitGroup
		var mu sync.Mutex
		var won []uint64
		for range 4 {
			wg.Go(func() {
				next, err := kv.Update(t.Context(), "partition.rivals.t.0", []byte("{}"), rev)
				mu.Lock()
				defer mu.Unlock()
				if err == nil {
					won = append(won, next)
				} else if !natsbroker.Stale(err) {
					t.Errorf("a rival that lost does not know it: %v", err)
				}
			})
		}
		switch wg.Wait(); len(won) {
		case 0:
			e, err := kv.Get(t.Context(), "partition.rivals.t.0")
			if err != nil {
				t.Fatal(err)
			}
			rev = e.Revision()
		case 1:
			rev = won[0]
			rounds++
		default:
			t.Fatalf("%d of four rivals won", len(won))
		}
	}
}

// TestTooFewServers: more replicas than there are servers is no outage that is waited for, but a setting to
// change.
func TestTooFewServers(t *testing.T) {
	b, err := natsbroker.New(serve(t, t.TempDir(), 0).Addr().String(),
		&natsbroker.Options{Replicas: 3, Patience: time.Second})
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	err = b.MakeTopics(t.Context(), 1, "t")
	if err == nil || errors.Is(err, broker.ErrUnavailable) || !strings.Contains(err.Error(), "replicas=3") ||
		!strings.Contains(err.Error(), "too few servers") {
		t.Errorf("made it: %v", err)
	}
}
