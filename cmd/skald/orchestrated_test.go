package main_test

import (
	"crypto/rand"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/skald-go/skald/internal/need"
)

// With a saga in place of choreography the same faults end in the same promises, each order is done or
// undone by one saga, and a demo that is killed goes on.
func TestDemoOrchestrated(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "demo")
	args := []string{"demo", "--style", "orchestrated", "--orders", "80", "--faults", "wild", "--json",
		"--dir", dir}
	p := start(t, nil, args...)
	p.until("sagas", func() bool {
		return number(t.Context(), filepath.Join(dir, "order.db"),
			"SELECT count(*) FROM skald_saga WHERE status = 'done'") > 10
	})
	p.kill()
	p = start(t, nil, args...)
	p.expect(0)
	p.orchestrated(80)
	if got := fields(t, []byte(p.out.String())); !slices.Contains(got, "sagas.started") ||
		!slices.Contains(got, "sagas.stuck") {
		t.Errorf("the fields are %s", got)
	}
	start(t, nil, "demo", "--style", "choreographed", "--dir", dir).expect(5, "--style orchestrated")
	start(t, nil, "demo", "--style", "danced").expect(2, "choreographed or orchestrated")
	start(t, nil, "demo", "--style", "orchestrated", "--sabotage", "no-mark").expect(2, "exclude each other")
	again := start(t, nil, "demo", "--dir", dir)
	again.expect(0)
	if !strings.Contains(again.out.String(), "sagas     80 started, ") {
		t.Errorf("told again:\n%s", &again.out)
	}
	for query, want := range map[string]int{
		"SELECT count(*) FROM skald_saga WHERE ended_at IS NULL": 0,
		"SELECT count(*) FROM orders o WHERE NOT EXISTS (SELECT 1 FROM skald_saga s WHERE s.key = o.id AND s.status = CASE o.state WHEN 'confirmed' THEN 'done' ELSE 'compensated' END)": 0,
	} {
		if n := number(t.Context(), filepath.Join(dir, "order.db"), query); n != want {
			t.Errorf("%s is %d", query, n)
		}
	}
}

// The same on servers.
func TestDemoOrchestratedOnServers(t *testing.T) {
	for name, bus := range map[string]func(t *testing.T) string{
		"kafka":    func(t *testing.T) string { return "kafka://" + need.Kafka(t) },
		"rabbitmq": func(t *testing.T) string { return need.RabbitMQ(t) },
		"nats":     func(t *testing.T) string { return need.NATS(t) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			at, _ := postgres(t)
			where := []string{"--store", at, "--broker", bus(t), "--prefix",
				"o" + strings.ToLower(rand.Text()[:10])}
			p := start(t, nil, append([]string{"demo", "--style", "orchestrated", "--orders", "12",
				"--faults", "wild", "--json"}, where...)...)
			p.expect(0)
			p.orchestrated(12)
			start(t, nil, append([]string{"demo", "remove", "--yes"}, where...)...).expect(0)
		})
	}
}

// orchestrated: each order has a saga that has ended as the order has.
func (p *program) orchestrated(orders int) {
	p.t.Helper()
	o := p.outcome()
	s := o.Sagas
	if !o.OK || s == nil || s.Started != orders || s.Done != o.Orders.Confirmed ||
		s.Compensated != o.Orders.Cancelled || s.Done+s.Compensated != orders || s.Stuck != 0 {
		p.t.Errorf("%s", &p.out)
	}
}
