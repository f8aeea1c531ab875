package main_test

import (
	"context"
	wire "encoding/binary"
	"strings"
	"syscall"
	"testing"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgproto3"
)

// Positions follow a slot that somebody else reads, and the doctor, the metrics and the log say whether they
// can.
func TestRelayReadBy(t *testing.T) {
	t.Parallel()
	at, conn := postgres(t)
	bus, _, _ := kafka(t)
	env := []string{"SKALD_STORE=" + at, "SKALD_BROKER=" + bus}
	start(t, env, "migrate").expect(0)
	t.Cleanup(func() { dropSlots(t, conn) })
	slot := conn.Config().Database
	r := start(t, env, "relay", "--read-by", slot, "--metrics", "127.0.0.1:0")
	said := func(what string) {
		t.Helper()
		r.until(what, func() bool { return strings.Contains(r.errs.String(), what) })
	}
	deaf := func(want string) {
		t.Helper()
		url := metricsOf(r) + "/metrics"
		r.until("metrics", func() bool {
			_, has := get(t, url)
			_, after, _ := strings.Cut(has, "skald_outbox_relay_deaf{")
			labels, _, _ := strings.Cut(after, "\n")
			return strings.HasSuffix(labels, "} "+want)
		})
	}
	said("there is no slot " + slot)
	deaf("1")

	p := start(t, env, "debezium", "config")
	p.expect(0, "CREATE PUBLICATION")
	_, statement, _ := strings.Cut(p.errs.String(), "first run\n")
	do(t, conn, statement)
	do(t, conn, "SELECT pg_create_logical_replication_slot('"+slot+"', 'pgoutput')")
	said("positions follow the slot")
	deaf("0")
	// From here the slot is known again by whose it is, once the relay has looked: only then is it confirmed,
	// which moves it.
	reader := readSlot(t, at, slot)
	const newest = "SELECT coalesce(max(id), 0) FROM skald_snapshot"
	before := count(conn, newest)
	do(t, conn, "INSERT INTO skald_outbox (topic, key, type, data) VALUES ('orders', 'k', 'x', '{}')")
	r.until("a look behind the row", func() bool { return count(conn, newest) > before })
	if n := count(conn, "SELECT pending FROM skald_backlog"); n != 1 {
		t.Errorf("%d rows are pending before the slot was read", n)
	}
	r.until("what was read", func() bool {
		confirm(t, reader, count(conn, "SELECT pg_wal_lsn_diff(pg_current_wal_flush_lsn(), '0/0')::bigint"))
		return count(conn, "SELECT pending FROM skald_backlog") == 0
	})
	doctor(t, 0, map[string]string{"store/read by": "ok positions follow slot " + slot}, "--store", at)

	must(t, reader.Close(t.Context()))
	dropSlots(t, conn)
	deaf("1")
	doctor(t, 8, map[string]string{"store/read by": "failed there is no slot " + slot}, "--store", at)
	r.signal(syscall.SIGTERM)
	r.expect(0)
}

// readSlot begins to read a slot, as Debezium does.
func readSlot(t *testing.T, at, slot string) *pgconn.PgConn {
	t.Helper()
	conn, err := pgconn.Connect(t.Context(), at+"&replication=database")
	must(t, err)
	t.Cleanup(func() { _ = conn.Close(context.Background()) })
	conn.Frontend().Send(&pgproto3.Query{String: "START_REPLICATION SLOT " + slot +
		` LOGICAL 0/0 ("proto_version" '1', "publication_names" 'skald_debezium')`})
	must(t, conn.Frontend().Flush())
	for {
		m, err := conn.ReceiveMessage(t.Context())
		must(t, err)
		if _, begun := m.(*pgproto3.CopyBothResponse); begun {
			return conn
		}
	}
}

// confirm says that all before a place was read.
func confirm(t *testing.T, conn *pgconn.PgConn, place int) {
	t.Helper()
	status := []byte{'r'}
	for range 3 { // written, flushed, applied
		status = wire.BigEndian.AppendUint64(status, uint64(place))
	}
	conn.Frontend().Send(&pgproto3.CopyData{Data: append(status, make([]byte, 9)...)})
	must(t, conn.Frontend().Flush())
}

// What it is not for is said before anything is asked.
func TestRelayReadByUsage(t *testing.T) {
	t.Parallel()
	env := []string{"SKALD_STORE=postgres://db.example/orders", "SKALD_BROKER=kafka://kafka.example:9092"}
	for want, args := range map[string][]string{
		"--trust-slot are for --read-by": {"--publication", "p"},
		"cannot be combined with --wal":  {"--read-by", "s", "--wal"},
		"one schema":                     {"--read-by", "s", "--schema", "a", "--schema", "b"},
		"cannot be a slot's name":        {"--read-by", "An Outbox"},
		"not for --table":                {"--read-by", "s", "--table", "x.json"},
		"for PostgreSQL":                 {"--read-by", "s", "--store", "sqlite:x.db"},
	} {
		start(t, env, append([]string{"relay"}, args...)...).expect(2, want)
	}
}
