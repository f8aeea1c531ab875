package main_test

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/skald-go/skald"
	"github.com/skald-go/skald/broker"
	"github.com/skald-go/skald/broker/kafkabroker"
	"github.com/skald-go/skald/inbox"
	"github.com/skald-go/skald/internal/need"
	"github.com/skald-go/skald/store/pgstore"
)

// A transit is a database with Skald's tables, and a Kafka with topics, for Debezium to stand between.
type transit struct {
	jars, at, url, seeds, prefix string
	conn                         *pgx.Conn
	bus                          *kafkabroker.Broker
}

// connectBed makes topics of these names, after the prefix, with so many partitions.
func connectBed(t *testing.T, partitions int, topics ...string) (c transit) {
	t.Helper()
	c.jars = need.Debezium(t)
	c.at, c.conn = postgres(t)
	c.url, c.prefix, _ = kafka(t)
	c.seeds = strings.TrimPrefix(c.url, "kafka://")
	var err error
	c.bus, err = kafkabroker.New(c.seeds, nil)
	must(t, err)
	t.Cleanup(func() { _ = c.bus.Close() })
	for _, name := range topics {
		must(t, c.bus.MakeTopics(t.Context(), partitions, c.prefix+"."+name))
	}
	start(t, []string{"SKALD_STORE=" + c.at}, "migrate", "--source", "/orders").expect(0)
	return c
}

// The real Debezium, with the configuration that the command prints, publishes what our relay publishes; what
// differs is listed here, and in docs/adopt.md. An inbox takes of both each message once.
func TestDebezium(t *testing.T) {
	t.Parallel()
	b := connectBed(t, 1, "orders", "Order.events.created")
	at, conn, bus, prefix := b.at, b.conn, b.bus, b.prefix
	topic, routed := prefix+".orders", prefix+".Order.events.created"

	slot := conn.Config().Database
	plain := connector(t, conn, at, "--name", "plain_"+slot, "--slot", "a_"+slot, "--publication", "plain")
	article := connector(t, conn, at, "--name", "article_"+slot, "--slot", "b_"+slot, "--publication",
		"article", "--route-by", "subject", "--route-to", "${routedByValue}.events.created")
	t.Cleanup(func() { dropSlots(t, conn) }) // after Connect has ended: a slot keeps the database
	runConnect(t, b.jars, b.seeds, plain, article)
	eventually(t, "slots", func() bool {
		return count(conn, "SELECT count(*) FROM pg_replication_slots WHERE active AND confirmed_flush_lsn IS NOT NULL AND database = current_database()") == 2
	})
	insert := `INSERT INTO skald_outbox (topic, key, type, data, subject, schema, correlation_id, causation_id, traceparent, content_type, headers) VALUES
		($1, '7', 'order.created', '{"n": "ü €"}', $2, NULL, NULL, NULL, NULL, 'application/json', NULL),
		($1, '7', 'order.paid', '{}', $2, 's', 'c', 'd', '00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01', 'application/cloudevents', '[["x", "AP8="], ["x", ""], ["b", "YQ=="]]'),
		($1, 'é', 'order.gone', NULL, $2, NULL, NULL, NULL, NULL, 'application/json', NULL),
		($1, NULL, 'order.keyless', 'text', $2, NULL, NULL, NULL, NULL, 'text/plain', NULL)`
	_, err := conn.Exec(t.Context(), insert, topic, prefix+".Order")
	must(t, err)
	sub, err := bus.Subscribe(t.Context(), broker.Group{Name: prefix, Topics: []string{topic}})
	must(t, err)
	theirs := receive(t, sub, 4)
	other, err := bus.Subscribe(t.Context(), broker.Group{Name: prefix + "_routed", Topics: []string{routed}})
	must(t, err)
	for i, m := range receive(t, other, 4) {
		if m.ID != theirs[i].ID || string(m.Data) != string(theirs[i].Data) {
			t.Errorf("by subject came %+v, want %+v", m, theirs[i])
		}
	}

	r := start(t, []string{"SKALD_STORE=" + at}, "relay", "--broker", b.url)
	ours := receive(t, sub, 4)
	must(t, r.cmd.Process.Kill())
	r.wait()
	for i := range ours {
		compareDebezium(t, theirs[i], ours[i])
	}

	// Relay and connector at once: every message is there twice, and taken once.
	pool, err := pgxpool.New(t.Context(), at)
	must(t, err)
	t.Cleanup(pool.Close)
	var mu sync.Mutex
	taken := map[string]int{}
	in := inbox.New(pgstore.New(pool, nil), bus, "reader", nil)
	for _, typ := range []string{"order.created", "order.paid", "order.gone", "order.keyless"} {
		in.Handle(topic, typ, func(_ context.Context, _ pgx.Tx, m skald.Message) error {
			mu.Lock()
			defer mu.Unlock()
			taken[m.ID]++
			return nil
		})
	}
	ctx, stop := context.WithTimeout(t.Context(), 5*time.Minute)
	defer stop()
	ended := make(chan error, 1)
	go func() { ended <- skald.Run(ctx, in) }()
	eventually(t, "the inbox", func() bool {
		lag, err := bus.Lag(ctx, "reader", topic)
		return err == nil && len(lag) == 1 && lag[topic] == 0 &&
			count(conn, "SELECT count(*) FROM skald_mark WHERE consumer = 'reader'") == 4
	})
	stop()
	must(t, <-ended)
	if len(taken) != 4 {
		t.Errorf("taken were %v", taken)
	}
	for id, n := range taken {
		if n != 1 {
			t.Errorf("%s was taken %d times", id, n)
		}
	}
}

func dropSlots(t *testing.T, conn *pgx.Conn) {
	t.Helper()
	eventually(t, "slots that can be dropped", func() bool {
		_, err := conn.Exec(context.Background(),
			"SELECT pg_drop_replication_slot(slot_name) FROM pg_replication_slots WHERE database = current_database()")
		return err == nil
	})
}

// compareDebezium: the same message, but for what the stock EventRouter cannot do.
func compareDebezium(t *testing.T, theirs, ours skald.Message) {
	t.Helper()
	if a, err := strconv.ParseInt(theirs.Sequence, 10, 64); err != nil ||
		fmt.Sprintf("%020d", a) != ours.Sequence {
		t.Errorf("the sequence is %q, the relay's is %q", theirs.Sequence, ours.Sequence)
	}
	theirs.Sequence = ours.Sequence // without zeros in front
	if !theirs.Time.Equal(ours.Time) {
		t.Errorf("the time is %v, the relay's is %v", theirs.Time, ours.Time)
	}
	theirs.Time = ours.Time
	if !reflect.DeepEqual(theirs, ours) {
		t.Errorf("Debezium published\n\t%+v\nthe relay\n\t%+v", theirs, ours)
	}
}

func receive(t *testing.T, sub broker.Subscription, n int) (out []skald.Message) {
	t.Helper()
	ctx, stop := context.WithTimeout(t.Context(), 5*time.Minute)
	defer stop()
	for len(out) < n {
		select {
		case <-sub.Ready():
		case <-ctx.Done():
			t.Fatalf("%d of %d messages came", len(out), n)
		}
		batch, err := sub.Receive(ctx, 100)
		must(t, err)
		for _, d := range batch.Deliveries {
			must(t, d.Fault)
			out = append(out, d.Message)
		}
	}
	return out
}

func eventually(t *testing.T, what string, so func() bool) {
	t.Helper()
	for end := time.Now().Add(5 * time.Minute); !so(); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("%s: it does not come to that", what)
		}
	}
}

// connector makes the publication, and a file of properties of what the command prints.
func connector(t *testing.T, conn *pgx.Conn, at string, args ...string) (path string) {
	t.Helper()
	p := start(t, []string{"SKALD_STORE=" + at}, append([]string{"debezium", "config"}, args...)...)
	p.expect(0, "CREATE PUBLICATION")
	_, statement, _ := strings.Cut(p.errs.String(), "first run\n")
	do(t, conn, statement)
	var printed struct {
		Name   string
		Config map[string]string
	}
	must(t, json.Unmarshal([]byte(p.out.String()), &printed))
	printed.Config["name"] = printed.Name
	return properties(t, printed.Config)
}

func properties(t *testing.T, all map[string]string) (path string) {
	t.Helper()
	f, err := os.CreateTemp(t.TempDir(), "*.properties")
	must(t, err)
	for name, value := range all {
		_, err := fmt.Fprintf(f, "%s=%s\n", name, value)
		must(t, err)
	}
	must(t, f.Close())
	return f.Name()
}

// heartbeats makes the topics without which a connector waits.
func heartbeats(t *testing.T, seeds string, connectors []string) {
	t.Helper()
	bus, err := kafkabroker.New(seeds, nil)
	must(t, err)
	defer bus.Close()
	for _, path := range connectors {
		text, err := os.ReadFile(path)
		must(t, err)
		must(t, bus.MakeTopics(t.Context(), 1, "__debezium-heartbeat."+
			regexp.MustCompile(`(?m)^topic\.prefix=(.*)$`).FindStringSubmatch(string(text))[1]))
	}
}

// runConnect runs Kafka Connect with connectors until stop, or the end of the test.
func runConnect(t *testing.T, jars, seeds string, connectors ...string) (stop func()) {
	t.Helper()
	heartbeats(t, seeds, connectors)
	worker := properties(t, map[string]string{"bootstrap.servers": seeds,
		"offset.storage.file.filename": filepath.Join(t.TempDir(), "offsets"),
		"listeners":                    fmt.Sprintf("http://127.0.0.1:%d", need.FreePort(t)),
		"plugin.discovery":             "only_scan", "offset.flush.interval.ms": "1000",
		"key.converter":   "org.apache.kafka.connect.json.JsonConverter",
		"value.converter": "org.apache.kafka.connect.json.JsonConverter"})
	args := append([]string{"-Xmx384m", "-XX:TieredStopAtLevel=1", "-cp", filepath.Join(jars, "*"),
		"org.apache.kafka.connect.cli.ConnectStandalone", worker}, connectors...)
	c := exec.Command("java", args...)
	log := &output{}
	c.Stdout, c.Stderr = log, log
	must(t, c.Start())
	stop = sync.OnceFunc(func() {
		_ = c.Process.Kill()
		_ = c.Wait()
	})
	t.Cleanup(func() {
		stop()
		if t.Failed() {
			said := log.String()
			t.Log(said[max(0, len(said)-6000):])
		}
	})
	return stop
}

// A connector reads payloads from one column: the doctor fails where rows have them in both.
func TestDoctorOnDebezium(t *testing.T) {
	t.Parallel()
	at, conn := postgres(t)
	start(t, nil, "migrate", "--store", at).expect(0)
	connector(t, conn, at, "--publication", "carried")
	examined := func(code int, want string) {
		t.Helper()
		doctor(t, code, map[string]string{"store/debezium": want}, "--store", at, "--accept", "relay")
	}
	do(t, conn,
		"INSERT INTO skald_outbox (topic, key, type, data) VALUES ('orders', 'k', 'x', '{}'), ('orders', 'k', 'x', NULL)")
	examined(0, "ok publication carried; of the newest rows 1 have data, 0 data_bytes")
	do(t, conn,
		`INSERT INTO skald_outbox (topic, key, type, content_type, data_bytes) VALUES ('orders', 'k', 'y', 'application/avro', '\x02')`)
	examined(8, "failed 1 have data, 1 data_bytes, 0 key_bytes → its EventRouter reads one")
	do(t, conn,
		`DELETE FROM skald_outbox WHERE type = 'y'; INSERT INTO skald_outbox (topic, key_bytes, type, data) VALUES ('orders', '\xff', 'x', '{}')`)
	examined(8, "failed 2 have data, 0 data_bytes, 1 key_bytes")
	const whole = " WITH (publish = 'insert', publish_via_partition_root = true);"
	do(t, conn, "CREATE PUBLICATION numbers FOR TABLE skald_outbox (seq)"+whole+
		"CREATE PUBLICATION listed FOR TABLE skald_outbox (seq, id, topic, key, type, data)"+whole)
	examined(8, "failed publication listed leaves out the columns")
	do(t, conn, "DROP PUBLICATION carried; DROP PUBLICATION listed; DROP PUBLICATION numbers")
	start(t, nil, "doctor", "--store", at, "--accept", "debezium").expect(2,
		"no finding has that name")
}

// The configuration has no password, and names what it was told.
func TestDebeziumConfig(t *testing.T) {
	t.Parallel()
	env := []string{"SKALD_STORE=postgres://u:secret@db.example:5433/orders"}
	p := start(t, env, "debezium", "config", "--schema", "a", "--payload", "bytes", "--route-by", "subject",
		"--route-to", "${routedByValue}.events.created")
	p.expect(0, `CREATE PUBLICATION "skald_debezium" FOR TABLE "a".skald_outbox`)
	for _, has := range []string{`"database.hostname": "db.example"`, `"database.port": "5433"`,
		`"table.include.list": "a.skald_outbox"`, "data_bytes", "BinaryDataConverter",
		`"heartbeat.interval.ms"`, `"message.prefix.exclude.list": "skald"`,
		`"transforms.outbox.route.by.field": "subject"`,
		`"transforms.outbox.route.topic.replacement": "${routedByValue}.events.created"`} {
		if !strings.Contains(p.out.String(), has) {
			t.Errorf("it does not print %s:\n%s", has, p.out.String())
		}
	}
	if strings.Contains(p.out.String()+p.errs.String(), "secret") {
		t.Error("it prints the password")
	}
	start(t, env, "debezium").expect(2, "skald debezium [command]")
	start(t, env, "debezium", "config", "--payload", "both").expect(2, "text or bytes")
	start(t, env, "debezium", "config", "--route-by", "data").expect(2, "--route-by")
	start(t, env, "debezium", "config", "--route-by", "topic type").expect(2, "--route-by")
	start(t, env, "debezium", "config", "--slot", "Bad Slot").expect(2, "--slot has 1 to 63 characters")
	start(t, []string{"SKALD_STORE=sqlite:x.db"}, "debezium", "config").expect(2, "PostgreSQL")
	p = start(t, []string{"SKALD_STORE=postgres://u@db.example/orders?sslmode=verify-full"}, "debezium",
		"config", "--publication", `a"b`, "--schema", `s"`)
	p.expect(0, `CREATE PUBLICATION "a""b" FOR TABLE "s""".skald_outbox`)
	if has := `"database.sslmode": "verify-full"`; !strings.Contains(p.out.String(), has) {
		t.Errorf("it does not print %s:\n%s", has, p.out.String())
	}
}
