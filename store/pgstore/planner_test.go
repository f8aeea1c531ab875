package pgstore

import (
	"maps"
	"strings"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/skald-go/skald"
	"github.com/skald-go/skald/store"
)

// TestNoStatementIsCompiled checks a database or role that disables sequential scans: PostgreSQL then
// estimates a plan with one to be so expensive that it compiles it, for a third of a second each time.
// auto_explain shows that no statement of the store is compiled.
func TestNoStatementIsCompiled(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	if !one[bool](t, b, `SELECT pg_jit_available()`) {
		t.Skip("this PostgreSQL has no JIT")
	}
	config, err := pgxpool.ParseConfig(b.url)
	if err != nil {
		t.Fatal(err)
	}
	maps.Copy(config.ConnConfig.RuntimeParams, map[string]string{"application_name": b.name(),
		"session_preload_libraries": "auto_explain", "auto_explain.log_min_duration": "0",
		"auto_explain.log_level": "notice", "auto_explain.log_nested_statements": "on",
		"jit": "on", "enable_seqscan": "off"})
	var mu sync.Mutex
	var plans int
	var compiled []string
	config.ConnConfig.OnNotice = func(_ *pgconn.PgConn, n *pgconn.Notice) {
		mu.Lock()
		defer mu.Unlock()
		if plans++; strings.Contains(n.Message, "JIT:") {
			compiled = append(compiled, n.Message[:min(len(n.Message), 150)])
		}
	}
	pool, err := pgxpool.NewWithConfig(t.Context(), config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { go pool.Close() })
	s := New(pool, &Options{Schema: b.schema})
	everyPath(t, s)
	if _, err := s.Claim(t.Context(), store.ClaimRequest{Session: "s", Sagas: &store.SagaClaimRequest{Hashes: []string{"h"},
		Limit: 5}}); err != nil {
		t.Error(err)
	}
	if _, err := s.SyncConsumer(t.Context(), store.SyncRequest{Consumer: "c"}); err != nil {
		t.Error(err)
	}
	if _, err := s.Claim(t.Context(), store.ClaimRequest{Consumer: "c", Session: "s",
		ClaimSize: store.ClaimSize{Keys: 1}}); err != nil {
		t.Error(err)
	}
	mu.Lock()
	defer mu.Unlock()
	if plans < 20 || len(compiled) > 0 {
		t.Errorf("of %d plans %d were compiled, such as:\n%s", plans, len(compiled),
			strings.Join(compiled, "\n"))
	}
}

// TestDoctorNamesPlannerSettings checks that the doctor names settings of the database or role that lead to
// bad plans.
func TestDoctorNamesPlannerSettings(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		set   map[string]string
		grade skald.Grade
		words []string
	}{
		{nil, skald.Fine, []string{"default"}},
		{map[string]string{"enable_seqscan": "off", "enable_nestloop": "off", "jit_above_cost": "0"},
			skald.Doubtful, []string{"enable_nestloop = off", "enable_seqscan = off", "jit_above_cost = 0"}},
	} {
		b := newBed(t)
		b.defaults = c.set
		found, err := b.store(t).Examine(t.Context(), store.Exam{})
		if err != nil {
			t.Fatal(err)
		}
		seen := 0
		for _, f := range found {
			if f.Name != "planner" {
				continue
			}
			seen++
			for _, w := range c.words {
				if f.Grade != c.grade || !strings.Contains(f.Observed, w) {
					t.Errorf("with %v it is %+v, without %q", c.set, f, w)
				}
			}
		}
		if seen != 1 {
			t.Errorf("the planner is named %d times", seen)
		}
	}
}
