// Package killtest runs the shop as real processes on real servers, and kills and stops any of them.
package killtest

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/skald-go/skald/examples/shop/audit"
	shopevent "github.com/skald-go/skald/examples/shop/event"
	"github.com/skald-go/skald/examples/shop/place"
	"github.com/skald-go/skald/examples/shop/service"
	"github.com/skald-go/skald/internal/need"
)

// most is the time limit of every wait, on any machine. Tests of speed have limits of their own.
const most = 5 * time.Minute

// world is PostgreSQL, Kafka and instances of each service. A test that restarts the servers starts its
// own.
type world struct {
	t         *testing.T
	dir, root string
	bin       string
	flags     []string // flags of instances that are started from now on
	prefix    string   // prefix of schemas, topics and groups
	postgres  string   // addresses of the servers
	kafka     string
	pooler    string // PgBouncer in front of postgres; "": none
	bank      string // address of the gateway; "": it is in Payment's database
	began     time.Time
	mu        sync.Mutex // guards the following fields: customers read while more instances are started
	instances []*instance
	told      []string   // log of actions, with their times
	script    sync.Mutex // one run of scripts/services at a time
}

// newWorld starts its own servers, two instances of each service, and a gateway with its own database.
// Instances get flags.
func newWorld(t *testing.T, flags ...string) *world {
	t.Helper()
	w := emptyWorld(t, "kill")
	w.flags = flags
	var servers, built error
	w.atOnce(func() { servers = w.startServers() }, func() { built = w.build(w.root, w.bin) })
	if servers != nil && os.Getenv("SKALD_TEST_REQUIRE") != "1" {
		t.Skipf("the test restarts its servers, so it needs some of its own, which could not be started: %v",
			servers)
	}
	if err := errors.Join(servers, built); err != nil {
		t.Fatal(err)
	}
	w.bank = fmt.Sprintf("127.0.0.1:%d", need.FreePort(t))
	w.startAll("1", "2")
	return w
}

// sharedWorld creates a database and topics on the servers shared by all tests. It starts no service.
func sharedWorld(t *testing.T) *world {
	t.Helper()
	w := emptyWorld(t, "mixed"+strings.ToLower(rand.Text()[:10]))
	at, err := url.Parse(need.Postgres(t))
	if err != nil {
		t.Fatal(err)
	}
	admin := func(ctx context.Context, sql string) {
		conn, err := pgx.Connect(ctx, need.Postgres(t))
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = conn.Close(ctx) }()
		if _, err := conn.Exec(ctx, sql); err != nil {
			t.Fatal(err)
		}
	}
	admin(t.Context(), "CREATE DATABASE "+w.prefix)
	t.Cleanup(func() {
		w.end()
		admin(context.Background(), "DROP DATABASE "+w.prefix+" WITH (FORCE)")
		if err := w.removeTopics(); err != nil {
			t.Error(err)
		}
	})
	at.Path = "/" + w.prefix
	w.postgres, w.kafka = at.String(), need.Kafka(t)
	if pooler := os.Getenv("SKALD_TEST_PGBOUNCER"); pooler != "" {
		through, err := url.Parse(pooler)
		if err != nil {
			t.Fatal(err)
		}
		through.Path = at.Path
		w.pooler = through.String()
	}
	return w
}

// emptyWorld has no servers and no program yet.
func emptyWorld(t *testing.T, prefix string) *world {
	t.Helper()
	if testing.Short() {
		t.Skip("starts servers and processes: not with -short")
	}
	_, _ = need.Postgres(t), need.Kafka(t) // skip if the machine has none: go test must not install servers
	w := &world{t: t, prefix: prefix, began: time.Now()}
	var err error
	if w.root, err = moduleRoot(); err != nil {
		t.Fatal(err)
	}
	if w.dir, err = os.MkdirTemp("", "skald-kill-"); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(w.clear)
	w.bin = filepath.Join(w.dir, "shop")
	return w
}

// atOnce runs acts concurrently.
func (w *world) atOnce(acts ...func()) {
	var wg sync.WaitGroup
	for _, act := range acts {
		wg.Go(act)
	}
	wg.Wait()
}

// build builds the shop from the sources at root.
func (w *world) build(root, bin string) error {
	cmd := exec.CommandContext(w.t.Context(), "go", "build", "-o", bin, "./examples/shop")
	cmd.Dir, cmd.Env = root, append(os.Environ(), "GOWORK=off")
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("build the shop: %w\n%s", err, out)
	}
	return nil
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

// startServers starts servers for this test, and stops them at its end. A failed soak keeps its servers:
// another run may need hours to find the same error.
func (w *world) startServers() error {
	w.t.Cleanup(func() {
		w.end()
		if *soakSagas > 0 && w.t.Failed() {
			w.t.Logf("the servers still run: SKALD_SERVICES_DIR=%s/servers scripts/services down ends them", w.dir)
			return
		}
		if _, err := w.services(context.Background(), "down"); err != nil {
			w.t.Error(err)
		}
	})
	names := []string{"up", "postgres", "kafka"}
	if *killPooler || os.Getenv("SKALD_TEST_PGBOUNCER") != "" { // not required on a machine without it
		names = append(names, "pgbouncer")
	}
	_, err := w.services(w.t.Context(), names...)
	var env string
	if err == nil {
		env, err = w.services(w.t.Context(), "env")
	}
	if err != nil {
		return err
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
		return fmt.Errorf("scripts/services env printed no addresses: %s", env)
	}
	return nil
}

// startAll starts all at once: they race to create tables, topics and first rows.
func (w *world) startAll(names ...string) {
	w.t.Helper()
	for _, n := range names {
		for _, s := range service.Names() {
			w.add(s, n)
		}
	}
	if w.bank != "" {
		w.add(place.Bank, names[0])
	}
	w.eventually("instances to serve", func() error {
		for _, one := range w.instances {
			if !one.serving() {
				return fmt.Errorf("%s does not serve yet", one)
			}
		}
		return nil
	})
}

// add starts one more process.
func (w *world) add(service, name string) {
	w.t.Helper()
	one := &instance{w: w, service: service, name: name, bin: w.bin, flags: w.flags}
	w.mu.Lock()
	w.instances = append(w.instances, one)
	w.mu.Unlock()
	if err := one.start(); err != nil {
		w.t.Fatal(err)
	}
}

// end ends all processes.
func (w *world) end() {
	for _, one := range w.instances {
		one.end()
	}
}

// clear removes logs and programs, unless the test failed.
func (w *world) clear() {
	if w.t.Failed() {
		w.t.Logf("the logs of all processes are in %s", w.dir)
		return
	}
	if err := os.RemoveAll(w.dir); err != nil {
		w.t.Error(err)
	}
}

// removeTopics removes the topics and groups of the test.
func (w *world) removeTopics() error {
	client, err := kgo.NewClient(kgo.SeedBrokers(w.kafka))
	if err != nil {
		return err
	}
	defer client.Close()
	_, err = kadm.NewClient(client).DeleteTopics(context.Background(), shopevent.New(w.prefix).Topics()...)
	return err
}

// tell logs an action.
func (w *world) tell(format string, args ...any) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.told = append(w.told, fmt.Sprintf("%7.2f s  ", time.Since(w.began).Seconds())+
		fmt.Sprintf(format, args...))
}

func (w *world) story() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return strings.Join(w.told, "\n")
}

// eventually retries ok until it returns nil.
func (w *world) eventually(what string, ok func() error) {
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
			w.t.Fatalf("waited %v for %s: %v\n%s\nparked: %s", most, what, err, w.story(), w.kept())
		}
		<-tick.C
	}
}

// kept returns the parked messages of the services and their errors: they often explain a timeout.
func (w *world) kept() string {
	var all []string
	for _, name := range service.Names() {
		found, err := query[string](w.t.Context(), w,
			`SELECT consumer || ' ' || type || ' of ' || coalesce(convert_from(key, 'UTF8'), 'nobody') || ', attempts '
			|| attempts || ', dead ' || (dead_at IS NOT NULL) || ': ' || last_error FROM `+w.prefix+`_`+name+`.skald_parked ORDER BY place LIMIT 5`)
		all = append(all, found...)
		if err != nil {
			all = append(all, err.Error())
		}
	}
	return strings.Join(all, "\n")
}

// alive fails the test if a process ended without being killed: an outage is no reason to end. A restarted
// broker may remember the member of a killed process and fence off its successor. That process is started
// again, as a supervisor does.
func (w *world) alive() {
	w.t.Helper()
	for _, one := range w.instances {
		err := one.gone()
		if err == nil {
			continue
		}
		last := one.tail()
		if !strings.Contains(last[strings.LastIndex(last, "--- life")+1:], "FENCED_INSTANCE_ID") {
			w.t.Fatalf("%s ended by itself: %v\n%s\n%s", one, err, last, w.story())
		}
		w.tell("%s was fenced off, and is started again", one)
		if err := one.start(); err != nil {
			w.t.Fatal(err)
		}
	}
}

// of returns the instances of a service.
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

// audit runs the audit command and returns its verdict.
func (w *world) audit() ([]audit.Invariant, error) {
	ctx, cancel := context.WithTimeout(w.t.Context(), most)
	defer cancel()
	var out, errs bytes.Buffer
	cmd := exec.CommandContext(ctx, w.bin, "audit", "--store", w.postgres, "--prefix", w.prefix, "--json")
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
