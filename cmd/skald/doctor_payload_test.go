package main_test

import (
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"path/filepath"
	"testing"

	"github.com/skald-go/skald/schema"
)

// outboxRow is an INSERT of a row, in PostgreSQL or SQLite. An id of 0 is no schema.
func outboxRow(bytea, topic, contentType string, data []byte, id byte) string {
	headers := "NULL"
	if id > 0 {
		headers = fmt.Sprintf(`'[["%s","%s"]]'`, schema.Header,
			base64.StdEncoding.EncodeToString([]byte{0, 0, 0, 0, id}))
	}
	column, value := "data", "'"+string(data)+"'"
	if contentType != "application/json" {
		column, value = "data_bytes", fmt.Sprintf(bytea, hex.EncodeToString(data))
	}
	return fmt.Sprintf("INSERT INTO skald_outbox (topic, key, type, content_type, %s, headers) VALUES ('%s', 'k', 'payment.processed', '%s', %s, %s)",
		column, topic, contentType, value, headers)
}

// What goes out is looked at: an event with payloads of two kinds on their way is a warning. One whose
// payload is not what it is said to be has failed: by its content type, by the schema that it names and the
// database keeps, or by the schema that the program declares.
func TestDoctorOnPayloads(t *testing.T) {
	t.Parallel()
	lock := filepath.Join(t.TempDir(), "schemas.json")
	lockOf(t, lock, "")
	newer := filepath.Join(t.TempDir(), "newer.json")
	lockOf(t, newer, `,{"name":"method","type":"string"}`)
	file := filepath.Join(t.TempDir(), "shop.db")
	for name, at := range map[string]string{"SQLite": "sqlite:" + file, "PostgreSQL": ""} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			bytea, now, run := "x'%s'", "0", func(sql string) { exec1(t, file, sql) }
			if at == "" {
				db, conn := postgres(t)
				at, bytea, now, run = db, `'\x%s'`, "now()", func(sql string) { do(t, conn, sql) }
			}
			start(t, nil, "migrate", "--store", at).expect(0)
			doctor(t, 0, map[string]string{"store/payloads": "ok 0 rows"}, "--store", at)
			row := func(topic, contentType string, data []byte, id byte) {
				run(outboxRow(bytea, topic, contentType, data, id))
			}
			examined := func(code int, want map[string]string, args ...string) {
				t.Helper()
				run("UPDATE skald_outbox SET time = CURRENT_TIMESTAMP") // so that "outbox" says nothing
				doctor(t, code, want, append([]string{"--store", at, "--accept", "relay"}, args...)...)
			}
			record, _ := json.Marshal(schema.Schema{Format: schema.Avro,
				Text: `{"type":"record","name":"Payment","fields":[{"name":"id","type":"string"}]}`})
			run(
				fmt.Sprintf("INSERT INTO skald_payload_schema (registry, id, definition, at) VALUES ('', '7', '%s', %s)", record, now))
			const avro = "application/avro"
			row("payments", avro, []byte("\x04o1"), 7)
			row("payments", avro, []byte("\x04o2"), 7)
			examined(0, map[string]string{"store/payloads": "ok 2 rows"}, "--lock", lock)
			examined(8,
				map[string]string{
					"store/payloads of payments payment.processed": "failed the schema that the program declares does not read schema 7: method: reader field has no default"}, "--lock", newer)

			// The next build says it in JSON.
			row("payments", "application/json", []byte(`{"id":"o3"}`), 0)
			examined(0,
				map[string]string{
					"store/payloads of payments payment.processed": "warning of 3 rows: 2 application/avro, 1 application/json; " +
						"of the newest 3 rows, 2 name a schema and 1 do not → during a rollout"})
			examined(8,
				map[string]string{
					"store/payloads of payments payment.processed": "failed 1 of the newest 3 cannot be read, first"}, "--lock", lock)

			// It says JSON and is none; a schema says more than the payload has; its id is broken.
			row("orders", "application/json", []byte("o1"), 0)
			row("orders", "application/json; charset=utf-8", []byte(`{"a": 1}`), 0)
			row("bills", "application/octet-stream", []byte("\x00\x00\x00\x00\x07\x04o1and more"), 0)
			examined(8,
				map[string]string{
					"store/payloads of orders payment.processed":   "failed and it is not JSON → find its writer",
					"store/payloads of bills payment.processed":    "failed bytes follow the value",
					"store/payloads of payments payment.processed": "warning"})
		})
	}
	p := start(t, nil, "doctor", "--broker", "nats://127.0.0.1:1", "--lock", lock)
	p.expect(2, "--lock need the database")
	start(t, nil, "doctor", "--store", "sqlite:"+file, "--lock", filepath.Join(t.TempDir(), "none")).expect(4)
}
