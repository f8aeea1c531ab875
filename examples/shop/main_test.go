package main

import (
	"bufio"
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"io"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/skald-go/skald/examples/shop/audit"
	"github.com/skald-go/skald/examples/shop/place"
	"github.com/skald-go/skald/internal/need"
	"github.com/skald-go/skald/store/pgstore"
	"github.com/skald-go/skald/store/sqlitestore"
)

// shop runs one command to its end.
func shop(t *testing.T, args ...string) (code int, out, errs string) {
	t.Helper()
	var o, e bytes.Buffer
	ctx, cancel := context.WithTimeout(t.Context(), 6*time.Minute)
	defer cancel()
	code = run(ctx, args, &o, &e)
	return code, o.String(), e.String()
}

// started starts "serve all" and gives the URL of its Order service, and what ends it as a signal does.
func started(t *testing.T, store string, more ...string) (url string, end func() int) {
	t.Helper()
	ctx, stop := context.WithCancel(t.Context())
	read, write := io.Pipe()
	code := make(chan int, 1)
	go func() {
		args := []string{"serve", "all", "--store", store, "--broker", "mem:", "--listen", "127.0.0.1:0"}
		code <- run(ctx, append(args, more...), write, io.Discard)
		_ = write.Close()
	}()
	line, err := bufio.NewReader(read).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	url = strings.TrimSuffix(strings.TrimPrefix(strings.TrimSpace(line), "orders: "), "/orders")
	return url, func() int {
		stop()
		return <-code
	}
}

func TestServeLoadAudit(t *testing.T) {
	dir := t.TempDir()
	store := "sqlite:" + filepath.Join(dir, "shop")
	at, end := started(t, store)
	code, out, errs := shop(t, "load", "--url", at, "--orders", "40", "--wait", "5m")
	if code != 0 || !strings.HasPrefix(out, "40 orders placed, 40 of them new") ||
		!strings.Contains(out, "confirmed") {
		t.Fatalf("load: exit %d\n%s%s", code, out, errs)
	}
	if code, out, _ := shop(t, "load", "--orders", "40", "--url", at+"/"); code != 0 ||
		!strings.HasPrefix(out, "40 orders placed, 0 of them new") {
		t.Errorf("load again: exit %d\n%s", code, out)
	}
	if code := end(); code != 0 {
		t.Errorf("serve: exit %d after a signal", code)
	}
	// The next session handles what was not handled when the signal came.
	_, end = started(t, store)
	settle(t, store)
	if code := end(); code != 0 {
		t.Errorf("serve again: exit %d", code)
	}
	code, out, _ = shop(t, "audit", "--store", store, "--json")
	var said struct {
		OK         bool
		Invariants []audit.Invariant
	}
	if err := json.Unmarshal([]byte(out), &said); err != nil || code != 0 || !said.OK ||
		len(said.Invariants) != 11 {
		t.Errorf("audit: exit %d, %v: %s", code, err, out)
	}
	breakIt(t, filepath.Join(dir, "shop", "notification.db"), "DELETE FROM mails")
	t.Setenv("SKALD_STORE", store)
	if code, out, errs := shop(t, "audit"); code != exitFailed ||
		!strings.Contains(out, "mailed_once       BROKEN  40 checked") {
		t.Errorf("audit of what is broken: exit %d\n%s%s", code, out, errs)
	}
}

// settle waits until the auditor has nothing to say.
func settle(t *testing.T, store string) {
	t.Helper()
	settleOf(t, "audit", "--store", store)
}

func settleOf(t *testing.T, audit ...string) {
	t.Helper()
	for deadline := time.Now().Add(5 * time.Minute); ; time.Sleep(20 * time.Millisecond) {
		if code, out, errs := shop(t, audit...); code == 0 {
			return
		} else if time.Now().After(deadline) {
			t.Fatalf("audit: exit %d\n%s%s", code, out, errs)
		}
	}
}

func breakIt(t *testing.T, path, sql string) {
	t.Helper()
	db, err := sqlitestore.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = db.Close() }()
	if _, err := db.ExecContext(t.Context(), sql); err != nil {
		t.Fatal(err)
	}
}

func TestExitCodes(t *testing.T) {
	empty := t.TempDir()
	for _, name := range []string{"order", "payment", "inventory", "fulfilment", "notification",
		"analytics"} {
		breakIt(t, filepath.Join(empty, name+".db"), "CREATE TABLE strange (x)")
	}
	t.Setenv("SKALD_STORE", "")
	t.Setenv("SKALD_BROKER", "")
	for _, c := range []struct {
		code int
		args string
	}{
		{0, "audit --help"},
		{exitUsage, ""},
		{exitUsage, "sell"},
		{exitUsage, "audit"},
		{exitUsage, "audit --colour red"},
		{exitUsage, "audit --store sqlite:x extra"},
		{exitUsage, "audit --store mysql://x"},
		{exitUsage, "audit --store sqlite:"},
		{exitUsage, "audit --store postgres://127.0.0.1:port/x"},
		{exitUsage, "serve --store sqlite:x --broker mem:"},
		{exitUsage, "serve shoes --store sqlite:x --broker mem:"},
		{exitUsage, "serve all order --store sqlite:x --broker mem:"},
		{exitUsage, "serve order --store sqlite:x --broker mem:"}, // no other process could receive
		{exitUsage, "serve all --store sqlite:x"},
		{exitUsage, "serve all --store sqlite:x --broker mem: --payments avro"}, // without a registry
		{exitUsage, "serve all --store sqlite:x --broker mem: --payments xml --registry http://127.0.0.1:1"},
		{exitUsage, "serve all --store sqlite:x --broker mem: --registry http://127.0.0.1:1"},
		{exitUsage, "serve all --store sqlite:x --broker kafka://nowhere"},
		{exitUsage, "load"},
		{exitUsage, "load --url http://127.0.0.1:1 --orders 0"},
		{1, "load --url http://127.0.0.1:1"},
		{1, "audit --store sqlite:" + filepath.Join(empty, "none")},
		{1, "audit --store sqlite:" + empty},
		{1, "audit --store postgres://127.0.0.1:1/x"},
	} {
		if code, out, errs := shop(t, strings.Fields(c.args)...); code != c.code || code != 0 && errs == "" {
			t.Errorf("shop %s: exit %d, want %d: %s%s", c.args, code, c.code, out, errs)
		}
	}
	if _, err := os.Stat(filepath.Join(empty, "none")); err == nil {
		t.Error("an audit made a folder")
	}
}

// A signal ends a serve that still waits for a server.
func TestServeWaitsForServers(t *testing.T) {
	ctx, stop := context.WithCancel(t.Context())
	read, write := io.Pipe()
	code := make(chan int, 1)
	go func() {
		code <- run(ctx, []string{"serve", "order", "--store", "sqlite:" + t.TempDir(), "--broker",
			"kafka://127.0.0.1:1"}, io.Discard, write)
	}()
	line, err := bufio.NewReader(read).ReadString('\n')
	if err != nil || !strings.Contains(line, "waiting for a server") {
		t.Errorf("said %q, %v", line, err)
	}
	_ = read.Close()
	stop()
	if code := <-code; code != 0 {
		t.Errorf("exit %d", code)
	}
}

// hurried notes whether a migration is given less time than it takes to give way and come again.
type hurried struct {
	place.Shop
	limit bool
}

func (h *hurried) Prepare(ctx context.Context, _ string) error {
	_, h.limit = ctx.Deadline()
	return &pgstore.BusyError{Table: "a table"}
}

// A migration of a database in use is given its time, and made again when that was in vain.
func TestServeWaitsForAMigration(t *testing.T) {
	bus, err := place.OpenBus("mem:")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = bus.Close() })
	h := &hurried{}
	_, err = serving{}.try(t.Context(), "order", h, bus)
	if h.limit || !place.Away(err) {
		t.Errorf("a migration is bounded: %v; %v", h.limit, err)
	}
}

func TestErrorsOnPostgres(t *testing.T) {
	server := need.Postgres(t)
	conn, err := pgx.Connect(t.Context(), server)
	if err != nil {
		t.Fatal(err)
	}
	name := "shop_" + strings.ToLower(rand.Text()[:10])
	exec := func(sql string) {
		if _, err := conn.Exec(context.Background(), sql); err != nil {
			t.Error(err)
		}
	}
	t.Cleanup(func() {
		for _, sql := range []string{"DROP SCHEMA IF EXISTS " + name + "_order CASCADE",
			"DROP ROLE " + name} {
			exec(sql)
		}
		_ = conn.Close(context.Background())
	})
	exec("CREATE ROLE " + name + " LOGIN PASSWORD 'secret'")
	exec("CREATE SCHEMA " + name + "_order")
	at := func(user, database string) string {
		u, err := url.Parse(server)
		if err != nil {
			t.Fatal(err)
		}
		if user != "" {
			u.User = url.UserPassword(user, "secret")
		}
		if database != "" {
			u.Path = "/" + database
		}
		return u.String()
	}
	for _, c := range []struct {
		serve         bool
		store, prefix string
		want          string
	}{
		{false, at("", "no_such_database"), name, "no_such_database"},
		{false, at("", ""), name, "there is no schema " + name + "_payment"},
		{true, at(name, ""), name, "permission denied"},
		{true, at("nobody_at_all", ""), name, "nobody_at_all"},
	} {
		args := []string{"audit", "--store", c.store, "--prefix", c.prefix}
		if c.serve {
			args = []string{"serve", "order", "--store", c.store, "--prefix", c.prefix, "--broker",
				"kafka://" + need.Kafka(t)}
		}
		code, out, errs := shop(t, args...)
		if code != 1 || !strings.Contains(errs, c.want) || strings.Contains(errs, "secret") {
			t.Errorf("shop %v: exit %d, want %q: %s%s", args, code, c.want, out, errs)
		}
	}
}
