package main_test

import (
	"net"
	"path/filepath"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
)

// natsServer is a NATS with its files in dir; port 0 is any.
func natsServer(t *testing.T, dir string, port int) *server.Server {
	t.Helper()
	if port == 0 {
		port = server.RANDOM_PORT
	}
	s, err := server.NewServer(&server.Options{
		Host: "127.0.0.1", Port: port, JetStream: true, StoreDir: dir, SyncAlways: true, NoSigs: true, NoLog: true,
		JetStreamMaxMemory: 64 << 20, JetStreamMaxStore: 4 << 30,
	})
	if err != nil {
		t.Fatal(err)
	}
	go s.Start()
	if !s.ReadyForConnections(time.Minute) {
		t.Fatal("NATS does not start")
	}
	t.Cleanup(func() { s.Shutdown(); s.WaitForShutdown() })
	return s
}

// Faults in the shop, and a NATS that ends and begins again twice: every promise is kept.
func TestDemoOnNATSThatRestarts(t *testing.T) {
	t.Parallel()
	files, dir := t.TempDir(), filepath.Join(t.TempDir(), "demo")
	s := natsServer(t, files, 0)
	port := s.Addr().(*net.TCPAddr).Port
	args := []string{"demo", "--orders", "150", "--faults", "wild", "--dir", dir, "--broker", "nats://" + s.Addr().String(), "--json"}
	p := start(t, nil, args...)
	for _, n := range []int{10, 60} {
		p.until("orders", func() bool {
			return number(t.Context(), filepath.Join(dir, "order.db"), "SELECT count(*) FROM orders") > n
		})
		s.Shutdown()
		s.WaitForShutdown()
		s = natsServer(t, files, port)
	}
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
	start(t, nil, "demo", "--orders", "5", "--faults", "none", "--broker", bus).expect(5, "skald_demo.orders", "--prefix")
	s.Shutdown()
	s.WaitForShutdown()
	start(t, nil, "demo", "--orders", "5", "--broker", bus).expect(6)
	start(t, nil, "relay", "--store", "sqlite:"+filepath.Join(t.TempDir(), "x.db"), "--broker", "nats://u:hush@h:1").expect(2, "password_file")
}
