package main_test

import (
	"regexp"
	"strings"
	"syscall"
	"testing"
)

// Debezium alone reads, under writers that never pause. Positions follow its slot: rows go when they are old,
// none before it is on the topic, and no alarm has a reason.
func TestDebeziumEmpties(t *testing.T) {
	t.Parallel()
	b := connectBed(t, 3, "orders")
	at, conn, bus, topic := b.at, b.conn, b.bus, b.prefix+".orders"
	t.Cleanup(func() { dropSlots(t, conn) })
	slot := conn.Config().Database
	c := connector(t, conn, at, "--name", "e_"+slot, "--slot", slot, "--publication", "emptied",
		"--payload", "bytes")
	do(t, conn, "SELECT pg_create_logical_replication_slot('"+slot+"', 'pgoutput')")
	read := readTopic(t, bus, b.prefix, topic)

	r := start(t, []string{"SKALD_STORE=" + at}, "relay", "--read-by", slot, "--publication", "emptied",
		"--broker", b.url, "--metrics", "127.0.0.1:0")
	r.until("slot", func() bool { return strings.Contains(r.errs.String(), "positions follow the slot") })
	w := writeSteadily(t, at, strings.NewReplacer("data)", "data_bytes, slot)", "::text",
		"::text::bytea, (floor(extract(epoch FROM now()) / 86400)::integer - 8) % 10").Replace(
		insertSteadily), topic)
	const old = "SELECT count(*) FROM skald_outbox WHERE slot = (floor(extract(epoch FROM now()) / 86400)::integer - 8) % 10"
	eventually(t, "rows", func() bool { return w.last.Load() > 1000 })
	start(t, []string{"SKALD_STORE=" + at}, "maintain", "--reason", "old rows").expect(0)
	if n := count(conn, old); n == 0 {
		t.Error("rows are gone before Debezium has read them")
	}
	runConnect(t, b.jars, b.seeds, c)
	eventually(t, "positions that move",
		func() bool { return count(conn, "SELECT count(*) FROM skald_shard WHERE base <> ''") > 0 })
	stopped := w.last.Load()
	eventually(t, "Debezium", func() bool { return read.newest() > stopped })

	rows := w.end() // and from here on nobody writes
	eventually(t, "the last rows", func() bool { return read.distinct() == rows })
	eventually(t, "the last positions",
		func() bool { return count(conn, "SELECT pending FROM skald_backlog") == 0 })
	start(t, []string{"SKALD_STORE=" + at}, "maintain", "--reason", "old rows").expect(0)
	if n := count(conn, old); n != 0 {
		t.Errorf("%d old rows are left", n)
	}
	for _, what := range read.inverted() {
		t.Error(what)
	}
	metrics := metricsOf(r) + "/metrics"
	eventually(t, "alarms that have no reason", func() bool {
		_, said := get(t, metrics)
		for _, name := range []string{"skald_outbox_relay_deaf", "skald_outbox_shard_free",
			"skald_outbox_message_oldest_age_seconds"} {
			if !regexp.MustCompile(`(?m)^` + name + `\{.*\} 0$`).MatchString(said) {
				return false
			}
		}
		return true
	})
	doctor(t, 0, map[string]string{"store/read by": "ok positions follow slot " + slot}, "--store", at)
	r.signal(syscall.SIGTERM)
	r.expect(0)
	t.Logf("%d rows, %d messages", rows, read.messages())
}
