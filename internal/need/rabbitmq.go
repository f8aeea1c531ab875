package need

import (
	"os/exec"
	"strings"
	"testing"
)

// RabbitMQCtl is the program that governs the server of RabbitMQ; it returns what it printed.
func RabbitMQCtl(t testing.TB) func(args ...string) string {
	t.Helper()
	program := from(t, "SKALD_TEST_RABBITMQ_CTL", "RabbitMQ that scripts/services started", "rabbitmq")
	return func(args ...string) string {
		t.Helper()
		out, err := exec.Command("sh", append([]string{"-c", program + ` "$@"`, "sh"}, args...)...).CombinedOutput()
		if err != nil {
			t.Fatalf("rabbitmqctl %s: %v: %s", strings.Join(args, " "), err, out)
		}
		return string(out)
	}
}
