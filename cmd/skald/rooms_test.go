package main_test

import (
	"context"
	"crypto/rand"
	"fmt"
	"net/url"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/skald-go/skald/examples/shop/event"
)

// logins are names for the four roles, dropped at the end with all that they own.
func logins(t *testing.T, conn *pgx.Conn) map[string]string {
	t.Helper()
	out := map[string]string{}
	for _, role := range []string{"migrator", "app", "relay", "reader"} {
		name := "skald_" + role + "_" + strings.ToLower(rand.Text()[:12])
		out[role] = name
		t.Cleanup(func() {
			for _, sql := range []string{"DROP OWNED BY ", "DROP ROLE "} {
				if _, err := conn.Exec(context.Background(), sql+name); err != nil {
					t.Error(err)
				}
			}
		})
	}
	return out
}

// as is the URL at with another user.
func as(t *testing.T, at, user string) string {
	t.Helper()
	u, err := url.Parse(at)
	if err != nil {
		t.Fatal(err)
	}
	u.User = url.User(user)
	return u.String()
}

// Tables that the migrator made, in schemas with any name, written by the app and carried by one relay over
// two connections: each with the rights that `skald roles` prints and no more.
func TestRolesAndRooms(t *testing.T) {
	t.Parallel()
	at, conn := postgres(t)
	bus, prefix, adm := kafka(t)
	topic := event.New(prefix).Topics()[0]
	if _, err := adm.CreateTopic(t.Context(), 1, -1, nil, topic); err != nil {
		t.Fatal(err)
	}
	user := logins(t, conn)
	roles := func(args ...string) {
		t.Helper()
		for role, name := range user {
			args = append(args, "--name", role+"="+name)
		}
		p := start(t, nil, append([]string{"roles"}, args...)...)
		p.expect(0)
		do(t, conn, p.out.String())
	}
	schemas := []string{"a", "B.c", `it's "d" $1`}
	relay := []string{"relay", "--store", as(t, at, user["relay"]), "--broker", bus, "--connections", "2"}
	for _, schema := range schemas {
		roles("migrator", "--schema", schema)
		do(t, conn, "ALTER ROLE "+user["migrator"]+" LOGIN")
		start(t, nil, "migrate", "--store", as(t, at, user["migrator"]), "--schema", schema).expect(0)
		roles("app", "relay", "reader", "--schema", schema)
		roles("--schema", schema) // all, again
		relay = append(relay, "--schema", schema)
	}
	do(t, conn, "ALTER ROLE "+user["app"]+" LOGIN; ALTER ROLE "+user["relay"]+" LOGIN")

	const right = `TRUNCATE ON "B.c".skald_outbox_3`
	do(t, conn, "REVOKE "+right+" FROM "+user["relay"])
	alone := append(relay[:len(relay)-2*len(schemas):len(relay)-2*len(schemas)], "--schema", "B.c")
	start(t, nil, alone...).expect(3, "TRUNCATE on skald_outbox_3", "GRANT "+right+" TO "+user["relay"],
		"skald roles relay --schema B.c")

	// With others, it is served when the right is there; until then it is named, and nobody is told that all
	// is well.
	p := start(t, nil, append(relay, "--metrics", "127.0.0.1:0")...)
	p.until("relaying in the two others",
		func() bool { return strings.Count(p.errs.String(), "relaying") == 2 })
	p.until("the schema that lacks a right", func() bool {
		said := p.errs.String()
		return strings.Contains(said, "cannot be relayed") && strings.Contains(said, "schema=B.c") &&
			strings.Contains(said, "GRANT ")
	})
	base := metricsOf(p)
	if code, body := get(t, base+"/readyz"); code != 503 || !strings.Contains(body, "schema B.c: ") ||
		strings.Contains(body, "schema a: ") {
		t.Errorf("/readyz answers %d: %s", code, body)
	}
	if code, body := get(t, base+"/livez"); code != 200 {
		t.Errorf("/livez answers %d: %s", code, body)
	}
	do(t, conn, "GRANT "+right+" TO "+user["relay"])
	writer, err := pgx.Connect(t.Context(), as(t, at, user["app"]))
	if err != nil {
		t.Fatal(err)
	}
	const n = 50
	for _, schema := range schemas {
		do(t, writer,
			fmt.Sprintf(`INSERT INTO %s.skald_outbox (topic, key, type, data) SELECT '%s', 'k', 'x', i::text FROM generate_series(1, %d) AS i`,
				pgx.Identifier{schema}.Sanitize(), topic, n))
	}
	_ = writer.Close(t.Context())
	cl, err := kgo.NewClient(kgo.SeedBrokers(strings.TrimPrefix(bus, "kafka://")), kgo.ConsumeTopics(topic),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
	if err != nil {
		t.Fatal(err)
	}
	defer cl.Close()
	heard, ids := map[string]int{}, map[string]bool{}
	hear := func(want int) { // until that many different messages have come
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
		defer cancel()
		for len(ids) < want && ctx.Err() == nil {
			cl.PollFetches(ctx).EachRecord(func(r *kgo.Record) {
				head := map[string]string{}
				for _, h := range r.Headers {
					head[h.Key] = string(h.Value)
				}
				if !ids[head["ce_id"]] {
					ids[head["ce_id"]] = true
					heard[head["ce_source"]]++
				}
			})
			if c := count(conn, "SELECT count(*) FROM pg_stat_activity WHERE usename = '"+user["relay"]+
				"'"); c > 2 {
				t.Errorf("the relay has %d connections", c)
			}
		}
	}
	hear(n * len(schemas))
	for _, schema := range schemas {
		if source := "/" + conn.Config().Database + "/" + schema; heard[source] != n {
			t.Errorf("of schema %s came %d of %d", schema, heard[source], n)
		}
	}

	p.until("relaying in every schema",
		func() bool { return strings.Count(p.errs.String(), "relaying") == len(schemas) })
	p.until("that all is well", func() bool { code, _ := get(t, base+"/readyz"); return code == 200 })

	// A right that is taken away meanwhile stops nobody else; what was written comes when the right is there
	// again.
	do(t, conn, "REVOKE SELECT ON a.skald_outbox FROM "+user["relay"])
	do(t, conn, "INSERT INTO a.skald_outbox (topic, type) VALUES ('"+topic+"', 'late')")
	p.until("the schema that lost a right", func() bool {
		said := p.errs.String()
		return strings.Contains(said, "schema=a ") && strings.Contains(said, "skald roles --schema a")
	})
	do(t, conn, `INSERT INTO "B.c".skald_outbox (topic, type) VALUES ('`+topic+"', 'meanwhile')")
	hear(n*len(schemas) + 1)
	if heard["/"+conn.Config().Database+"/a"] != n {
		t.Error("a row came of the schema that lacks a right")
	}
	do(t, conn, "GRANT SELECT ON a.skald_outbox TO "+user["relay"])
	hear(n*len(schemas) + 2)
	if len(ids) != n*len(schemas)+2 {
		t.Error("what was written while a right was missing is lost")
	}
	p.until("relaying there again",
		func() bool { return strings.Count(p.errs.String(), "relaying") == len(schemas)+1 })
	// With none left it ends.
	do(t, conn, "REVOKE SELECT ON a.skald_outbox FROM "+user["relay"])
	do(t, conn, `REVOKE SELECT ON "B.c".skald_outbox FROM `+user["relay"])
	do(t, conn, `REVOKE SELECT ON "it's ""d"" $1".skald_outbox FROM `+user["relay"])
	do(t, conn, "INSERT INTO a.skald_outbox (topic, type) VALUES ('"+topic+"', 'last')")
	do(t, conn, `INSERT INTO "B.c".skald_outbox (topic, type) VALUES ('`+topic+"', 'last')")
	do(t, conn, `INSERT INTO "it's ""d"" $1".skald_outbox (topic, type) VALUES ('`+topic+"', 'last')")
	p.expect(3, "skald roles --schema")
	start(t, nil, relay...).expect(3, "skald roles relay --schema B.c")
	for _, schema := range schemas {
		do(t, conn, "GRANT SELECT ON "+pgx.Identifier{schema}.Sanitize()+".skald_outbox TO "+user["relay"])
	}
	p = start(t, nil, relay...)
	hear(n*len(schemas) + 5)
	p.signal(syscall.SIGTERM)
	p.expect(0, "stopping")

	bad := []string{"relay", "--store", at, "--broker", bus}
	one := append(bad, "--schema", schemas[0])
	p = start(t, []string{"SKALD_LISTEN=" + at},
		append(one, "--schema", schemas[1], "--schema", schemas[2])...)
	listening := func() int {
		return count(conn, "SELECT count(*) FROM pg_stat_activity WHERE query LIKE 'LISTEN skald_outbox%' AND datname = current_database()")
	}
	p.until("listening", func() bool { return listening() > 0 })
	p.until("relaying in every schema",
		func() bool { return strings.Count(p.errs.String(), "relaying") == len(schemas) })
	if n := listening(); n != 1 {
		t.Errorf("it listens over %d connections", n)
	}
	p.signal(syscall.SIGTERM)
	p.expect(0, "stopping")
	start(t, nil, append(one, "--listen", "postgres://h:port/x")...).expect(2, "listen")
	start(t, nil, append(bad, "--connections", "1")...).expect(2, "--connections is 2 or more")
	start(t, nil, append(bad, "--schema", "a", "--schema", "a")...).expect(2, "twice")
	start(t, nil, append(bad, "--schema", "no", "--schema", "none")...).expect(4, "none", "skald migrate")
	start(t, nil, "relay", "--store", "sqlite:x.db", "--broker", bus, "--schema", "a").expect(2, "PostgreSQL")
	start(t, nil, "roles", "owner").expect(2, "migrator, app, relay, reader")
	start(t, nil, "roles", "--name", "app").expect(2, "ROLE=NAME")
}
