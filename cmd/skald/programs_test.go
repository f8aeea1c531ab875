package main_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/twmb/franz-go/pkg/kfake"
)

// The README's three programs run with what it says before them: one writes, one relays, and one consumes, once.
func TestProgramsOfTheReadme(t *testing.T) {
	t.Parallel()
	at, conn := postgres(t)
	kafka, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.BrokerConfigs(map[string]string{"group.initial.rebalance.delay.ms": "0"}))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(kafka.Close)
	seed := kafka.ListenAddrs()[0]
	readme, err := os.ReadFile("../../README.md")
	if err != nil {
		t.Fatal(err)
	}
	const migrate = `skald migrate --store "$DATABASE_URL" --broker "kafka://$KAFKA" --topic orders --topic inventory`
	for _, line := range []string{migrate, `psql "$DATABASE_URL" -f examples/tables.sql`, "go run ./examples/write", "go run ./examples/consume"} {
		if !strings.Contains(string(readme), line) {
			t.Errorf("README.md has not the line %q, which is run here", line)
		}
	}
	start(t, nil, "migrate", "--store", at, "--broker", "kafka://"+seed, "--topic", "orders", "--topic", "inventory").expect(0)
	tables, err := os.ReadFile("../../examples/tables.sql")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := conn.PgConn().Exec(t.Context(), string(tables)).ReadAll(); err != nil {
		t.Fatal(err)
	}

	dir, env := t.TempDir(), []string{"DATABASE_URL=" + at, "KAFKA=" + seed}
	build := exec.CommandContext(t.Context(), "go", "build", "-o", dir, "./examples/write", "./examples/relay", "./examples/consume")
	build.Dir = "../.."
	if said, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, said)
	}
	launch(t, filepath.Join(dir, "write"), env).expect(0)
	launch(t, filepath.Join(dir, "write"), env).expect(1, "duplicate key") // the order is there: neither it nor its message is written again

	const pending = "SELECT pending + set_aside FROM skald_backlog"
	relay := launch(t, filepath.Join(dir, "relay"), env)
	relay.until("a published message", func() bool { return count(conn, pending) == 0 })
	relay.signal(syscall.SIGTERM)
	relay.expect(0)
	consume := launch(t, filepath.Join(dir, "consume"), env)
	consume.until("a reservation that is published", func() bool {
		return count(conn, "SELECT free FROM stock WHERE sku = 'tea'") == 8 && count(conn, pending) == 0
	})
	consume.signal(syscall.SIGTERM)
	consume.expect(0)
	if n := count(conn, "SELECT count(*) FROM skald_outbox WHERE type IN ('order.placed', 'stock.reserved')"); n != 2 {
		t.Errorf("%d messages of two", n)
	}
}
