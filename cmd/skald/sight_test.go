package main_test

import (
	"io"
	"net/http"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
)

// get is the answer to a request, 0 where there is none.
func get(t *testing.T, url string) (code int, body string) {
	t.Helper()
	r, err := http.Get(url)
	if err != nil {
		return 0, ""
	}
	defer r.Body.Close()
	b, err := io.ReadAll(r.Body)
	if err != nil {
		t.Fatal(err)
	}
	return r.StatusCode, string(b)
}

// metricsOf is where the relay serves them.
func metricsOf(p *program) (base string) {
	p.t.Helper()
	at := regexp.MustCompile(`at=(http://\S+)/metrics`)
	p.until("the address of its metrics", func() bool {
		if m := at.FindStringSubmatch(p.errs.String()); m != nil {
			base = m[1]
		}
		return base != ""
	})
	return base
}

// A relay whose broker is away lives, is not ready and says why; and it tells how much waits.
func TestRelayTellsLiveFromReady(t *testing.T) {
	at := "sqlite:" + filepath.Join(t.TempDir(), "order.db")
	start(t, nil, "migrate", "--store", at, "--source", "/order").expect(0)
	r := start(t, nil, "relay", "--store", at, "--broker", "kafka://127.0.0.1:1", "--metrics", "127.0.0.1:0")
	base := metricsOf(r)
	r.until("the backlog", func() bool {
		_, text := get(t, base+"/metrics")
		return strings.Contains(text, `skald_outbox_shard_free{source="/order"} 0`) &&
			strings.Contains(text, `skald_outbox_message_pending{source="/order"} 0`)
	})
	_, text := get(t, base+"/metrics")
	for _, series := range []string{"go_goroutines ", "process_open_fds ", "process_start_time_seconds ",
		"skald_build_info{", "skald_outbox_relay_ready{", "skald_outbox_relay_progress_age_seconds{"} {
		if !strings.Contains(text, "\n"+series) {
			t.Errorf("/metrics has no %s", series)
		}
	}
	if code, body := get(t, base+"/livez"); code != http.StatusOK {
		t.Errorf("livez: %d %s", code, body)
	}
	if code, body := get(t, base+"/readyz"); code != http.StatusServiceUnavailable || len(body) < 5 {
		t.Errorf("readyz: %d %q", code, body)
	}
	r.signal(syscall.SIGTERM)
	r.expect(0)
}

// A relay that waits for its database lives too.
func TestRelayLivesBeforeItsDatabaseDoes(t *testing.T) {
	r := start(t, nil, "relay", "--store", "postgres://127.0.0.1:1/order", "--broker", "kafka://127.0.0.1:1",
		"--metrics", "127.0.0.1:0")
	base := metricsOf(r)
	if code, body := get(t, base+"/livez"); code != http.StatusOK {
		t.Errorf("livez: %d %s", code, body)
	}
	if code, body := get(t, base+"/readyz"); code != http.StatusServiceUnavailable ||
		!strings.Contains(body, "database") {
		t.Errorf("readyz: %d %q", code, body)
	}
	r.signal(syscall.SIGTERM)
	r.expect(0)
}

func TestMetricsAddressIsTaken(t *testing.T) {
	start(t, nil, "relay", "--store", "sqlite:x.db", "--broker", "kafka://127.0.0.1:1", "--metrics",
		"nowhere:x").expect(2, "--metrics")
}
