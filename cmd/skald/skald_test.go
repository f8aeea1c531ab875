package main_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/skald-go/skald/store/sqlitestore"
)

// binary is where TestMain built the command.
func binary() string { return os.Getenv("SKALD_TEST_BINARY") }

func TestMain(m *testing.M) {
	dir, err := os.MkdirTemp("", "skald-test-")
	if err == nil {
		path := filepath.Join(dir, "skald")
		build := exec.Command("go", "build", "-o", path, ".")
		build.Stderr = os.Stderr
		err = errors.Join(build.Run(), os.Setenv("SKALD_TEST_BINARY", path))
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "build the command:", err)
		os.Exit(1)
	}
	code := m.Run()
	_ = os.RemoveAll(dir)
	os.Exit(code)
}

// A program is one run of the command.
type program struct {
	t         testing.TB
	cmd       *exec.Cmd
	out, errs output
	ended     chan struct{}
	err       error // once ended is closed
}

// An output may be read while the program writes.
type output struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.Write(p)
}

func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.String()
}

// start starts the command in an environment of its own, with env added.
func start(t testing.TB, env []string, args ...string) *program {
	t.Helper()
	return launch(t, binary(), env, args...)
}

// launch starts another program in such an environment.
func launch(t testing.TB, path string, env []string, args ...string) *program {
	t.Helper()
	return prepare(t, path, env, args...).begin()
}

// prepare has a program in such an environment that is still to begin.
func prepare(t testing.TB, path string, env []string, args ...string) *program {
	t.Helper()
	p := &program{t: t, cmd: exec.CommandContext(t.Context(), path, args...), ended: make(chan struct{})}
	for _, v := range os.Environ() {
		if !strings.HasPrefix(v, "SKALD_") && !strings.HasPrefix(v, "PG") {
			p.cmd.Env = append(p.cmd.Env, v)
		}
	}
	p.cmd.Env = append(p.cmd.Env, env...)
	p.cmd.Env = append(p.cmd.Env, "TMPDIR="+t.TempDir())
	p.cmd.Stdout, p.cmd.Stderr = &p.out, &p.errs
	return p
}

func (p *program) begin() *program {
	p.t.Helper()
	if err := p.cmd.Start(); err != nil {
		p.t.Fatal(err)
	}
	go func() {
		p.err = p.cmd.Wait()
		close(p.ended)
	}()
	return p
}

// wait is the exit code. A program that does not end in ten minutes is killed, and says where it stood.
func (p *program) wait() int {
	p.t.Helper()
	select {
	case <-p.ended:
	case <-time.After(10 * time.Minute):
		p.signal(syscall.SIGQUIT)
		<-p.ended
		p.t.Fatalf("%s: it has not ended in ten minutes\n%s%s", p.cmd.Args[1:], &p.out, &p.errs)
	}
	var exit *exec.ExitError
	if p.err != nil && !errors.As(p.err, &exit) {
		p.t.Fatal(p.err)
	}
	return p.cmd.ProcessState.ExitCode()
}

// expect fails unless the program ends with code and says all of words on standard error.
func (p *program) expect(code int, words ...string) {
	p.t.Helper()
	if got := p.wait(); got != code {
		p.t.Fatalf("%s: exit code %d, want %d\n%s%s", p.cmd.Args[1:], got, code, &p.out, &p.errs)
	}
	for _, w := range words {
		if !strings.Contains(p.errs.String(), w) {
			p.t.Errorf("%s: standard error has no %q:\n%s", p.cmd.Args[1:], w, &p.errs)
		}
	}
}

func (p *program) signal(s syscall.Signal) {
	p.t.Helper()
	if err := p.cmd.Process.Signal(s); err != nil && !errors.Is(err, os.ErrProcessDone) {
		p.t.Fatal(err)
	}
}

// until polls until done, for five minutes at most, while the program runs.
func (p *program) until(what string, done func() bool) {
	p.t.Helper()
	for end := time.Now().Add(5 * time.Minute); !done(); time.Sleep(5 * time.Millisecond) {
		select {
		case <-p.ended:
			p.t.Fatalf("%s: it has ended with %d without %s\n%s%s", p.cmd.Args[1:], p.wait(), what,
				&p.out, &p.errs)
		default:
		}
		if time.Now().After(end) {
			p.t.Fatalf("%s: no %s in five minutes\n%s%s", p.cmd.Args[1:], what, &p.out, &p.errs)
		}
	}
}

// kill ends the program with SIGKILL, in the middle of its work.
func (p *program) kill() {
	p.t.Helper()
	p.signal(syscall.SIGKILL)
	if code := p.wait(); code != -1 {
		p.t.Fatalf("%s: it had ended with %d before it was killed\n%s", p.cmd.Args[1:], code, &p.errs)
	}
}

// number is what a query counts in a SQLite file; -1 where it cannot be asked (yet).
func number(ctx context.Context, path, query string) (n int) {
	if _, err := os.Stat(path); err != nil {
		return -1
	}
	db, err := sqlitestore.Open(path)
	if err != nil {
		return -1
	}
	defer db.Close()
	if err := db.QueryRowContext(ctx, query).Scan(&n); err != nil {
		return -1
	}
	return n
}

func exec1(t testing.TB, path, statement string) {
	t.Helper()
	db, err := sqlitestore.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	if _, err := db.ExecContext(t.Context(), statement); err != nil {
		t.Fatal(err)
	}
}

// An outcome is the object that demo --json prints.
type outcome struct {
	OK     bool
	Store  string
	Broker string
	Orders struct{ Placed, Confirmed, Cancelled int }
	Sagas  *struct{ Started, Done, Compensated, Stuck int }

	Messages struct {
		Written, Published, Delivered, Duplicates, Handled, Rejected, Barred, Parked, Dead,
		Redriven, Dropped int
		UnknownSettled int `json:"unknown_settled"`
	}
	Faults     map[string]int
	Invariants []struct {
		Name    string
		OK      bool
		Checked int
		Detail  string
	}
}

func (p *program) outcome() (o outcome) {
	p.t.Helper()
	if err := json.Unmarshal([]byte(p.out.String()), &o); err != nil {
		p.t.Fatalf("%v in %s\n%s", err, &p.out, &p.errs)
	}
	return o
}

// broken are the names of the promises that were not kept.
func (o outcome) broken() (names []string) {
	for _, i := range o.Invariants {
		if !i.OK {
			names = append(names, i.Name)
		}
	}
	return names
}

func TestUsage(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		args []string
		says string
	}{
		"no command":      {nil, "Usage:"},
		"unknown command": {[]string{"demmo"}, "demo"}, // did you mean
		"unknown of a group": {[]string{"saga", "lst", "--store", "sqlite:x"},
			`unknown command "lst" for "skald saga": did you mean list?`},
		"nothing like it": {[]string{"outbox", "list", "--store", "sqlite:x"},
			`unknown command "list" for "skald outbox": it has drop, recover, status, write`},
		"schema of nothing": {[]string{"schema", "chek"}, "did you mean check?"},
		"twice": {[]string{"parked", "list", "--store", "sqlite:x", "--store", "sqlite:y"},
			"skald: --store is given twice, and takes one value"},
		"a number twice":   {[]string{"saga", "list", "--limit=1", "--limit", "2"}, "--limit is given twice"},
		"a filter twice":   {[]string{"dead", "drop", "--consumer", "a", "--consumer", "b"}, "--consumer is given"},
		"unknown flag":     {[]string{"demo", "--order", "3"}, "--order"},
		"no number":        {[]string{"demo", "--orders", "x"}, "--orders"},
		"no orders":        {[]string{"demo", "--orders", "0"}, "--orders is 1 to"},
		"unknown faults":   {[]string{"demo", "--faults", "much"}, "none, some or wild"},
		"unknown sabotage": {[]string{"demo", "--sabotage", "all"}, "dual-write"},
		"id-cursor":        {[]string{"demo", "--sabotage", "id-cursor"}, "needs --store postgres"},
		"created-at":       {[]string{"demo", "--sabotage", "created-at"}, "needs --store postgres"},
		"bad prefix":       {[]string{"demo", "--prefix", "a.b"}, "--prefix"},
		"argument":         {[]string{"demo", "now"}, "now"},
		"two stores":       {[]string{"demo", "--dir", "x", "--store", "sqlite:y"}, "--dir"},
		"unknown store":    {[]string{"demo", "--store", "mysql://x"}, "sqlite:FOLDER or postgres"},
		"unknown broker": {[]string{"demo", "--dir", "x", "--broker", "redis:"},
			"kafka://, nats:// or amqp://host"},
		"migrate nothing":  {[]string{"migrate"}, "SKALD_STORE"},
		"migrate the moon": {[]string{"migrate", "--store", "moon:"}, "sqlite:FILE or postgres"},
		"check and print":  {[]string{"migrate", "--store", "sqlite:x", "--check", "--print"}, "check"},
		"schema in SQLite": {[]string{"migrate", "--store", "sqlite:x", "--schema", "s"},
			"--schema is for PostgreSQL"},
		"schema that cannot": {[]string{"outbox", "status", "--store", "postgres://127.0.0.1:1/x", "--schema",
			"a$$b"}, `the schema "a$$b" cannot have this name`},
		"one that cannot": {[]string{"relay", "--store", "postgres://127.0.0.1:1/x", "--broker",
			"kafka://127.0.0.1:1", "--schema", "a", "--schema", "a$$b"}, `the schema "a$$b" cannot have this name`},
		"slots in SQLite": {[]string{"migrate", "--store", "sqlite:x", "--outbox-slots", "20"},
			"SQLite has no slots"},
		"slots and check": {[]string{"migrate", "--store", "postgres://127.0.0.1:1/x", "--outbox-slots",
			"20", "--check"}, "omit --check"},
		"files of nobody": {[]string{"migrate", "--store", "postgres://127.0.0.1:1/x", "--print",
			"--format", "flyway", "--dir", "."}, "golang-migrate, goose, atlas or dbmate"},
		"files to nowhere": {[]string{"migrate", "--store", "postgres://127.0.0.1:1/x", "--print",
			"--format", "goose"}, "all three"},
		"files to no folder": {[]string{"migrate", "--store", "postgres://127.0.0.1:1/x", "--print",
			"--format", "goose", "--dir", "none"}, "no folder none"},
		"marks before rows": {[]string{"relay", "--store", "sqlite:x", "--broker", "kafka://127.0.0.1:1",
			"--keep-marks", "1h"}, "--keep-marks"},
		"relay to memory":    {[]string{"relay", "--store", "sqlite:x", "--broker", "mem:"}, "mem:"},
		"relay to nobody":    {[]string{"relay", "--store", "sqlite:x"}, "SKALD_BROKER"},
		"relay from nothing": {[]string{"relay", "--broker", "kafka://127.0.0.1:1"}, "SKALD_STORE"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := start(t, nil, test.args...)
			p.expect(2, test.says)
			if p.out.String() != "" {
				t.Errorf("standard output is for data: %s", &p.out)
			}
			if name != "no command" && strings.Contains(p.errs.String(), "Usage:") {
				t.Errorf("a page of usage for one mistake: %s", &p.errs)
			}
		})
	}
}

func TestVersionAndHelp(t *testing.T) {
	t.Parallel()
	p := start(t, nil, "version")
	p.expect(0)
	if !strings.HasPrefix(p.out.String(), "skald ") {
		t.Error(p.out.String())
	}
	for _, args := range [][]string{{"--help"}, {"demo", "--help"}, {"relay", "-h"}, {"help", "migrate"}} {
		p := start(t, nil, args...)
		p.expect(0)
		if p.out.String() == "" || p.errs.String() != "" {
			t.Errorf("%v: %q, %q", args, &p.out, &p.errs)
		}
	}
}

// The help of skald relay names the options of each broker's URL, as the tables of docs/brokers.md have them,
// and where a password may be.
func TestHelpNamesTheOptionsOfBrokers(t *testing.T) {
	t.Parallel()
	help := start(t, nil, "relay", "--help")
	help.expect(0)
	about := start(t, nil, "help", "environment")
	about.expect(0)
	page, err := os.ReadFile("../../docs/brokers.md")
	if err != nil {
		t.Fatal(err)
	}
	for scheme, variable := range map[string]string{"kafka": "SKALD_KAFKA_PASSWORD",
		"nats": "SKALD_NATS_PASSWORD", "amqp": "SKALD_RABBITMQ_PASSWORD"} {
		_, section, ok := strings.Cut(string(page), "\n    "+scheme+"://host:port")
		_, table, there := strings.Cut(section, "| option | meaning | default |\n|---|---|---|\n")
		table, _, _ = strings.Cut(table, "\n\n")
		if !ok || !there {
			t.Fatalf("docs/brokers.md has no table of %s", scheme)
		}
		var names []string
		for line := range strings.Lines(table) {
			first := strings.Split(line, "|")[1]
			names = append(names, strings.ReplaceAll(strings.TrimSpace(first), "`", ""))
		}
		said := strings.Join(strings.Fields(help.out.String()), " ")
		if want := scheme + ":// " + strings.Join(names, ", "); !strings.Contains(said, want+" ") {
			t.Errorf("skald relay --help has not %q", want)
		}
		for _, p := range []*program{help, about} {
			if !strings.Contains(p.out.String(), variable) {
				t.Errorf("%s does not name %s", p.cmd.Args[1:], variable)
			}
		}
	}
}

// What is a password never comes back, whatever is wrong.
func TestPasswordsAreNotPrinted(t *testing.T) {
	t.Parallel()
	stores := []string{
		"postgres://bob:s3cr3t@127.0.0.1:1/db", "postgres://bob@127.0.0.1:1/db?password=s3cr3t",
		"postgres://bob:s3cr3t@127.0.0.1:port/db", "postgres://bob:s3cr3t@127.0.0.1:1/db?sslmode=maybe",
		"postgres://bob:s3cr3t%zz@127.0.0.1:1/db", "mysql://bob:s3cr3t@h/db",
	}
	for _, store := range stores {
		for _, command := range [][]string{{"demo", "--store", inFile(t, store)},
			{"demo", "--json", "--store", inFile(t, store)}, {"migrate"}, {"migrate", "--check"}} {
			p := start(t, []string{"SKALD_STORE=" + store}, command...)
			if code := p.wait(); code != 2 && code != 6 {
				t.Errorf("%v %s: exit code %d\n%s", command, store, code, &p.errs)
			}
			if all := p.out.String() + p.errs.String(); strings.Contains(all, "s3cr3t") ||
				p.errs.String() == "" {
				t.Errorf("%v %s: %s", command, store, all)
			}
		}
	}
	p := start(t, nil, "relay", "--store", "postgres://bob@127.0.0.1:1/db", "--broker",
		"kafka://bob:s3cr3t@127.0.0.1:1")
	p.expect(2)
	if strings.Contains(p.errs.String(), "s3cr3t") {
		t.Error(p.errs.String())
	}
}

func TestMigrateSQLite(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "shop.db")
	store := []string{"SKALD_STORE=sqlite:" + path}
	stdout := func(p *program, want string) {
		t.Helper()
		if got := p.out.String(); got != want {
			t.Errorf("%v prints %q, want %q", p.cmd.Args[1:], got, want)
		}
	}
	names, err := fs.Glob(sqlitestore.Migrations(), "*.sql")
	if err != nil {
		t.Fatal(err)
	}
	p := start(t, store, "migrate", "--check")
	p.expect(8, "there are migrations to apply")
	stdout(p, "pending "+strings.Join(names, "\npending ")+"\n")
	if _, err := os.Stat(path); err == nil {
		t.Error("--check made a file")
	}
	p = start(t, store, "migrate", "--source", "/here")
	p.expect(0)
	stdout(p, "applied "+strings.Join(names, "\napplied ")+"\n")
	for _, again := range [][]string{{"migrate"}, {"migrate", "--check"}, {"migrate", "--source", "/here"}} {
		p = start(t, store, again...)
		p.expect(0)
		stdout(p, "up to date\n")
	}
	for _, other := range [][]string{{"migrate", "--source", "/there"},
		{"migrate", "--source", "/there", "--check"}} {
		start(t, store, other...).expect(5, "/here")
	}
	exec1(t, path, "UPDATE skald_migration SET checksum = 'x'")
	start(t, store, "migrate").expect(5, "do not edit an applied migration")
	start(t, nil, "migrate", "--store",
		"sqlite:"+filepath.Join(filepath.Dir(path), "no", "shop.db")).expect(4, "skald: there is no folder")
}

// What --print prints makes tables that Skald takes for its own.
func TestPrintedMigrationWorks(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "shop.db")
	p := start(t, nil, "migrate", "--store", "sqlite:"+path, "--print")
	p.expect(0)
	if _, err := os.Stat(path); err == nil {
		t.Error("--print made a file")
	}
	exec1(t, path, p.out.String())
	start(t, nil, "migrate", "--store", "sqlite:"+path, "--check", "--source", "/shop/main").expect(0)
}

func TestRelayNeedsTables(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "shop.db")
	bus := []string{"SKALD_BROKER=kafka://127.0.0.1:1"}
	start(t, bus, "relay", "--store", "sqlite:"+path).expect(4, "skald migrate")
	exec1(t, path, "CREATE TABLE mine (x)")
	start(t, bus, "relay", "--store", "sqlite:"+path).expect(5, "no Skald tables", "skald migrate")
	if names := entries(t, filepath.Dir(path)); slices.Contains(names, "order.db") {
		t.Error(names)
	}
}

// A broker that is away is waited for, and talked about; a signal ends the relay in peace.
func TestRelayWaits(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "shop.db")
	start(t, nil, "migrate", "--store", "sqlite:"+path).expect(0)
	for _, end := range []syscall.Signal{syscall.SIGTERM, syscall.SIGINT} {
		t.Run(end.String(), func(t *testing.T) {
			t.Parallel()
			p := start(t, nil, "relay", "--store", "sqlite:"+path, "--broker", "kafka://127.0.0.1:1")
			p.until("a word about it", func() bool { return strings.Contains(p.errs.String(), "waiting") })
			p.signal(end)
			p.expect(0)
			if p.out.String() != "" {
				t.Errorf("standard output is for data: %s", &p.out)
			}
		})
	}
}

// A database that is away is waited for, too; a server that says no is not.
func TestRelayWaitsForTheDatabase(t *testing.T) {
	t.Parallel()
	p := start(t, []string{"PGPASSWORD=s3cr3t"}, "relay", "--store", "postgres://bob@127.0.0.1:1/db",
		"--broker", "kafka://127.0.0.1:1")
	p.until("second word about it",
		func() bool { return strings.Count(p.errs.String(), "waiting for the database") >= 2 })
	p.signal(syscall.SIGTERM)
	p.expect(0, "127.0.0.1:1")
	if strings.Contains(p.errs.String(), "s3cr3t") {
		t.Error(&p.errs)
	}
}

func entries(t testing.TB, dir string) (names []string) {
	t.Helper()
	list, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range list {
		names = append(names, e.Name())
	}
	return names
}
