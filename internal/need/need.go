// Package need gives tests the real servers that they ask for, or skips them with the reason.
package need

import (
	"os"
	"os/exec"
	"strings"
	"testing"
)

// Postgres is the URL of a PostgreSQL server on which the test may make databases.
func Postgres(t testing.TB) string {
	t.Helper()
	return from(t, "SKALD_TEST_POSTGRES", "PostgreSQL", "")
}

// newest is the version that must be there where servers are required; those between are tested where they are given.
const newest = "18"

// PostgresVersion is the URL of a PostgreSQL server of that major version, as Postgres.
func PostgresVersion(t testing.TB, major string) string {
	t.Helper()
	if major != newest && os.Getenv("SKALD_TEST_POSTGRES_"+major) == "" {
		t.Skipf("PostgreSQL %s: run scripts/services up postgres%s, or set SKALD_TEST_POSTGRES_%s", major, major, major)
	}
	return from(t, "SKALD_TEST_POSTGRES_"+major, "PostgreSQL "+major, "postgres"+major)
}

// PgBouncer is the URL, with a query, of a pooler in transaction mode, in front of the server of Postgres.
func PgBouncer(t testing.TB) string {
	t.Helper()
	Postgres(t)
	return from(t, "SKALD_TEST_PGBOUNCER", "PgBouncer", "pgbouncer")
}

// Kafka is the host:port of an Apache Kafka broker on which the test may make topics.
func Kafka(t testing.TB) string {
	t.Helper()
	return from(t, "SKALD_TEST_KAFKA", "Kafka", "")
}

// RabbitMQ is the URL of a RabbitMQ, amqp://host:port, on which the test, as guest, may make exchanges and queues.
func RabbitMQ(t testing.TB) string {
	t.Helper()
	return from(t, "SKALD_TEST_RABBITMQ", "RabbitMQ", "rabbitmq")
}

// NATS is the URL of a NATS with JetStream, nats://host:port, on which the test may make streams.
func NATS(t testing.TB) string {
	t.Helper()
	return from(t, "SKALD_TEST_NATS", "NATS", "nats")
}

// JDBC is the jar of PostgreSQL's driver for Java; there is a JDK then, too.
func JDBC(t testing.TB) string {
	t.Helper()
	return from(t, "SKALD_TEST_JDBC", "PostgreSQL driver for Java", "jdbc")
}

// from reads a variable; up is what scripts/services has to be asked for by name.
func from(t testing.TB, name, server, up string) string {
	t.Helper()
	if at := os.Getenv(name); at != "" {
		return at
	}
	without(t, "needs a real "+server+": run scripts/services "+strings.TrimSpace("up "+up)+" and eval \"$(scripts/services env)\", or set "+name)
	return ""
}

// without skips the test and says why; where everything is required, it fails it.
func without(t testing.TB, why string) {
	t.Helper()
	if os.Getenv("SKALD_TEST_REQUIRE") == "1" {
		t.Fatal(why)
	}
	t.Skip(why)
}

// Psql is PostgreSQL's client.
func Psql(t testing.TB) string {
	t.Helper()
	at, err := exec.LookPath("psql")
	if err != nil {
		without(t, "needs psql: install PostgreSQL's client")
	}
	return at
}
