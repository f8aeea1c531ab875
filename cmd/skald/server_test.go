package main_test

import (
	"context"
	"crypto/rand"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/skald-go/skald/examples/shop/event"
	"github.com/skald-go/skald/internal/need"
)

// postgres is a new database on the server, dropped at the end.
func postgres(t *testing.T) (at string, conn *pgx.Conn) {
	t.Helper()
	server := need.Postgres(t)
	ctx := context.Background()
	admin, err := pgx.Connect(ctx, server)
	if err != nil {
		t.Fatal(err)
	}
	name := "skald_cmd_" + strings.ToLower(rand.Text()[:12])
	if _, err := admin.Exec(ctx, "CREATE DATABASE "+name); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_, err := admin.Exec(ctx, "DROP DATABASE "+name+" WITH (FORCE)")
		if err != nil {
			t.Error(err)
		}
		_ = admin.Close(ctx)
	})
	u, err := url.Parse(server)
	if err != nil {
		t.Fatal(err)
	}
	u.Path = "/" + name
	if conn, err = pgx.Connect(ctx, u.String()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close(ctx) })
	return u.String(), conn
}

// count is what a query counts, -1 where it cannot be asked.
func count(conn *pgx.Conn, query string) (n int) {
	if err := conn.QueryRow(context.Background(), query).Scan(&n); err != nil {
		return -1
	}
	return n
}

func do(t testing.TB, conn *pgx.Conn, statements string) {
	t.Helper()
	if _, err := conn.Exec(t.Context(), statements, pgx.QueryExecModeSimpleProtocol); err != nil {
		t.Fatal(err)
	}
}

// kafka is a client of the cluster, and a prefix whose topics go at the end.
func kafka(t *testing.T) (at, prefix string, adm *kadm.Client) {
	t.Helper()
	seeds := need.Kafka(t)
	cl, err := kgo.NewClient(kgo.SeedBrokers(strings.Split(seeds, ",")...))
	if err != nil {
		t.Fatal(err)
	}
	adm = kadm.NewClient(cl)
	prefix = "cmd_" + strings.ToLower(rand.Text()[:8])
	t.Cleanup(func() {
		if _, err := adm.DeleteTopics(context.Background(), event.New(prefix).Topics()...); err != nil {
			t.Error(err)
		}
		cl.Close()
	})
	return "kafka://" + seeds, prefix, adm
}

func TestMigratePostgres(t *testing.T) {
	t.Parallel()
	at, conn := postgres(t)
	store := []string{"SKALD_STORE=" + at}
	start(t, store, "migrate", "--schema", "a", "--check").expect(8)
	if n := count(conn, "SELECT count(*) FROM pg_namespace WHERE nspname = 'a'"); n != 0 {
		t.Error("--check made a schema")
	}
	rivals := []*program{start(t, store, "migrate", "--schema", "a"),
		start(t, store, "migrate", "--schema", "a")}
	for _, p := range rivals {
		p.expect(0)
	}
	said := []string{rivals[0].out.String(), rivals[1].out.String()}
	if slices.Sort(said); !strings.HasPrefix(said[0], "applied ") || said[1] != "up to date\n" {
		t.Errorf("two at once say %q", said)
	}
	var source string
	err := conn.QueryRow(t.Context(),
		"INSERT INTO a.skald_outbox (topic, type) VALUES ('t', 'x') RETURNING source").Scan(&source)
	if want := "/" + conn.Config().Database + "/a"; err != nil || source != want {
		t.Errorf("the source is %q, want %q: %v", source, want, err)
	}
	start(t, store, "migrate", "--schema", "a", "--check").expect(0)
	start(t, store, "migrate", "--schema", "a", "--source", "/other").expect(5, source)

	start(t, store, "migrate", "--schema", "a", "--outbox-slots", "2").expect(2, "4 to 1000 slots")
	p := start(t, store, "migrate", "--schema", "a", "--outbox-slots", "12")
	p.expect(0)
	for _, says := range []string{"up to date\n", "outbox ring: 12 slots, was 10\n"} {
		if !strings.Contains(p.out.String(), says) {
			t.Errorf("a change of the ring says %q", p.out.String())
		}
	}

	p = start(t, store, "migrate", "--schema", "b c", "--source", "/said", "--print")
	p.expect(0)
	do(t, conn, p.out.String())
	start(t, store, "migrate", "--schema", "b c", "--check", "--source", "/said").expect(0)
	if err := conn.QueryRow(t.Context(),
		`INSERT INTO "b c".skald_outbox (topic, type) VALUES ('t', 'x') RETURNING source`).Scan(
		&source); err != nil || source != "/said" {
		t.Errorf("the source is %q: %v", source, err)
	}
}

func TestExitCodesOnPostgres(t *testing.T) {
	t.Parallel()
	at, conn := postgres(t)
	role := "skald_cmd_" + strings.ToLower(rand.Text()[:12])
	do(t, conn, "CREATE ROLE "+role+" LOGIN")
	t.Cleanup(func() {
		_, err := conn.Exec(context.Background(), "DROP OWNED BY "+role+"; DROP ROLE "+role,
			pgx.QueryExecModeSimpleProtocol)
		if err != nil {
			t.Error(err)
		}
	})
	u, err := url.Parse(at)
	if err != nil {
		t.Fatal(err)
	}
	as := func(user, database string) string {
		v := *u
		v.User, v.Path = url.User(user), "/"+database
		return v.String()
	}
	const bus = "kafka://127.0.0.1:1"
	own := strings.TrimPrefix(u.Path, "/")
	start(t, nil, "migrate", "--store", as(u.User.Username(), "nowhere_"+role)).expect(4,
		"nowhere_", "createdb")
	start(t, nil, "migrate", "--store", as("nobody_"+role, own)).expect(3, "nobody_", "PGPASSWORD")
	start(t, nil, "migrate", "--store", as(role, own), "--schema", "s").expect(3, "permission denied")
	start(t, nil, "demo", "--store", as(role, own)).expect(3, "permission denied")
	start(t, nil, "relay", "--store", at, "--schema", "none", "--broker", bus).expect(4, "skald migrate")
	do(t, conn, "CREATE SCHEMA bare")
	start(t, nil, "relay", "--store", at, "--schema", "bare", "--broker", bus).expect(5, "skald migrate")
	start(t, nil, "migrate", "--store", at, "--schema", "s").expect(0)
	start(t, nil, "relay", "--store", as(role, own), "--schema", "s", "--broker", bus).expect(3, "GRANT")
}

// Two relays carry what psql writes to a topic; one more that is killed delays nothing for long.
func TestRelayToKafka(t *testing.T) {
	t.Parallel()
	at, conn := postgres(t)
	relayToKafka(t, at, conn)
}

func relayToKafka(t *testing.T, at string, conn *pgx.Conn) {
	t.Helper()
	bus, prefix, adm := kafka(t)
	topic := event.New(prefix).Topics()[0]
	if _, err := adm.CreateTopic(t.Context(), 2, -1, nil, topic); err != nil {
		t.Fatal(err)
	}
	env := []string{"SKALD_STORE=" + at, "SKALD_BROKER=" + bus}
	start(t, env, "migrate", "--schema", "s").expect(0)
	relays := []*program{start(t, env, "relay", "--schema", "s"), start(t, env, "relay", "--schema", "s"),
		start(t, env, "relay", "--schema", "s")}
	relays[0].until("third relay",
		func() bool { return count(conn, "SELECT count(DISTINCT owner) FROM s.skald_shard") == 3 })
	relays[2].kill()
	const n = 200
	do(t, conn, fmt.Sprintf(`INSERT INTO s.skald_outbox (topic, key, type, data)
		SELECT '%s', 'k' || i %% 20, 'x', json_build_object('n', i)::text FROM generate_series(1, %d) AS i`, topic, n))

	cl, err := kgo.NewClient(kgo.SeedBrokers(strings.TrimPrefix(bus, "kafka://")), kgo.ConsumeTopics(topic),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
	if err != nil {
		t.Fatal(err)
	}
	defer cl.Close()
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	seen, last := map[string]bool{}, map[string]string{}
	for len(seen) < n && ctx.Err() == nil {
		cl.PollFetches(ctx).EachRecord(func(r *kgo.Record) {
			head := map[string]string{}
			for _, h := range r.Headers {
				head[h.Key] = string(h.Value)
			}
			if head["ce_type"] != "x" || head["ce_partitionkey"] != string(r.Key) ||
				len(head["ce_sequence"]) != 20 || head["ce_id"] == "" {
				t.Errorf("headers %v of %s", head, r.Value)
			}
			if !seen[head["ce_id"]] && head["ce_sequence"] < last[string(r.Key)] {
				t.Errorf("%s comes behind %s", head["ce_sequence"], last[string(r.Key)])
			}
			seen[head["ce_id"]] = true
			last[string(r.Key)] = max(last[string(r.Key)], head["ce_sequence"])
		})
	}
	if len(seen) != n {
		t.Errorf("%d of %d came", len(seen), n)
	}
	for i, end := range []syscall.Signal{syscall.SIGTERM, syscall.SIGINT} {
		relays[i].signal(end)
		relays[i].expect(0, "relaying", "stopping")
	}
	if n := count(conn, "SELECT count(owner) FROM s.skald_shard"); n != 0 {
		t.Errorf("%d shards are not given back", n)
	}
}

// The demo on servers: killed it goes on, finished it says so again, and it keeps away from what others made.
func TestDemoOnPostgresAndKafka(t *testing.T) {
	t.Parallel()
	at, conn := postgres(t)
	bus, prefix, adm := kafka(t)
	args := []string{"demo", "--orders", "120", "--store", at, "--broker", bus, "--prefix", prefix, "--json"}
	for _, marks := range []int{0, 10, 40} {
		p := start(t, nil, args...)
		p.until(fmt.Sprint(marks, " marks"),
			func() bool { return count(conn, "SELECT count(*) FROM "+prefix+"_payment.skald_mark") >= marks })
		p.kill()
	}
	p := start(t, nil, args...)
	p.expect(0)
	if o := p.outcome(); !o.OK || o.Orders.Placed != 120 || o.Messages.Duplicates == 0 {
		t.Errorf("%s", &p.out)
	}
	p = start(t, nil, "demo", "--store", at, "--broker", bus, "--prefix", prefix)
	p.expect(0)
	for _, want := range []string{"skald demo remove --store ", prefix + "_order", prefix + ".orders",
		"All promises are kept."} {
		if !strings.Contains(p.out.String(), want) {
			t.Errorf("no %q in\n%s", want, &p.out)
		}
	}
	start(t, nil, append(args, "--seed", "2")...).expect(5, "--seed 1")

	other, conn2 := postgres(t) // a new database, and topics that are there already
	start(t, nil, "demo", "--store", other, "--broker", bus, "--prefix", prefix).expect(5,
		"topics that this demo did not create", prefix+".orders")
	if n := count(conn2, "SELECT count(*) FROM pg_namespace WHERE nspname LIKE '"+prefix+"%'"); n != 0 {
		t.Errorf("it made %d schemas before it looked at the topics", n)
	}
	do(t, conn2, fmt.Sprintf(`CREATE SCHEMA "%s_payment" CREATE TABLE mine (x int)`, prefix))
	start(t, nil, "demo", "--store", other, "--prefix", prefix).expect(5, prefix+"_payment")

	if _, err := adm.DeleteTopics(t.Context(), prefix+".orders"); err != nil {
		t.Fatal(err)
	}
	// it is over: the databases tell
	start(t, nil, "demo", "--store", at, "--broker", bus, "--prefix", prefix).expect(0)
}

// On the worst of days on real servers, by the same faults as TestDemoWild: services die in the middle of a
// statement and of a call to Kafka, commits take effect and answer with an error, messages come twice and
// cannot be read. Every promise is kept, and nothing is left.
func TestDemoWildOnPostgresAndKafka(t *testing.T) {
	t.Parallel()
	at, conn := postgres(t)
	bus, prefix, _ := kafka(t)
	where := []string{"--store", at, "--broker", bus, "--prefix", prefix}
	p := start(t, nil, append([]string{"demo", "--orders", "40", "--seed", "7", "--faults", "wild", "--json"},
		where...)...)
	p.expect(0)
	o := p.outcome()
	if m := o.Messages; !o.OK || o.Orders.Placed != 40 || m.Parked == 0 || m.Dead != m.Redriven+m.Dropped ||
		m.Duplicates == 0 || len(o.Faults) == 0 {
		t.Errorf("%s", &p.out)
	}
	for _, name := range []string{"order", "payment", "inventory", "fulfilment", "notification",
		"analytics"} {
		if n := count(conn, "SELECT count(*) FROM "+prefix+"_"+name+".skald_parked"); n != 0 {
			t.Errorf("%s keeps %d messages", name, n)
		}
	}
	start(t, nil, append([]string{"demo", "remove", "--yes"}, where...)...).expect(0)
}

func TestPollingIsRed(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"id-cursor", "created-at"} {
		if name == "created-at" && !need.Full() { // nightly
			continue
		}
		for seed := 1; ; seed++ { // by chance no row is passed by in a run
			at, _ := postgres(t)
			p := start(t, nil, "demo", "--orders", "150", "--store", at, "--sabotage", name,
				"--json", "--seed", fmt.Sprint(seed))
			if found := p.wait() == 8 && strings.Contains(p.errs.String(), "delivered_to_all"); !found &&
				seed < 5 {
				continue
			}
			p.expect(8, "without a safeguard ("+name+")", "delivered_to_all")
			p.outcome().namesOrders(t)
			break
		}
	}
}

// The server asks for no password, so any will do: none of what is said may hold it, in any end of a run.
func TestPasswordsAreNotPrintedByServers(t *testing.T) {
	t.Parallel()
	at, conn := postgres(t)
	u, err := url.Parse(at)
	if err != nil {
		t.Fatal(err)
	}
	u.User = url.UserPassword(u.User.Username(), "s3cr3t")
	store := []string{"SKALD_STORE=" + u.String()}
	check := func(p *program, code int) {
		t.Helper()
		p.expect(code)
		if all := p.out.String() + p.errs.String(); strings.Contains(all, "s3cr3t") {
			t.Errorf("%s prints the password:\n%s", p.cmd.Args[1:], all)
		}
	}
	in := inFile(t, u.String())
	p := start(t, nil, "demo", "--orders", "60", "--prefix", "pw", "--verbose", "--store", in)
	p.until("mails", func() bool { return count(conn, "SELECT count(*) FROM pw_notification.mails") > 5 })
	p.signal(syscall.SIGINT)
	check(p, 130)
	check(start(t, nil, "demo", "--orders", "61", "--prefix", "pw", "--store", in), 5)
	check(start(t, nil, "demo", "--prefix", "pw", "--store", in), 0)
	check(start(t, nil, "demo", "--prefix", "pw", "--json", "--store", in), 0)
	check(start(t, store, "migrate", "--schema", "m"), 0)
	check(start(t, store, "migrate", "--schema", "m", "--source", "x"), 5)
	if n := count(conn,
		"SELECT count(*) FROM pw_order.demo_run WHERE CAST(demo_run AS text) LIKE '%s3cr3t%'"); n != 0 {
		t.Error("demo_run keeps the password")
	}
}

func TestSecondDemoIsRefusedByPostgres(t *testing.T) {
	need.Nightly(t, "TestSecondDemoIsRefused stays")
	t.Parallel()
	at, conn := postgres(t)
	first := start(t, nil, "demo", "--orders", "10", "--keep", "--store", at)
	first.until("its first order",
		func() bool { return count(conn, "SELECT count(*) FROM skald_demo_order.orders") > 0 })
	start(t, nil, "demo", "--store", at).expect(5, "another demo is running", "--prefix")
	order := ""
	if err := conn.QueryRow(t.Context(),
		"SELECT id FROM skald_demo_order.orders LIMIT 1").Scan(&order); err != nil {
		t.Fatal(err)
	}
	p := start(t, nil, "demo", "show", order, "--store", at)
	p.expect(0)
	if !strings.Contains(p.out.String(), "order writes order.placed") {
		t.Errorf("no story in\n%s", &p.out)
	}
	first.shop() // it has its verdict
	first.signal(syscall.SIGTERM)
	first.expect(0)
}
