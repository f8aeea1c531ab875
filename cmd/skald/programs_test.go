package main_test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/twmb/franz-go/pkg/kfake"
)

// The programs of examples/README.md run with the commands that it gives before them: one writes, one relays,
// one consumes, once, one charges and, where the stock is short, gives the money back, once, and one asks a
// gateway for it, once for each order.
func TestProgramsOfTheReadme(t *testing.T) {
	t.Parallel()
	at, conn := postgres(t)
	kafka, err := kfake.NewCluster(kfake.NumBrokers(1),
		kfake.BrokerConfigs(map[string]string{"group.initial.rebalance.delay.ms": "0"}))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(kafka.Close)
	seed := kafka.ListenAddrs()[0]
	page, err := os.ReadFile("../../examples/README.md")
	if err != nil {
		t.Fatal(err)
	}
	const migrate = `skald migrate --broker "kafka://$KAFKA" --topic orders --topic inventory --topic payments`
	for _, line := range []string{migrate, `psql "$DATABASE_URL" -f examples/tables.sql`,
		"go run ./examples/write", "go run ./examples/consume"} {
		if !strings.Contains(string(page), line) {
			t.Errorf("examples/README.md has not the line %q, which is run here", line)
		}
	}
	start(t, []string{"SKALD_STORE=" + at}, "migrate", "--broker", "kafka://"+seed, "--topic", "orders", "--topic",
		"inventory", "--topic", "payments").expect(0)
	tables, err := os.ReadFile("../../examples/tables.sql")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := conn.PgConn().Exec(t.Context(), string(tables)).ReadAll(); err != nil {
		t.Fatal(err)
	}

	dir, env := t.TempDir(), []string{"DATABASE_URL=" + at, "KAFKA=" + seed}
	build := exec.CommandContext(t.Context(), "go", "build", "-o", dir, "./examples/write",
		"./examples/relay", "./examples/consume", "./examples/compensate", "./examples/charge")
	build.Dir = "../.."
	if said, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, said)
	}
	launch(t, filepath.Join(dir, "write"), env).expect(0)
	// the order is there: neither it nor its message is written again
	launch(t, filepath.Join(dir, "write"), env).expect(1, "duplicate key")

	const pending = "SELECT pending + deferred FROM skald_backlog"
	relay := launch(t, filepath.Join(dir, "relay"), env)
	relay.until("a published message", func() bool { return count(conn, pending) == 0 })
	relay.signal(syscall.SIGTERM)
	relay.expect(0)
	consume := launch(t, filepath.Join(dir, "consume"), env)
	consume.until("a reservation that is published", func() bool {
		return count(conn, "SELECT free FROM stock WHERE sku = 'tea'") == 8 && count(conn, pending) == 0
	})
	start(t, nil, "outbox", "write", "--store", at, "--topic", "orders", "--type", "order.placed",
		"--key", "o-2",
		"--data", `{"ID":"o-2","SKU":"coffee","Quantity":1}`, "--reason", "nobody has coffee").expect(0)
	compensate := launch(t, filepath.Join(dir, "compensate"), env)
	compensate.until("a charge that stands, and one that is given back, or never made", func() bool {
		return count(conn, "SELECT count(*) FROM skald_step WHERE consumer = 'payment' AND (saga, state) IN (('o-1', 1), ('o-2', 6), ('o-2', 7))") == 2
	})
	if n := count(conn, "SELECT sum(cents) FROM payments"); n != 500 {
		t.Errorf("%d cents are paid, of 500", n)
	}
	var mu sync.Mutex
	asked := map[string]int{}
	gateway := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		key := r.Header.Get("Idempotency-Key")
		mu.Lock()
		asked[key]++
		n := asked[key]
		mu.Unlock()
		if n == 1 {
			http.Error(w, "busy", http.StatusServiceUnavailable) // so each is asked again
			return
		}
		_, _ = io.WriteString(w, "receipt of "+key)
	}))
	t.Cleanup(gateway.Close)
	charge := launch(t, filepath.Join(dir, "charge"), append(env, "GATEWAY="+gateway.URL))
	charge.until("a receipt for each order", func() bool {
		return count(conn,
			"SELECT count(*) FROM receipts WHERE receipt = 'receipt of charge-' || order_id") == 2
	})
	for _, p := range []*program{consume, compensate, charge} {
		p.signal(syscall.SIGTERM)
		p.expect(0)
	}
	if n := count(conn,
		"SELECT count(*) FROM skald_outbox WHERE type IN ('order.placed', 'stock.reserved', 'stock.short')"); n != 4 {
		t.Errorf("%d messages of four", n)
	}
}
