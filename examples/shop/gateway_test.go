package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/skald-go/skald/internal/need"
	"github.com/skald-go/skald/store/sqlitestore"
)

const gatewayArgs = "SHOP_TEST_GATEWAY"

// TestGatewayProcess is the gateway as a process, for the test below.
func TestGatewayProcess(t *testing.T) {
	args := os.Getenv(gatewayArgs)
	if args == "" {
		t.Skip("it is started by TestGatewayThatIsKilled")
	}
	os.Exit(run(context.Background(), strings.Fields(args), io.Discard, os.Stderr))
}

// The gateway is a program of its own, in all its moods, that is killed again and again: every cent that it
// moved belongs to an order, once.
// Interleaving 8.
func TestGatewayThatIsKilled(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "shop")
	at := fmt.Sprintf("127.0.0.1:%d", need.FreePort(t))
	start := func() (kill func()) {
		cmd := exec.Command(os.Args[0], "-test.run=^TestGatewayProcess$")
		cmd.Env = append(os.Environ(), gatewayArgs+"=gateway --moods wild --store sqlite:"+dir+
			" --listen "+at)
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		return func() {
			_ = cmd.Process.Kill()
			_ = cmd.Wait()
		}
	}
	kill := start()
	defer func() { kill() }()
	url, end := started(t, "sqlite:"+dir, "--gateway", "http://"+at)
	const orders = 60
	if code, out, errs := shop(t, "load", "--url", url, "--orders", "60"); code != 0 {
		t.Fatalf("load: exit %d\n%s%s", code, out, errs)
	}
	for _, moved := range []int{1, orders / 6, orders / 2} {
		for deadline := time.Now().Add(5 * time.Minute); moves(t, dir) < moved; time.Sleep(time.Millisecond) {
			if time.Now().After(deadline) {
				t.Fatalf("the gateway has not moved %d times", moved)
			}
		}
		kill()
		kill = start()
	}
	settle(t, "sqlite:"+dir)
	if code := end(); code != 0 {
		t.Errorf("serve: exit %d", code)
	}
	code, out, _ := shop(t, "audit", "--store", "sqlite:"+dir)
	if code != 0 || !strings.Contains(out, "moves at the gateway") || moves(t, dir) < orders/2 {
		t.Errorf("audit: exit %d\n%s", code, out)
	}
	breakIt(t, filepath.Join(dir, "gateway.db"),
		"INSERT INTO gateway_moves SELECT 'twice', kind, key, customer, order_id, cents, at FROM gateway_moves LIMIT 1")
	if code, out, _ := shop(t, "audit", "--store", "sqlite:"+dir); code == 0 ||
		!strings.Contains(out, "moved_once        BROKEN") {
		t.Errorf("audit of a gateway that moved twice: exit %d\n%s", code, out)
	}
}

// moves is how often the gateway has moved money.
func moves(t *testing.T, dir string) (n int) {
	t.Helper()
	db, err := sqlitestore.Open(filepath.Join(dir, "gateway.db"))
	if err != nil {
		return 0 // the file does not exist yet
	}
	defer func() { _ = db.Close() }()
	_ = db.QueryRowContext(t.Context(), "SELECT count(*) FROM gateway_moves").Scan(&n) // or no tables yet
	return n
}
