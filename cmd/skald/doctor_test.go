package main_test

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	amqp "github.com/rabbitmq/amqp091-go"
	"github.com/twmb/franz-go/pkg/kadm"

	"github.com/skald-go/skald/broker/rabbitbroker"
	"github.com/skald-go/skald/internal/need"
)

// An examined is what doctor --json prints.
type examined struct {
	OK               bool
	Failed, Warnings int
	Findings         []struct{ About, Name, Grade, Observed, Remedy string }
}

// doctor wants that exit code and these findings, "about/name" to "grade", with the words behind it: "failed
// less than 37 days". The grade "any" is each of them.
func doctor(t *testing.T, code int, want map[string]string, args ...string) {
	t.Helper()
	p := start(t, nil, append([]string{"doctor", "--json"}, args...)...)
	p.expect(code)
	var got examined
	if err := json.Unmarshal([]byte(p.out.String()), &got); err != nil {
		t.Fatalf("%v in %s\n%s", err, &p.out, &p.errs)
	}
	if got.OK != (code == 0) || got.OK != (got.Failed == 0) {
		t.Errorf("ok %v with exit code %d and %d failed", got.OK, code, got.Failed)
	}
	for name, expected := range want {
		grade, words, _ := strings.Cut(expected, " ")
		found := false
		for _, f := range got.Findings {
			if f.About+"/"+f.Name == name && (f.Grade == grade || grade == "any") &&
				strings.Contains(f.Observed+" → "+f.Remedy, words) {
				found = true
			}
			if f.Grade != "ok" && f.Remedy == "" || f.Observed == "" {
				t.Errorf("%+v says too little", f)
			}
		}
		if !found {
			t.Errorf("doctor %v finds no %s that is %q, but\n%s", args, name, expected, &p.out)
		}
	}
}

// A healthy database has nothing that failed; a missing table, a window that is too short, a server that is
// away have, each with what to do.
func TestDoctorOnSQLite(t *testing.T) {
	t.Parallel()
	at := "sqlite:" + filepath.Join(t.TempDir(), "shop.db")
	start(t, nil, "doctor").expect(2, "--store")
	doctor(t, 8, map[string]string{"store/connection": "failed skald migrate",
		"window/marks": "warning not checked"}, "--store", at)
	start(t, nil, "migrate", "--store", at).expect(0)
	doctor(t, 0, map[string]string{"store/tables": "ok", "store/rights of relay": "ok",
		"store/relay": "ok", "store/journal_mode": "ok wal",
		"store/synchronous": "ok", "store/retention": "ok nothing to delete",
		"window/marks": "ok no broker was compared: give --broker with each --topic, or --broker-keeps"}, "--store", at, "--rate", "10", "--connections", "5")
	start(t, nil, "maintain", "--store", at, "--reason", "test", "--keep-marks", "480h").expect(0)
	doctor(t, 8, map[string]string{"store/retention": "ok marks 20 days", "store/disk": "ok 10 messages/s",
		"window/marks": "failed marks are kept 20 days, less than 21 days, in which a message of topic orders may come: 7 days in the outbox of its producer and 14 days at the broker"},
		"--store", at, "--rate", "10", "--topic", "orders", "--broker-keeps", "336h")
	doctor(t, 8, map[string]string{"window/marks": "failed 30 days, in which a saga"}, "--store", at,
		"--saga", "720h")
	doctor(t, 8, map[string]string{"window/marks": "failed 40 days, in which a dead letter"}, "--store", at,
		"--dead", "960h")
	doctor(t, 8,
		map[string]string{"window/marks": "failed 21 days, in which a failing message is tried again"},
		"--store", at, "--age", "504h")
	doctor(t, 8, map[string]string{"window/marks": "failed 50 days, in which a message may leave the outbox"},
		"--store", at, "--outbox", "1200h")
	exec1(t, strings.TrimPrefix(at, "sqlite:"),
		"INSERT INTO skald_outbox (topic, key, type, data, time) VALUES ('t', 'k', 't', '1', '2020-01-01T00:00:00.000Z')")
	doctor(t, 8, map[string]string{"store/outbox": "warning 1 rows wait",
		"store/relay": "failed 16 shards have no relay"}, "--store", at)
	exec1(t, strings.TrimPrefix(at, "sqlite:"), "DELETE FROM skald_outbox")
	doctor(t, 0, map[string]string{"store/types": "ok no message waits"}, "--store", at)
	exec1(t, strings.TrimPrefix(at, "sqlite:"),
		`INSERT INTO skald_parked (consumer, source, id, topic, type, envelope, bytes, partition, position, fault, attempts, due, waiting, blocks_key,
		first_error, first_host, last_at, last_error, last_host, kind, fingerprint, stack, version, running_count, running_bytes, call)
		VALUES ('billing', '/o', '1', 'orders', 'order.renamed', x'7b7d', 0, '', 0, '', 0, 0, 0, 0, '', '', strftime('%Y-%m-%dT%H:%M:%fZ', 'now'), 'no handler', 'old-7', '', '', '', '', 0, 0,
		'{"key":"k","request":"{}","since":"2020-01-01T00:00:00Z"}')`)
	exec1(t, strings.TrimPrefix(at, "sqlite:"),
		"INSERT INTO skald_handled_type VALUES ('billing', 'orders', 'order.renamed', CAST(unixepoch('subsec') * 1000 AS INTEGER) - 90000)")
	doctor(t, 0,
		map[string]string{
			"store/types of billing": "warning the instance on old-7 has no handler for order.renamed of orders: 1 messages", "store/calls of billing": "warning 1 calls"},
		"--store", at, "--consumer", "billing")
	doctor(t, 8, map[string]string{"store/types": "ok no message waits",
		"store/consumer": "failed no consumer mail is known; known: billing"}, "--store", at,
		"--consumer", "mail")
	exec1(t, strings.TrimPrefix(at, "sqlite:"), `UPDATE skald_parked SET last_error = 'the service is away
		goroutine 1', first_at = strftime('%Y-%m-%dT%H:%M:%fZ', 'now', '-7 minutes'), call = NULL`)
	doctor(t, 0, map[string]string{
		"store/uncharged of billing": "warning 1 messages fail with temporary errors; the oldest, 1, for 7m",
	}, "--store", at)
	doctor(t, 0, map[string]string{
		"store/uncharged of billing": "warning the service is away → repair the cause; skald parked list --consumer billing",
	}, "--store", at)
	exec1(t, strings.TrimPrefix(at, "sqlite:"), insertedSaga("refund", "true", "NULL"))
	doctor(t, 0,
		map[string]string{
			"store/sagas of refund": "warning 1 running, 0 compensating; of them 1 stuck, 0 paused, 0 failing → run: skald saga list --stuck --name 'refund'"}, "--store", at)
	exec1(t, strings.TrimPrefix(at, "sqlite:"), insertedSaga("transfer", "false", "1"))
	doctor(t, 8,
		map[string]string{
			"store/sagas of transfer": "failed no engine runs 1 of them, although they have been due for a minute, or were left to another build 15 minutes ago; 1 of definition h, which no engine has stored"}, "--store", at)
	exec1(t, strings.TrimPrefix(at, "sqlite:"),
		"INSERT INTO skald_saga_definition (name, hash, number, written, noted_at) VALUES ('transfer', 'h', 1, '{}', 1000)")
	doctor(t, 8,
		map[string]string{
			"store/sagas of transfer": "failed No engine with its definition (h) has run since 1970-01-01T00:00:01Z, and no engine with another definition of its name runs: start the service with this saga → start the service"}, "--store", at)
	exec1(t, strings.TrimPrefix(at, "sqlite:"), "DELETE FROM skald_saga")
	exec1(t, strings.TrimPrefix(at, "sqlite:"),
		`INSERT INTO skald_tracked (flow, key, state, due, drift, drifted_at) VALUES
		('order', 'o-2', 'compensating', 2, 0, NULL), ('order', 'o 1', 'running', 1, 0, NULL), ('order', 'o-3', 'done', NULL, 1, CAST(unixepoch('subsec') * 1000 AS INTEGER))`)
	doctor(t, 0,
		map[string]string{
			"store/sagas of flow order": "warning 1 running, 1 compensating; 2 overdue, o 1 the longest; 1 received an event within the last day " +
				"that the flow does not allow, most recently o-3 → run: skald status -- 'o 1', skald status -- o-3"}, "--store", at)
	exec1(t, strings.TrimPrefix(at, "sqlite:"), "DELETE FROM skald_tracked")
	doctor(t, 0, map[string]string{"store/sagas": "ok there are no sagas"}, "--store", at)
	doctor(t, 8, map[string]string{"broker/connection": "failed"}, "--store", at, "--broker",
		"nats://127.0.0.1:1")
	p := start(t, nil, "doctor", "--store", at)
	p.expect(0)
	if out := p.out.String(); !strings.Contains(out, "ok       window  marks") ||
		!strings.Contains(out, "→ skald parked list") {
		t.Errorf("it prints\n%s", out)
	}
}

// insertedSaga is an INSERT of a running saga.
func insertedSaga(name, stuck, due string) string {
	return fmt.Sprintf(`INSERT INTO skald_saga (name, key, id, hash, input, fingerprint, origin, state, version, status, stuck, paused, step, error,
		failed, session, due, started_at, changed_at) VALUES ('%s', '1', '1', 'h', '{}', 0, '', '{}', 1, 'running', %s, false, 'a', '', 0, '', %s, 1, 1)`, name, stuck, due)
}

// The retention of the broker is compared, with a topic or without. If a broker or a topic is named and its
// retention is unknown, there is a warning.
func TestDoctorWithoutTheBroker(t *testing.T) {
	t.Parallel()
	at := "sqlite:" + filepath.Join(t.TempDir(), "shop.db")
	bus := "nats://" + natsServer(t, t.TempDir(), 0).Addr().String()
	start(t, nil, "migrate", "--store", at, "--broker", bus, "--topic", "orders").expect(0)
	const not = "warning was not compared → give --broker with each --topic, or --broker-keeps"
	for _, args := range [][]string{nil, {"--broker", bus}, {"--topic", "orders"}} {
		want := not
		if args == nil {
			want = "ok no broker was compared"
		}
		doctor(t, 0, map[string]string{"window/marks": want}, append(args, "--store", at)...)
		doctor(t, 0, map[string]string{"window/marks": "ok kept 30 days"},
			append(args, "--store", at, "--broker-keeps", "552h")...)
		doctor(t, 8,
			map[string]string{
				"window/marks": "failed marks are kept 30 days, less than 1068h, in which a message"},
			append(args, "--store", at, "--broker-keeps", "900h")...)
	}
	both := []string{"--store", at, "--broker", bus, "--topic", "orders"} // which is kept forever
	doctor(t, 0, map[string]string{"window/topic orders": "warning forever",
		"window/marks": "ok not compared with the retention of topic orders"}, both...)
	doctor(t, 8,
		map[string]string{
			"window/marks": "failed less than 50 days, in which a message may leave the outbox"},
		append(both, "--outbox", "1200h")...)
	for flag, says := range map[string]string{"--broker-keeps=0s": "a time above 0, not 0s",
		"--broker-keeps=-1h": "a time above 0", "--outbox=-1h": "--outbox cannot be negative",
		"--dead=-1h": "--dead",
		"--rate=-1":  "--rate", "--rate=NaN": "--rate", "--connections=-1": "--connections"} {
		start(t, nil, "doctor", "--store", at, flag).expect(2, says)
	}
	for _, ofTheStore := range []string{"--rate=5", "--connections=5"} {
		start(t, nil, "doctor", "--broker", bus, ofTheStore).expect(2, "give --store")
	}
}

// What a service measured is compared with what a handler may take.
func TestDoctorOnHandlers(t *testing.T) {
	t.Parallel()
	at := "sqlite:" + filepath.Join(t.TempDir(), "shop.db")
	start(t, nil, "migrate", "--store", at).expect(0)
	buckets := func(consumer, topic string, quick, slow int) string {
		labels := fmt.Sprintf(`consumer=%q,destination=%q,outcome="processed"`, consumer, topic)
		name := "skald_inbox_process_duration_seconds"
		return fmt.Sprintf("%s_bucket{%s,le=\"1\"} %d\n%s_bucket{%s,le=\"60\"} %d\n%s_bucket{%s,le=\"+Inf\"} %d\n%s_sum{%s} 1\n%s_count{%s} %d\n",
			name, labels, quick, name, labels, quick+slow, name, labels, quick+slow, name, labels, name,
			labels, quick+slow)
	}
	service := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/metrics" {
			http.NotFound(w, r)
			return
		}
		fmt.Fprint(w, "# TYPE skald_inbox_process_duration_seconds histogram\n"+buckets("billing", "orders",
			1000, 1)+buckets("stock", "orders", 90, 0)+buckets("stock", "payments", 0, 10))
	}))
	defer service.Close()
	url := service.URL + "/metrics"
	doctor(t, 0, map[string]string{"handlers/p99 of billing": "ok at most 1s",
		"handlers/p99 of stock": "warning at most 1m0s"}, "--store", at, "--metrics", url)
	doctor(t, 8, map[string]string{"handlers/p99 of billing": "ok",
		"handlers/p99 of stock": "failed the limit of a handler is 30s"}, "--store", at, "--metrics", url,
		"--handle", "30s")
	doctor(t, 0, map[string]string{"handlers/metrics": "warning this process has not handled a message yet"},
		"--store", at, "--metrics", url, "--consumer", "mail", "--accept", "consumer")
	doctor(t, 8, map[string]string{"handlers/metrics": "failed 404"}, "--store", at, "--metrics", service.URL)
}

// settingsOf is a URL of PostgreSQL's with settings.
func settingsOf(at string, settings ...string) string {
	sep := "?"
	if strings.Contains(at, "?") {
		sep = "&"
	}
	var options string
	for _, s := range settings {
		options += "-c " + s + " "
	}
	return at + sep + "options=" + strings.NewReplacer(" ", "%20", "=", "%3D").Replace(options)
}

func TestDoctorOnPostgres(t *testing.T) {
	t.Parallel()
	at, conn := postgres(t)
	doctor(t, 8, map[string]string{"store/tables": "failed skald migrate"}, "--store", at)
	start(t, nil, "migrate", "--store", at).expect(0)
	doctor(t, 0, map[string]string{"store/version": "ok PostgreSQL", "store/primary": "ok",
		"store/synchronous_commit": "ok", "store/clock": "ok", "store/rights of app": "ok",
		"store/rights of relay": "ok", "store/rings": "ok", "store/retention": "warning",
		"store/connections": "ok", "store/disk": "ok at 100 messages/s", "store/statement_timeout": "ok off",
		"store/round trip": "ok", "store/open transactions": "ok",
		"store/idle_in_transaction_session_timeout": "ok 1m0s", "store/idle_session_timeout": "ok off",
		"store/outbox": "ok 0 rows", "store/relay": "ok"}, "--store", at, "--rate", "100")
	doctor(t, 8, map[string]string{"store/connections": "failed 100000 are needed"}, "--store", at,
		"--connections", "100000")
	unsafe := settingsOf(at, "synchronous_commit=off", "statement_timeout=1000", "idle_session_timeout=60000")
	doctor(t, 8, map[string]string{"store/synchronous_commit": "failed off → ALTER ROLE"}, "--store", unsafe)
	start(t, nil, "doctor", "--store", unsafe, "--accept", "fsyncs").expect(2, "fsyncs")
	doctor(t, 0, map[string]string{"store/synchronous_commit": "warning off (accepted) → ALTER ROLE",
		"store/statement_timeout": "warning 1s", "store/idle_session_timeout": "warning 1m0s",
		"store/rate": "warning instances"},
		"--rate", "1e9", "--store", unsafe, "--accept", "synchronous_commit")
	start(t, nil, "maintain", "--store", at, "--reason", "test").expect(0)
	do(t, conn,
		`UPDATE skald_retention_run SET ran_at = ran_at - interval '2 hours', keep = interval '100 days'`)
	doctor(t, 8, map[string]string{"store/retention": "failed last ran",
		"store/rings": "failed --outbox-slots", "window/marks": "ok kept 100 days: longer"},
		"--store", at)
	do(t, conn,
		`INSERT INTO skald_quarantine (consumer, source, id, fingerprint, cause, topic, type, message) VALUES ('billing', 's', 'i', 1, -1, 't', 't', '{}')`)
	doctor(t, 8, map[string]string{"store/kept for billing": "warning 1 too old"}, "--store", at)
	role := "skald_doctor_" + strings.ToLower(rand.Text()[:8])
	do(t, conn, "CREATE ROLE "+role)
	t.Cleanup(func() {
		_, err := conn.Exec(context.Background(), "DROP OWNED BY "+role+"; DROP ROLE "+role,
			pgx.QueryExecModeSimpleProtocol)
		must(t, err)
	})
	as := settingsOf(at, "role="+role)
	doctor(t, 8, map[string]string{"store/rights": "failed missing right"}, "--store", as)
	p := start(t, nil, "roles", "app", "--name", "app="+role)
	p.expect(0)
	do(t, conn, p.out.String())
	doctor(t, 8, map[string]string{"store/rights of app": "ok", "store/rights of relay": "warning GRANT",
		"store/retention": "failed"}, "--store", as)
	doctor(t, 8, map[string]string{"store/connection": "failed check that the server runs"},
		"--store", "postgres://127.0.0.1:1/x")
}

// What at Kafka loses what was acknowledged, or is too small for what the outbox takes, is named by its
// setting.
func TestDoctorOnKafka(t *testing.T) {
	t.Parallel()
	at, _, adm := kafka(t)
	good, bad := "doctor."+strings.ToLower(rand.Text()[:8]), "doctor."+strings.ToLower(rand.Text()[:8])
	t.Cleanup(func() {
		_, err := adm.DeleteTopics(context.Background(), good, bad)
		must(t, err)
	})
	must(t, made(adm.CreateTopic(t.Context(), 1, 1, nil, good)))
	set := map[string]*string{"unclean.leader.election.enable": kadm.StringPtr("true"),
		"cleanup.policy": kadm.StringPtr("compact"), "max.message.bytes": kadm.StringPtr("100000")}
	must(t, made(adm.CreateTopic(t.Context(), 1, 1, set, bad)))
	doctor(t, 0, map[string]string{"broker/connection": "ok", "broker/acks": "ok all",
		"broker/topics": "ok " + good, "broker/replicas of " + good: "warning three replicas",
		"broker/unclean.leader.election.enable of " + good: "ok false", "broker/cleanup.policy of " +
			good: "ok delete",
		"window/marks": "warning 30 days is the default, since the database was not read → give --store"},
		"--broker", at, "--topic", good)
	doctor(t, 8, map[string]string{"broker/unclean.leader.election.enable of " + bad: "failed true",
		"broker/cleanup.policy of " + bad:    "warning compact",
		"broker/max.message.bytes of " + bad: "warning 100000", "window/topic " + bad: "warning forever"},
		"--broker", at, "--topic", bad)
	doctor(t, 8, map[string]string{"broker/topics": "failed no such topic"}, "--broker", at,
		"--topic", good+".missing")
}

func made(_ kadm.CreateTopicResponse, err error) error { return err }

func TestDoctorOnNATSAndRabbitMQ(t *testing.T) {
	t.Parallel()
	at := "nats://" + natsServer(t, t.TempDir(), 0).Addr().String()
	start(t, nil, "migrate", "--broker", at, "--topic", "orders").expect(0)
	doctor(t, 0, map[string]string{"broker/version": "ok NATS 2.", "broker/max_payload": "ok",
		"broker/sync_interval": "warning always", "broker/replicas of orders": "ok 1",
		"window/topic orders": "warning forever"}, "--broker", at, "--topic", "orders")
	doctor(t, 8, map[string]string{"broker/topics": "failed nowhere"}, "--broker", at, "--topic", "nowhere")
	rabbit := need.RabbitMQ(t)
	// on a new server nobody did
	start(t, nil, "migrate", "--broker", rabbit, "--topic", "doctored").expect(0)
	doctor(t, 0, map[string]string{"broker/version": "ok RabbitMQ",
		"broker/policies": "warning list_policies"}, "--broker", rabbit)
	doctor(t, 8, map[string]string{"broker/topics": "failed",
		"window/topic nowhere.here": "warning --broker-keeps"}, "--broker", rabbit, "--topic", "nowhere.here")
}

// On RabbitMQ a consumer without its queues has failed, whether the database or --consumer names it. A topic
// that no known consumer has queues for is a warning: clients cannot read bindings.
func TestDoctorOnQueuesOfRabbitMQ(t *testing.T) {
	t.Parallel()
	bus, name := need.RabbitMQ(t), "doctored."+strings.ToLower(rand.Text()[:10])
	group := name + ".g"
	t.Cleanup(func() {
		b, err := rabbitbroker.New(strings.TrimPrefix(bus, "amqp://"), nil)
		must(t, err)
		defer b.Close()
		ctx := context.Background()
		must(t, b.RemoveGroup(ctx, group, name))
		ids, err := b.Topics(ctx, name)
		must(t, err)
		must(t, b.RemoveTopics(ctx, ids))
	})
	path := filepath.Join(t.TempDir(), "shop.db")
	at := "sqlite:" + path
	start(t, nil, "migrate", "--store", at).expect(0)
	now := "CAST(unixepoch('subsec') * 1000 AS INTEGER)"
	exec1(t, path, fmt.Sprintf("INSERT INTO skald_consumer (consumer, heard_at, progress_at) VALUES ('%s', %s, %s)",
		group, now, now))
	exec1(t, path, fmt.Sprintf("INSERT INTO skald_handled_type (consumer, topic, type, at) VALUES ('%s', '%s', 'placed', %s)",
		group, name, now))
	migrate := []string{"migrate", "--broker", bus, "--topic", name, "--partitions", "2"}
	start(t, nil, migrate...).expect(0)
	of, unread := "broker/queues of "+group, "broker/queues of topic "+name
	second := rabbitbroker.Queue(group, name, 1)
	doctor(t, 0, map[string]string{"broker/topics": "ok", unread: "warning list_bindings"}, "--broker", bus,
		"--topic", name)
	doctor(t, 8, map[string]string{of: "failed " + second, unread: "warning --group"}, "--broker", bus,
		"--topic", name, "--consumer", group)
	doctor(t, 8, map[string]string{of: "failed --group " + group}, "--broker", bus, "--store", at)
	doctor(t, 0, map[string]string{of: "warning --topic"}, "--broker", bus, "--consumer", group)
	start(t, nil, append(migrate, "--group", group)...).expect(0)
	doctor(t, 0, map[string]string{of: "ok"}, "--broker", bus, "--store", at, "--topic", name)
	must(t, onRabbitMQ(t, bus, func(ch *amqp.Channel) error {
		_, err := ch.QueueDelete(second, false, false, false)
		return err
	}))
	doctor(t, 8, map[string]string{of: "failed " + second}, "--broker", bus, "--store", at)
	doctor(t, 8, map[string]string{"broker/queue": "failed " + name + ".none"}, "--broker",
		bus+"?queue="+name+".none")
}
