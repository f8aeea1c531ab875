// Package killtest runs the shop as real processes on real servers, and kills and stops them all.
package killtest

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/skald-go/skald/examples/shop/audit"
	"github.com/skald-go/skald/examples/shop/service"
	"github.com/skald-go/skald/internal/need"
)

const prefix = "kill"

// A world is PostgreSQL and Kafka of the test's own, since it restarts them, and two instances of each service.
type world struct {
	t         *testing.T
	dir, root string
	bin       string
	postgres  string // the servers' addresses
	kafka     string
	pooler    string // PgBouncer in front of postgres; "": none
	began     time.Time
	mu        sync.Mutex // of what follows: customers read while more are started
	instances []*instance
	told      []string   // what was done, and when
	script    sync.Mutex // one run of scripts/services at a time
}

// newWorld starts everything, or skips the test where there are no servers to be had.
func newWorld(t *testing.T) *world {
	t.Helper()
	w := bareWorld(t)
	w.startAll("1", "2")
	return w
}

// bareWorld has the servers and the shop's program; nothing of the shop runs yet.
func bareWorld(t *testing.T) *world {
	t.Helper()
	if testing.Short() {
		t.Skip("starts servers and processes: not with -short")
	}
	_, _ = need.Postgres(t), need.Kafka(t) // a machine that has none is not to get some by a mere go test
	w := &world{t: t, began: time.Now()}
	var err error
	if w.root, err = moduleRoot(); err != nil {
		t.Fatal(err)
	}
	if w.dir, err = os.MkdirTemp("", "skald-kill-"); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(w.clear)
	w.startServers()
	w.bin = filepath.Join(w.dir, "shop")
	w.build(w.root, w.bin)
	return w
}

// build makes the program of the shop from the sources at root.
func (w *world) build(root, bin string) {
	w.t.Helper()
	cmd := exec.CommandContext(w.t.Context(), "go", "build", "-o", bin, "./examples/shop")
	cmd.Dir, cmd.Env = root, append(os.Environ(), "GOWORK=off")
	if out, err := cmd.CombinedOutput(); err != nil {
		w.t.Fatalf("build the shop: %v\n%s", err, out)
	}
}

func moduleRoot() (string, error) {
	at, err := os.Getwd()
	if err != nil {
		return "", err
	}
	for ; at != filepath.Dir(at); at = filepath.Dir(at) {
		if _, err := os.Stat(filepath.Join(at, "go.mod")); err == nil {
			return at, nil
		}
	}
	return "", errors.New("no go.mod above this folder")
}

// crash kills a server and starts it again. One at a time: the script has a lock.
func (w *world) crash(ctx context.Context, name string) error {
	w.script.Lock()
	defer w.script.Unlock()
	w.tell("crash %s", name)
	_, err := w.services(ctx, "restart", name)
	w.tell("%s is there again", name)
	return err
}

// services runs scripts/services for the test's own servers.
func (w *world) services(ctx context.Context, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, filepath.Join(w.root, "scripts", "services"), args...)
	for _, v := range os.Environ() {
		if !strings.HasPrefix(v, "SKALD_") {
			cmd.Env = append(cmd.Env, v)
		}
	}
	cmd.Env = append(cmd.Env, "SKALD_SERVICES_DIR="+filepath.Join(w.dir, "servers"))
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	if err := cmd.Run(); err != nil {
		return "", fmt.Errorf("scripts/services %s: %w\n%s", strings.Join(args, " "), err, &errs)
	}
	return out.String(), nil
}

func (w *world) startServers() {
	w.t.Helper()
	names := []string{"up", "postgres", "kafka"}
	if *killPooler || os.Getenv("SKALD_TEST_PGBOUNCER") != "" { // a machine that has none need not get one
		names = append(names, "pgbouncer")
	}
	_, err := w.services(w.t.Context(), names...)
	var env string
	if err == nil {
		env, err = w.services(w.t.Context(), "env")
	}
	if err != nil {
		if os.Getenv("SKALD_TEST_REQUIRE") == "1" {
			w.t.Fatal(err)
		}
		w.t.Skipf("the test restarts its servers, so it needs some of its own, which could not be started: %v", err)
	}
	for line := range strings.Lines(env) {
		name, value, _ := strings.Cut(strings.TrimPrefix(strings.TrimSpace(line), "export "), "=")
		switch value = strings.Trim(value, "'"); name {
		case "SKALD_TEST_POSTGRES":
			w.postgres = value
		case "SKALD_TEST_PGBOUNCER":
			w.pooler = value
		case "SKALD_TEST_KAFKA":
			w.kafka = value
		}
	}
	if w.postgres == "" || w.kafka == "" || len(names) > 3 && w.pooler == "" {
		w.t.Fatalf("scripts/services env printed no addresses: %s", env)
	}
}

// startAll starts all at once: tables, topics and first rows are made by whoever comes first.
func (w *world) startAll(names ...string) {
	w.t.Helper()
	for _, n := range names {
		for _, s := range service.Names() {
			one := &instance{w: w, service: s, name: n, bin: w.bin}
			w.mu.Lock()
			w.instances = append(w.instances, one)
			w.mu.Unlock()
			if err := one.start(); err != nil {
				w.t.Fatal(err)
			}
		}
	}
	w.eventually(time.Minute, "instances to serve", func() error {
		for _, one := range w.instances {
			if !one.serving() {
				return fmt.Errorf("%s does not serve yet", one)
			}
		}
		return nil
	})
}

// clear ends everything that was started. What a failed test left is kept.
func (w *world) clear() {
	for _, one := range w.instances {
		one.end()
	}
	if _, err := w.services(context.Background(), "down"); err != nil {
		w.t.Error(err)
	}
	if w.t.Failed() {
		w.t.Logf("the logs of all processes are in %s", w.dir)
		return
	}
	if err := os.RemoveAll(w.dir); err != nil {
		w.t.Error(err)
	}
}

// tell notes what was done.
func (w *world) tell(format string, args ...any) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.told = append(w.told, fmt.Sprintf("%7.2f s  ", time.Since(w.began).Seconds())+fmt.Sprintf(format, args...))
}

func (w *world) story() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return strings.Join(w.told, "\n")
}

// eventually looks until ok answers nil, for at most the time that is given.
func (w *world) eventually(most time.Duration, what string, ok func() error) {
	w.t.Helper()
	deadline := time.Now().Add(most)
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for {
		err := ok()
		if err == nil {
			return
		}
		w.alive()
		if time.Now().After(deadline) {
			w.t.Fatalf("waited %v for %s: %v\n%s", most, what, err, w.story())
		}
		<-tick.C
	}
}

// alive fails the test if a process ended that nobody had killed: an outage is no reason to.
func (w *world) alive() {
	w.t.Helper()
	for _, one := range w.instances {
		if err := one.gone(); err != nil {
			w.t.Fatalf("%s ended by itself: %v\n%s\n%s", one, err, one.tail(), w.story())
		}
	}
}

// of are the instances of a service.
func (w *world) of(name string) (out []*instance) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, one := range w.instances {
		if one.service == name {
			out = append(out, one)
		}
	}
	return out
}

// audit is the auditor's verdict, by the command.
func (w *world) audit() ([]audit.Invariant, error) {
	ctx, cancel := context.WithTimeout(w.t.Context(), time.Minute)
	defer cancel()
	var out, errs bytes.Buffer
	cmd := exec.CommandContext(ctx, w.bin, "audit", "--store", w.postgres, "--prefix", prefix, "--json")
	cmd.Stdout, cmd.Stderr = &out, &errs
	broken := cmd.Run()
	var found struct{ Invariants []audit.Invariant }
	if err := json.Unmarshal(out.Bytes(), &found); err != nil {
		return nil, fmt.Errorf("audit: %w: %w\n%s%s", err, broken, &out, &errs)
	}
	if broken != nil {
		bad := slices.DeleteFunc(slices.Clone(found.Invariants), func(i audit.Invariant) bool { return i.OK })
		return found.Invariants, fmt.Errorf("audit: %w: %+v", broken, bad)
	}
	return found.Invariants, nil
}
