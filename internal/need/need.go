// Package need returns the addresses of real servers for tests. If a server is missing, it skips the test
// with the reason, or fails it if SKALD_TEST_REQUIRE is 1. The package also has helpers that start private
// servers, and a proxy that disturbs connections.
package need

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"
	"time"
)

// Postgres returns the URL of a PostgreSQL server on which the test may create databases.
func Postgres(t testing.TB) string {
	t.Helper()
	return envOrSkip(t, "SKALD_TEST_POSTGRES", "PostgreSQL", "")
}

// newest is the major version of PostgreSQL that SKALD_TEST_REQUIRE requires. Other versions are optional.
const newest = "18"

// PostgresVersion returns the URL of a PostgreSQL server of a major version. The test may create databases
// there.
func PostgresVersion(t testing.TB, major string) string {
	t.Helper()
	if major != newest && os.Getenv("SKALD_TEST_POSTGRES_"+major) == "" {
		t.Skipf("PostgreSQL %s: run scripts/services up postgres%s, or set SKALD_TEST_POSTGRES_%s", major,
			major, major)
	}
	return envOrSkip(t, "SKALD_TEST_POSTGRES_"+major, "PostgreSQL "+major, "postgres"+major)
}

// PgBouncer returns the URL of a pooler in transaction mode in front of the server that Postgres returns. The
// URL has a query.
func PgBouncer(t testing.TB) string {
	t.Helper()
	Postgres(t)
	return envOrSkip(t, "SKALD_TEST_PGBOUNCER", "PgBouncer", "pgbouncer")
}

// Kafka returns the host:port of an Apache Kafka broker on which the test may create topics.
func Kafka(t testing.TB) string {
	t.Helper()
	return envOrSkip(t, "SKALD_TEST_KAFKA", "Kafka", "")
}

// RabbitMQ returns the URL of a RabbitMQ, amqp://host:port, on which the user guest may create exchanges
// and queues.
func RabbitMQ(t testing.TB) string {
	t.Helper()
	return envOrSkip(t, "SKALD_TEST_RABBITMQ", "RabbitMQ", "rabbitmq")
}

// NATS returns the URL of a NATS with JetStream, nats://host:port, on which the test may create streams.
func NATS(t testing.TB) string {
	t.Helper()
	return envOrSkip(t, "SKALD_TEST_NATS", "NATS", "nats")
}

// Redis returns the URL of a Redis, redis://host:port. Tests share it, so use a unique key prefix.
func Redis(t testing.TB) string {
	t.Helper()
	return envOrSkip(t, "SKALD_TEST_REDIS", "Redis", "redis")
}

// OwnRedis starts a private Redis with these options. The test may pause, flush and kill it. The end of the
// test stops it.
func OwnRedis(t testing.TB, options ...string) (url string, server *os.Process) {
	t.Helper()
	program, err := exec.LookPath("redis-server")
	if err != nil {
		skipOrFail(t, "needs Redis's program to start a server of its own: put redis-server into PATH")
	}
	port := FreePort(t)
	cmd := exec.Command(program, append([]string{"--bind", "127.0.0.1", "--port", strconv.Itoa(port),
		"--save", "", "--dir", t.TempDir()}, options...)...)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	for end := time.Now().Add(time.Minute); ; {
		c, err := net.Dial("tcp", fmt.Sprintf("127.0.0.1:%d", port))
		if err == nil {
			_ = c.Close()
			return fmt.Sprintf("redis://127.0.0.1:%d", port), cmd.Process
		}
		if time.Now().After(end) {
			t.Fatalf("redis-server does not answer: %v", err)
		}
		time.Sleep(5 * time.Millisecond)
	}
}

// JDBC returns the path of the jar of PostgreSQL's driver for Java. The test may assume that a JDK is
// installed, too.
func JDBC(t testing.TB) string {
	t.Helper()
	return envOrSkip(t, "SKALD_TEST_JDBC", "PostgreSQL driver for Java", "jdbc")
}

// Node returns a folder with pg, a PostgreSQL client for JavaScript and TypeScript, in node_modules. The test
// may assume that node is installed, too. SKALD_TEST_REQUIRE does not require it.
func Node(t testing.TB) string {
	t.Helper()
	at := os.Getenv("SKALD_TEST_NODE")
	if at == "" {
		t.Skip("Node.js: run make connectors, or scripts/services up node and eval \"$(scripts/services env)\", or set SKALD_TEST_NODE")
	}
	return at
}

// Debezium returns a folder with the jars of Kafka Connect and of Debezium's connector for PostgreSQL. Such
// tests use most of a core, so only make connectors runs them.
func Debezium(t testing.TB) string {
	t.Helper()
	at := os.Getenv("SKALD_TEST_DEBEZIUM")
	if at == "" || os.Getenv("SKALD_TEST_CONNECTORS") != "1" {
		t.Skip("Debezium: run make connectors, or set SKALD_TEST_DEBEZIUM and SKALD_TEST_CONNECTORS=1")
	}
	return at
}

// envOrSkip returns the environment variable name. If the variable is empty, it skips the test with the
// command that starts the server: scripts/services up with the argument service.
func envOrSkip(t testing.TB, name, server, service string) string {
	t.Helper()
	if at := os.Getenv(name); at != "" {
		return at
	}
	skipOrFail(t, "needs a real "+server+": run scripts/services "+strings.TrimSpace("up "+service)+
		" and eval \"$(scripts/services env)\", or set "+name)
	return ""
}

// skipOrFail skips the test with the reason. It fails the test instead if SKALD_TEST_REQUIRE is 1.
func skipOrFail(t testing.TB, reason string) {
	t.Helper()
	if os.Getenv("SKALD_TEST_REQUIRE") == "1" {
		t.Fatal(reason)
	}
	t.Skip(reason)
}

// Psql returns the path of psql, PostgreSQL's client.
func Psql(t testing.TB) string {
	t.Helper()
	at, err := exec.LookPath("psql")
	if err != nil {
		skipOrFail(t, "needs psql: install PostgreSQL's client")
	}
	return at
}
