package need

import "testing"

// Guarded has the listeners of a Kafka broker that require a login.
type Guarded struct {
	TLS, SASL, SASLTLS string // host:port each
	Certs              string // a folder with ca.pem, client.crt and client.key
}

// GuardedKafka returns the listeners of the broker that Kafka returns. Clients of the plain listener may
// create users and grant rights.
func GuardedKafka(t testing.TB) (plain string, g Guarded) {
	t.Helper()
	return Kafka(t), Guarded{
		TLS:     envOrSkip(t, "SKALD_TEST_KAFKA_TLS", "Kafka with a TLS listener", "kafka"),
		SASL:    envOrSkip(t, "SKALD_TEST_KAFKA_SASL", "Kafka with a SASL listener", "kafka"),
		SASLTLS: envOrSkip(t, "SKALD_TEST_KAFKA_SASL_TLS", "Kafka with a SASL listener over TLS", "kafka"),
		Certs:   envOrSkip(t, "SKALD_TEST_KAFKA_CERTS", "Kafka with a TLS listener", "kafka"),
	}
}

// Python returns the path of a Python interpreter with the packages confluent_kafka and psycopg.
func Python(t testing.TB) string {
	t.Helper()
	return envOrSkip(t, "SKALD_TEST_PYTHON", "Python with confluent-kafka and psycopg", "python")
}
