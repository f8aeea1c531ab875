package main

import (
	"context"
	"crypto/rand"
	"path/filepath"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/skald-go/skald/examples/shop/place"
	"github.com/skald-go/skald/examples/shop/sample"
	"github.com/skald-go/skald/internal/need"
	"github.com/skald-go/skald/operate"
	"github.com/skald-go/skald/status"
)

// The whole shop as a saga has it: orders that go well, and one that is declined and compensated, each with a
// saga that has ended as the order has, and the auditor's verdict.
func TestServeOrchestrated(t *testing.T) {
	orchestrates(t, "sqlite:"+filepath.Join(t.TempDir(), "shop"))
}

func TestServeOrchestratedOnServers(t *testing.T) {
	server, prefix := need.Postgres(t), "shop_"+strings.ToLower(rand.Text()[:10])
	t.Cleanup(func() {
		ctx := context.Background()
		conn, err := pgx.Connect(ctx, server)
		if err != nil {
			t.Error(err)
			return
		}
		defer func() { _ = conn.Close(ctx) }()
		for _, name := range place.Names() {
			if _, err := conn.Exec(ctx, "DROP SCHEMA IF EXISTS "+prefix+"_"+name+" CASCADE"); err != nil {
				t.Error(err)
			}
		}
	})
	orchestrates(t, server, "--broker", natsURL(t), "--prefix", prefix)
}

func orchestrates(t *testing.T, store string, more ...string) {
	t.Helper()
	at, end := started(t, store, append([]string{"--orchestrated"}, more...)...)
	wants := map[string]string{"ada": "done", sample.Poor: "compensated", "bob": "done"}
	ids := map[string]string{}
	for customer := range wants {
		ids[customer] = placedBy(t, at+"/orders", customer)
	}
	for customer, want := range wants {
		statusUntil(t, at+"/orders/"+ids[customer]+"/status", func(a *status.Answer) bool {
			return len(a.Sagas) == 1 && a.Sagas[0].Style == operate.Orchestrated &&
				a.Sagas[0].State == want && a.Sagas[0].Ended != nil
		})
	}
	settleOf(t, append([]string{"audit", "--store", store}, of("--prefix", more)...)...)
	if code := end(); code != 0 {
		t.Errorf("serve: exit %d", code)
	}
}

// of is a flag with its value, where it is among args.
func of(flag string, args []string) []string {
	for i, arg := range args {
		if arg == flag {
			return args[i : i+2]
		}
	}
	return nil
}
