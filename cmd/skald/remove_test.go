package main_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/skald-go/skald/examples/shop/event"
	"github.com/skald-go/skald/internal/need"
)

func missing(t testing.TB, path string) {
	t.Helper()
	if _, err := os.Stat(path); !os.IsNotExist(err) {
		t.Errorf("%s is still there: %v", path, entries(t, path))
	}
}

func TestDemoRemove(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "demo")
	start(t, nil, "demo", "remove").expect(2, "--dir")
	p := start(t, nil, "demo", "--orders", "10", "--dir", dir)
	p.expect(0)
	if !strings.Contains(p.out.String(), "skald demo remove --dir "+dir) {
		t.Errorf("it does not say how to remove what it made:\n%s", &p.out)
	}
	start(t, nil, "demo", "remove", "--dir", dir).expect(2, dir, "--yes")
	start(t, nil, "demo", "remove", "--dir", dir, "--broker", "kafka://127.0.0.1:1", "--yes").expect(6)
	start(t, nil, "demo", "--dir", dir).expect(0) // it is all there
	start(t, nil, "demo", "remove", "--dir", dir, "--yes").expect(0)
	missing(t, dir)
	p = start(t, nil, "demo", "remove", "--dir", dir, "--yes")
	p.expect(0)
	if !strings.Contains(p.out.String(), "nothing to remove") {
		t.Error(p.out.String())
	}
	missing(t, dir)
}

// What the demo did not make is not touched, and the demo beside it neither; another's file in the folder
// stays.
func TestDemoRemoveRefuses(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	start(t, nil, "demo", "--orders", "5", "--faults", "none", "--dir", dir).expect(0)
	for _, name := range []string{"payment.db", "gateway.db"} {
		exec1(t, filepath.Join(dir, name), "CREATE VIEW mine AS SELECT 1")
		start(t, nil, "demo", "remove", "--dir", dir, "--yes").expect(5, name, "mine")
		start(t, nil, "demo", "--dir", dir).expect(0)
		exec1(t, filepath.Join(dir, name), "DROP VIEW mine")
	}
	note := filepath.Join(dir, "note.txt")
	if err := os.WriteFile(note, []byte("mine"), 0o600); err != nil {
		t.Fatal(err)
	}
	p := start(t, nil, "demo", "remove", "--dir", dir, "--yes")
	p.expect(0)
	if names := entries(t, dir); len(names) != 1 || !strings.Contains(p.out.String(), "the folder stays") {
		t.Errorf("%v is left\n%s", names, &p.out)
	}
	start(t, nil, "demo", "remove", "--dir", dir, "--yes").expect(0)
	if names := entries(t, dir); len(names) != 1 {
		t.Errorf("%v is left", names)
	}

	foreign := t.TempDir()
	exec1(t, filepath.Join(foreign, "order.db"), "CREATE TABLE orders (mine)")
	start(t, nil, "demo", "remove", "--dir", foreign, "--yes").expect(5, "order.db")
	if n := number(t.Context(), filepath.Join(foreign, "order.db"),
		"SELECT count(*) FROM sqlite_schema"); n != 1 {
		t.Errorf("%d objects are left", n)
	}
	foreign = t.TempDir()
	exec1(t, filepath.Join(foreign, "gateway.db"), "CREATE TABLE mine (x)")
	start(t, nil, "demo", "--dir", foreign).expect(5, "gateway.db")
}

// A removal that was killed behind any of its steps is ended by the next. The steps are files that go, the
// last of them the lock's and the folder.
func TestDemoRemoveAfterKill(t *testing.T) {
	t.Parallel()
	order := []string{"mail.db", "gateway.db", "analytics.db", "notification.db", "fulfilment.db",
		"inventory.db", "payment.db", "order.db", "demo.lock"}
	made := t.TempDir()
	start(t, nil, "demo", "--orders", "5", "--faults", "none", "--dir", made).expect(0)
	for n := range len(order) + 1 {
		dir := filepath.Join(t.TempDir(), "demo")
		if err := os.CopyFS(dir, os.DirFS(made)); err != nil {
			t.Fatal(err)
		}
		for _, name := range order[:n] {
			if err := os.Remove(filepath.Join(dir, name)); err != nil {
				t.Fatal(err)
			}
		}
		start(t, nil, "demo", "remove", "--dir", dir, "--yes").expect(0)
		missing(t, dir)
	}
	for _, when := range []string{"claimed", "mails"} { // a demo that was killed is removed as well
		dir := filepath.Join(t.TempDir(), "demo")
		p := start(t, nil, "demo", "--orders", "5000", "--dir", dir)
		p.until(when, func() bool {
			return when == "claimed" && number(t.Context(), filepath.Join(dir, "order.db"),
				"SELECT count(*) FROM demo_run") == 1 ||
				number(t.Context(), filepath.Join(dir, "notification.db"), "SELECT count(*) FROM mails") > 5
		})
		if when == "mails" {
			start(t, nil, "demo", "remove", "--dir", dir, "--yes").expect(5, "another demo is running")
		}
		p.kill()
		start(t, nil, "demo", "remove", "--dir", dir, "--yes").expect(0)
		missing(t, dir)
	}
}

// left is how many relations and routines are in schemas of the prefix, and how many schemas.
func left(conn *pgx.Conn, prefix string) int {
	like := " n.nspname LIKE '" + prefix + "%'"
	return count(conn, "SELECT count(*) FROM pg_namespace AS n WHERE"+like) +
		count(conn,
			"SELECT count(*) FROM pg_class AS c JOIN pg_namespace AS n ON n.oid = c.relnamespace WHERE"+
				like) +
		count(conn,
			"SELECT count(*) FROM pg_proc AS p JOIN pg_namespace AS n ON n.oid = p.pronamespace WHERE"+like)
}

func TestDemoRemoveOnPostgresAndKafka(t *testing.T) {
	need.Nightly(t, "TestDemoRemoveOnNATS and TestDemoRemoveAfterKill stay")
	t.Parallel()
	at, conn := postgres(t)
	bus, prefix, adm := kafka(t)
	where := []string{"--store", at, "--broker", bus, "--prefix", prefix}
	demo := func(args ...string) *program {
		return start(t, nil, append(append([]string{"demo"}, args...), where...)...)
	}
	p := demo("--orders", "5000")
	p.until("mails",
		func() bool { return count(conn, "SELECT count(*) FROM "+prefix+"_notification.mails") > 5 })
	demo("remove", "--yes").expect(5, "another demo is running")
	p.kill() // its members are in their groups until their sessions end
	demo("remove").expect(2, prefix+"_order", prefix+"_gateway", prefix+".orders", "--yes")
	start(t, nil, "demo", "remove", "--store", at, "--prefix", prefix, "--yes").expect(5, "--broker")

	do(t, conn, fmt.Sprintf(`CREATE VIEW public.mine AS SELECT * FROM "%s_payment".accounts`, prefix))
	demo("remove", "--yes").expect(5, prefix+"_payment", "mine")
	do(t, conn, fmt.Sprintf(`DROP VIEW public.mine; CREATE TABLE "%s_order".mine (x int)`, prefix))
	demo("remove", "--yes").expect(5, prefix+"_order", "mine")
	do(t, conn, fmt.Sprintf(`DROP TABLE "%s_order".mine`, prefix))

	// A removal that was killed: a topic and a schema are gone.
	if _, err := adm.DeleteTopics(t.Context(), prefix+".orders"); err != nil {
		t.Fatal(err)
	}
	do(t, conn, fmt.Sprintf(`DROP SCHEMA "%s_analytics" CASCADE`, prefix))
	demo("remove", "--yes").expect(0)
	if n := left(conn, prefix); n != 0 {
		t.Errorf("%d objects are left", n)
	}
	topics, err := adm.ListTopics(t.Context(), event.New(prefix).Topics()...)
	if err != nil {
		t.Fatal(err)
	}
	for _, topic := range topics {
		if topic.Err == nil {
			t.Errorf("the topic %s is left", topic.Topic)
		}
	}
	all, err := adm.ListGroups(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, group := range all.Groups() {
		if strings.HasPrefix(group, prefix+".") {
			t.Errorf("the group %s is left", group)
		}
	}
	p = demo("remove", "--yes")
	p.expect(0)
	if !strings.Contains(p.out.String(), "nothing to remove") {
		t.Error(p.out.String())
	}

	demo("--orders", "20").expect(0) // it can be begun anew
	if _, err := adm.DeleteTopics(t.Context(), prefix+".payments"); err != nil {
		t.Fatal(err)
	}
	made, err := adm.CreateTopic(t.Context(), 1, -1, nil, prefix+".payments")
	if err != nil {
		t.Fatal(err)
	}
	for deadline := time.Now().Add(5 * time.Minute); ; { // Kafka answers before all of it knows
		known, err := adm.ListTopics(t.Context(), prefix+".payments")
		if err == nil && known[prefix+".payments"].ID == made.ID {
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("the topic made anew is not known: %v, %v", known, err)
		}
		<-time.After(10 * time.Millisecond)
	}
	demo("remove", "--yes").expect(5, prefix+".payments")
	if n := count(conn, "SELECT count(*) FROM "+prefix+"_order.orders"); n != 20 {
		t.Errorf("%d orders are left", n)
	}
}
