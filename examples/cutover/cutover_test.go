// Package cutover tries what docs/adopt.md says: consumers that were written by hand and inboxes of Skald
// share one group of Kafka, each a process of its own, while both are killed.
package cutover

import (
	"context"
	"crypto/rand"
	"errors"
	"flag"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/skald-go/skald/internal/need"
	"github.com/skald-go/skald/store/pgstore"
)

func TestMain(m *testing.M) {
	if text := os.Getenv(roleEnv); text != "" {
		if err := consume(text); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	os.Exit(m.Run())
}

const (
	accounts = 20
	frozen   = "a-3"
	patience = 5 * time.Minute
)

// A bank is a database, a topic with its retry topic, and the processes that consume them.
type bank struct {
	t    *testing.T
	s    setting
	conn *pgx.Conn
	cl   *kgo.Client
	dir  string
	said int // messages
}

var rounds = flag.Int("cutover.rounds", 1, "how often both kinds are killed while they share the group")

func newBank(t *testing.T) *bank {
	seeds := need.Kafka(t)
	b := newLedger(t)
	ctx := context.Background()
	b.s.seeds, b.s.retry, b.s.group = seeds, b.s.topic+".retry", b.s.topic
	cl, err := kgo.NewClient(kgo.SeedBrokers(strings.Split(seeds, ",")...))
	must(t, err)
	b.cl = cl
	adm := kadm.NewClient(cl)
	_, err = adm.CreateTopics(ctx, 4, 1, nil, b.s.topic, b.s.retry)
	must(t, err)
	t.Cleanup(func() {
		_, err := adm.DeleteTopics(ctx, b.s.topic, b.s.retry)
		_, _ = adm.DeleteGroups(ctx, b.s.group) // who was killed may still be a member
		must(t, err)
		cl.Close()
	})
	return b
}

// newLedger is a bank without Kafka.
func newLedger(t *testing.T) *bank {
	server := need.Postgres(t)
	ctx := context.Background()
	name := "cutover_" + strings.ToLower(rand.Text()[:10])
	b := &bank{t: t, dir: t.TempDir(), s: setting{topic: name}}
	admin, err := pgx.Connect(ctx, server)
	must(t, err)
	_, err = admin.Exec(ctx, "CREATE DATABASE "+name)
	must(t, err)
	t.Cleanup(func() {
		_, err := admin.Exec(ctx, "DROP DATABASE "+name+" WITH (FORCE)")
		must(t, errors.Join(err, admin.Close(ctx)))
	})
	u, err := url.Parse(server)
	must(t, err)
	u.Path = "/" + name
	b.s.database = u.String()
	b.conn, err = pgx.Connect(ctx, b.s.database)
	must(t, err)
	t.Cleanup(func() { _ = b.conn.Close(ctx) })
	_, err = pgstore.Migrate(ctx, b.conn, &pgstore.MigrateOptions{Source: "/bank"})
	must(t, err)
	b.do(`CREATE TABLE processed_messages (message_id text PRIMARY KEY, processed_at timestamptz NOT NULL DEFAULT now())`)
	b.do(`CREATE TABLE effect (message_id text NOT NULL, kind text NOT NULL)`)
	b.do(`CREATE TABLE refusal (message_id text NOT NULL)`)
	b.do(`CREATE TABLE account (id text PRIMARY KEY, movements integer NOT NULL DEFAULT 0)`)
	b.do(`INSERT INTO account (id) SELECT 'a-' || n FROM generate_series(0, 19) AS n`)
	return b
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func (b *bank) do(sql string) {
	b.t.Helper()
	_, err := b.conn.Exec(b.t.Context(), sql)
	must(b.t, err)
}

func (b *bank) count(sql string, args ...any) (n int) {
	b.t.Helper()
	must(b.t, b.conn.QueryRow(b.t.Context(), sql, args...).Scan(&n))
	return n
}

// say publishes so many new messages, and some of those before once more.
func (b *bank) say(n int) {
	b.t.Helper()
	var out []*kgo.Record
	record := func(i int) {
		out = append(out, &kgo.Record{Topic: b.s.topic, Key: fmt.Appendf(nil, "a-%d", i%accounts),
			Value: []byte("{}"), Headers: []kgo.RecordHeader{
				{Key: idHeader, Value: fmt.Appendf(nil, "m-%d", i)},
				{Key: typeHeader, Value: []byte("moved")}}})
	}
	for range n {
		record(b.said)
		if b.said%7 == 0 {
			record(b.said * 2 / 3)
		}
		b.said++
	}
	must(b.t, b.cl.ProduceSync(b.t.Context(), out...).FirstErr())
}

// A consumer is one process at a time.
type consumer struct {
	b    *bank
	s    setting
	cmd  *exec.Cmd
	gone chan error
}

func (b *bank) consumer(kind, name string) *consumer {
	c := &consumer{b: b, s: b.s}
	c.s.kind, c.s.name = kind, b.s.group+"-"+name
	return c
}

func (c *consumer) start() *consumer {
	t := c.b.t
	t.Helper()
	log, err := os.OpenFile(filepath.Join(c.b.dir, c.s.name+".log"), os.O_APPEND|os.O_CREATE|
		os.O_WRONLY, 0o600)
	must(t, err)
	defer log.Close()
	c.cmd = exec.Command(os.Args[0])
	c.cmd.Env = append(os.Environ(), c.s.env())
	c.cmd.Stderr = log
	must(t, c.cmd.Start())
	c.gone = make(chan error, 1)
	cmd, gone := c.cmd, c.gone
	go func() { gone <- cmd.Wait() }()
	t.Cleanup(func() { _ = cmd.Process.Kill() })
	return c
}

func (c *consumer) end(s os.Signal) {
	c.b.t.Helper()
	select {
	case err := <-c.gone:
		c.b.t.Fatalf("%s ended by itself: %v\n%s", c.s.name, err, c.log())
	default:
	}
	must(c.b.t, c.cmd.Process.Signal(s))
	select {
	case err := <-c.gone:
		if s == syscall.SIGTERM && err != nil {
			c.b.t.Errorf("%s was told to stop: %v\n%s", c.s.name, err, c.log())
		}
	case <-time.After(patience):
		c.b.t.Fatalf("%s does not end", c.s.name)
	}
}

func (c *consumer) log() string {
	text, _ := os.ReadFile(filepath.Join(c.b.dir, c.s.name+".log"))
	return string(text)
}

// crash is kill -9, and a new session.
func (c *consumer) crash() {
	c.b.t.Helper()
	c.end(syscall.SIGKILL)
	c.start()
}

// works says more until consumers of each of these kinds have had so many effects more, which leaves some on
// their way.
func (b *bank) works(n int, kinds ...string) {
	b.t.Helper()
	for _, kind := range kinds {
		before := b.count(`SELECT count(*) FROM effect WHERE kind = $1`, kind)
		b.until(fmt.Sprintf("%d more of %s", n, kind), func() bool {
			b.say(20)
			return b.count(`SELECT count(*) FROM effect WHERE kind = $1`, kind) >= before+n
		})
	}
}

func (b *bank) until(what string, done func() bool) {
	b.t.Helper()
	end := time.Now().Add(patience)
	for tick := time.NewTicker(50 * time.Millisecond); !done(); <-tick.C {
		if time.Now().After(end) {
			logs, _ := filepath.Glob(filepath.Join(b.dir, "*.log"))
			for _, path := range logs {
				text, _ := os.ReadFile(path)
				b.t.Logf("%s: %s", path, text[max(0, len(text)-2000):])
			}
			b.t.Fatalf("waited in vain: %s", what)
		}
	}
}

func (b *bank) parked() int { return b.count(`SELECT count(*) FROM skald_parked`) }

// A group of consumers that were written by hand is taken over by inboxes, one process after the other, and
// goes back the same way, with messages in flight, in a retry topic and parked all the time, while both
// halves are killed: each effect happens once.
func TestHalfOldHalfNewUnderKills(t *testing.T) {
	if testing.Short() {
		t.Skip("half a minute of processes and kills")
	}
	b := newBank(t)
	old1, old2 := b.consumer("old", "old-1").start(), b.consumer("old", "old-2").start()
	b.works(60, "old")

	old2.end(syscall.SIGTERM)
	new1 := b.consumer("new", "new-1").start()
	b.works(40, "old", "new")
	for range *rounds {
		b.say(100)
		new1.crash()
		b.works(20, "new")
		b.say(100)
		old1.crash()
		b.works(20, "old")
	}

	new2 := b.consumer("new", "new-2").start()
	old1.end(syscall.SIGTERM)
	b.works(40, "new")
	new2.crash()
	b.works(40, "new")

	t.Logf("over: %d messages, %d effects by hand, %d by inboxes", b.said,
		b.count(`SELECT count(*) FROM effect WHERE kind = 'old'`),
		b.count(`SELECT count(*) FROM effect WHERE kind = 'new'`))
	old1.start()
	new1.end(syscall.SIGTERM)
	b.works(20, "old")
	old2.start()
	new2.end(syscall.SIGKILL)
	b.works(20, "old")
	for b.parked() > 0 { // they are in no topic: an inbox works them off
		new1.start()
		b.until("nothing is parked", func() bool { return b.parked() == 0 })
		new1.end(syscall.SIGTERM)
	}
	refused := (b.said - 1 - 3 + accounts) / accounts // of the frozen account
	b.until("all that was said is settled",
		func() bool { return b.count(`SELECT count(*) FROM processed_messages`) == b.said })
	old1.end(syscall.SIGTERM)
	old2.end(syscall.SIGTERM)
	for what, c := range map[string]struct {
		query string
		want  int
	}{
		"effects":                    {`SELECT count(*) FROM effect`, b.said - refused},
		"messages with effects":      {`SELECT count(DISTINCT message_id) FROM effect`, b.said - refused},
		"movements":                  {`SELECT sum(movements) FROM account`, b.said - refused},
		"refusals":                   {`SELECT (SELECT count(*) FROM refusal) + (SELECT count(*) FROM skald_keys WHERE status = 'rejected')`, refused},
		"marks that nobody noted":    {`SELECT count(*) FROM skald_keys AS k WHERE NOT EXISTS (SELECT FROM processed_messages AS p WHERE p.message_id = k.key)`, 0},
		"messages that are kept":     {`SELECT count(*) FROM skald_parked`, 0},
		"messages in the quarantine": {`SELECT count(*) FROM skald_quarantine`, 0},
	} {
		if n := b.count(c.query); n != c.want {
			t.Errorf("%d %s of %d messages, want %d", n, what, b.said, c.want)
		}
	}
	t.Logf("and back: %d messages, %d refused, %d by hand, %d by inboxes", b.said, refused,
		b.count(`SELECT count(*) FROM effect WHERE kind = 'old'`),
		b.count(`SELECT count(*) FROM effect WHERE kind = 'new'`))
}
