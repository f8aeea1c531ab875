// Package need gives tests the real servers that they ask for, or skips them with the reason.
package need

import (
	"os"
	"testing"
)

// Postgres is the URL of a PostgreSQL server on which the test may make databases.
func Postgres(t testing.TB) string {
	t.Helper()
	return from(t, "SKALD_TEST_POSTGRES", "PostgreSQL")
}

// Kafka is the host:port of an Apache Kafka broker on which the test may make topics.
func Kafka(t testing.TB) string {
	t.Helper()
	return from(t, "SKALD_TEST_KAFKA", "Kafka")
}

func from(t testing.TB, name, server string) string {
	t.Helper()
	if at := os.Getenv(name); at != "" {
		return at
	}
	why := "needs a real " + server + ": run scripts/services up and eval \"$(scripts/services env)\", or set " + name
	if os.Getenv("SKALD_TEST_REQUIRE") == "1" {
		t.Fatal(why)
	}
	t.Skip(why)
	return ""
}
