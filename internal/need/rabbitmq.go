package need

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// RabbitMQCtl returns a function that runs rabbitmqctl and returns its output.
func RabbitMQCtl(t testing.TB) func(args ...string) string {
	t.Helper()
	return control(t, envOrSkip(t, "SKALD_TEST_RABBITMQ_CTL", "RabbitMQ that scripts/services started",
		"rabbitmq"))
}

// control returns a function that runs the command program with arguments and returns its output.
func control(t testing.TB, program string) func(args ...string) string {
	return func(args ...string) string {
		t.Helper()
		out, err := exec.Command("sh", append([]string{"-c", program + ` "$@"`, "sh"},
			args...)...).CombinedOutput()
		if err != nil {
			t.Fatalf("rabbitmqctl %s: %v: %s", strings.Join(args, " "), err, out)
		}
		return string(out)
	}
}

// SecureRabbitMQ returns the URL of the RabbitMQ listener that requires client certificates,
// amqps://host:port. certs is a folder with ca.pem, client.crt and client.key.
func SecureRabbitMQ(t testing.TB) (url, certs string) {
	t.Helper()
	RabbitMQ(t)
	return envOrSkip(t, "SKALD_TEST_RABBITMQ_TLS", "RabbitMQ with a TLS listener", "rabbitmq"),
		envOrSkip(t, "SKALD_TEST_RABBITMQ_CERTS", "RabbitMQ with a TLS listener", "rabbitmq")
}

// OwnRabbitMQ starts a private RabbitMQ server. It returns the URL, and a function that kills the server and
// restarts it with the same data.
func OwnRabbitMQ(t testing.TB) (url string, restart func()) {
	t.Helper()
	RabbitMQ(t) // skips the test without the shared server, because then the program may not be installed
	at, err := filepath.Abs(".")
	for err == nil && at != "/" {
		if _, err := os.Stat(filepath.Join(at, "scripts", "services")); err == nil {
			break
		}
		at = filepath.Dir(at)
	}
	dir, err := os.MkdirTemp("", "skald-rabbitmq-")
	if err != nil {
		t.Fatal(err)
	}
	do := func(args ...string) string {
		t.Helper()
		cmd := exec.Command(filepath.Join(at, "scripts", "services"), args...)
		for _, v := range os.Environ() {
			if !strings.HasPrefix(v, "SKALD_TEST_RABBITMQ") {
				cmd.Env = append(cmd.Env, v)
			}
		}
		cmd.Env = append(cmd.Env, "SKALD_SERVICES_DIR="+dir, "SKALD_TEST_POSTGRES=-", "SKALD_TEST_KAFKA=-")
		var said strings.Builder
		cmd.Stderr = &said
		out, err := cmd.Output()
		if err != nil {
			t.Fatalf("scripts/services %s: %v: %s", strings.Join(args, " "), err, &said)
		}
		return string(out)
	}
	t.Cleanup(func() {
		do("down", "rabbitmq")
		_ = os.RemoveAll(dir)
	})
	do("up", "rabbitmq")
	ctl := ""
	for _, line := range strings.Split(do("env"), "\n") {
		if v, ok := strings.CutPrefix(line, "export SKALD_TEST_RABBITMQ='"); ok {
			url = strings.TrimSuffix(v, "'")
		}
		if v, ok := strings.CutPrefix(line, "export SKALD_TEST_RABBITMQ_CTL='"); ok {
			ctl = strings.TrimSuffix(v, "'")
		}
	}
	return url, func() {
		t.Helper()
		// RabbitMQ 3.10 writes its list of queues late. Without this call, a crash may lose a queue that was
		// declared just before.
		control(t, ctl)("eval", "[dets:sync(T) || T <- dets:all()].")
		do("restart", "rabbitmq")
	}
}
