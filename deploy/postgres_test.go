package deploy

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/prometheus/client_golang/prometheus"
	otelprom "go.opentelemetry.io/otel/exporters/prometheus"
	"go.opentelemetry.io/otel/sdk/metric"

	"github.com/skald-go/skald"
	"github.com/skald-go/skald/internal/need"
	"github.com/skald-go/skald/internal/uuid7"
	"github.com/skald-go/skald/outbox"
	"github.com/skald-go/skald/store"
	"github.com/skald-go/skald/store/pgstore"
)

// A server is a schema of PostgreSQL, and a process that only watches it.
type server struct {
	*testing.T
	pool    *pgxpool.Pool
	schema  string
	db      *pgstore.Store
	shards  []store.Shard // a relay has all, for an hour
	metrics *prometheus.Registry
	now     time.Time // of the process: each scrape asks the database anew
	prom    *prom
}

func newServer(t *testing.T) *server {
	t.Helper()
	s := &server{T: t, schema: fmt.Sprintf("alerts%x", time.Now().UnixNano()),
		metrics: prometheus.NewRegistry(), now: time.Now(), prom: newProm(t)}
	var err error
	s.pool, err = pgxpool.New(t.Context(), need.Postgres(t))
	s.must(err)
	t.Cleanup(s.pool.Close)
	_, err = pgstore.Migrate(t.Context(), s.pool, &pgstore.MigrateOptions{Schema: s.schema, Source: "/shop"})
	s.must(err)
	t.Cleanup(func() { _, _ = s.pool.Exec(context.Background(), "DROP SCHEMA "+s.schema+" CASCADE") })
	s.db = pgstore.New(s.pool, &pgstore.Options{Schema: s.schema})
	s.lease(time.Hour)

	exporter, err := otelprom.New(otelprom.WithRegisterer(s.metrics), otelprom.WithoutScopeInfo(),
		otelprom.WithoutTargetInfo())
	s.must(err)
	meters := metric.NewMeterProvider(metric.WithReader(exporter))
	watch := outbox.NewWatch(s.db, &outbox.Options{MeterProvider: meters,
		Now: func() time.Time { return s.now }})
	ended := startRunner(t.Context(), watch)
	t.Cleanup(func() { <-ended })
	return s
}

func (s *server) must(err error) {
	s.Helper()
	if err != nil {
		s.Fatal(err)
	}
}

// lease has a relay hold all shards; it says what it carried, to the tip.
func (s *server) lease(ttl time.Duration) {
	s.Helper()
	base := ""
	got, err := s.db.Lease(s.Context(), store.LeaseRequest{Owner: "relay", Session: "1", TTL: ttl, SnapshotBase: &base})
	s.must(err)
	s.shards = got.Shards
	for _, l := range got.Shards {
		s.apply(store.Effect{Shard: &store.Progress{Shard: l.ID, Epoch: l.Epoch, Token: l.Token,
			Cursor: &store.Cursor{Base: got.Tip}}})
	}
}

func (s *server) apply(e store.Effect) {
	s.Helper()
	if stood, err := s.db.Apply(s.Context(), e); err != nil || !stood[0] {
		s.Fatalf("%+v: %v, %v", e, stood, err)
	}
}

// older makes a time of all rows of a table older.
func (s *server) older(table, column string, d time.Duration) {
	s.Helper()
	_, err := s.pool.Exec(s.Context(),
		fmt.Sprintf("UPDATE %s.%s SET %[3]s = %[3]s - $1 * interval '1 second'", s.schema, table, column),
		d.Seconds())
	s.must(err)
}

func (s *server) message(written time.Duration) skald.Message {
	at := time.Now().Add(-written)
	return skald.Message{ID: uuid7.New(at), Source: "/shop", Topic: "orders", Type: "order.placed",
		Key: []byte("42"), Data: []byte("{}"), Time: at,
		ContentType: "application/json"}
}

func (s *server) parked() *store.Park {
	m := s.message(0)
	return &store.Park{Parked: store.Parked{Consumer: "billing",
		Identity: store.Identity{Source: m.Source, ID: m.ID}, Message: m, Attempts: 1}}
}

func (s *server) quarantined(why store.Outcome) {
	m := s.message(0)
	s.apply(store.Effect{Quarantine: &store.Quarantined{Consumer: "billing",
		Identity: store.Identity{Source: m.Source, ID: m.ID}, Why: why, Message: m}})
}

func (s *server) beat() {
	s.Helper()
	_, err := s.db.SyncConsumer(s.Context(), store.SyncRequest{Consumer: "billing",
		Heartbeat: &store.Heartbeat{Own: []store.Kind{{Topic: "orders", Type: "order.placed"}}, Progress: true}})
	s.must(err)
}

// saga starts a saga, which is due for whatever engine comes.
func (s *server) saga() store.SagaRef {
	s.Helper()
	saga := store.Saga{Name: refund, Key: "42", ID: "1", Hash: "h", Input: "{}", State: "{}",
		SagaStatus: store.SagaStatus{Status: "running"}}
	var stored []store.Saga
	s.must(pgx.BeginFunc(s.Context(), s.pool, func(tx pgx.Tx) (err error) {
		stored, _, err = s.db.StartSagas(s.Context(), tx, saga)
		return err
	}))
	return store.SagaRef{Name: saga.Name, Key: saga.Key, Version: stored[0].Version}
}

// pass lets Prometheus' time pass, and says what fires at its end.
func (s *server) pass(d time.Duration) []string {
	s.Helper()
	var firing map[string]bool
	for end := s.prom.now.Add(d); s.prom.now.Before(end); {
		s.prom.now, s.now = s.prom.now.Add(scrapeEvery), s.now.Add(time.Minute)
		families, err := s.metrics.Gather()
		s.must(err)
		s.prom.scrape("writer", families)
		firing = s.prom.evaluate()
	}
	return names(firing)
}

// What the views of PostgreSQL say fires the alert that it is for, and no other. What only a process knows, a
// stuck key, a paused partition, a breaker, a relay that is deaf, is not in the database: TestEachAlertFires
// has that.
func TestAlertsOnPostgreSQL(t *testing.T) {
	const hour, day = time.Hour, 24 * time.Hour
	for alert, happen := range map[string]func(s *server){
		"": func(s *server) { // without a relay, where nothing was ever written
			_, err := s.db.Lease(s.Context(), store.LeaseRequest{Owner: "relay", Session: "1", Leave: true})
			s.must(err)
		},
		"SkaldRelayGone": func(s *server) {
			s.apply(store.Effect{Rows: []skald.Message{s.message(0)}})
			_, err := s.db.Lease(s.Context(), store.LeaseRequest{Owner: "relay", Session: "1", Leave: true})
			s.must(err)
		},
		"SkaldOutboxOld": func(s *server) {
			s.apply(store.Effect{Rows: []skald.Message{s.message(2 * time.Minute)}})
		},
		"SkaldDeferred": func(s *server) {
			l := s.shards[0]
			row := store.DeferredRow{Row: store.Row{Message: s.message(0), Seq: 1, Bucket: l.First},
				Attempts: 1, Why: "no such topic", Due: hour}
			s.apply(store.Effect{Shard: &store.Progress{Shard: l.ID, Epoch: l.Epoch, Token: l.Token,
				Deferred: []store.DeferredRow{row}}})
		},
		"SkaldRetentionStalled": func(s *server) {
			s.apply(store.Effect{Rows: []skald.Message{s.message(10 * day)}})
			s.lease(hour)
		},
		"SkaldParkedOld": func(s *server) {
			s.apply(store.Effect{Park: s.parked()})
			s.older("skald_parked", "since", 2*hour)
		},
		"SkaldDead": func(s *server) {
			p := s.parked()
			p.Dead = &store.Death{At: time.Now(), Kind: "permanent"}
			s.apply(store.Effect{Park: p})
		},
		"SkaldConflict": func(s *server) { s.quarantined(store.Conflict) },
		"SkaldTooOld":   func(s *server) { s.quarantined(store.TooOld) },
		"SkaldQuarantineFull": func(s *server) {
			s.quarantined(store.TooOld)
			_, err := s.pool.Exec(s.Context(), fmt.Sprintf(`
				INSERT INTO %[1]s.skald_quarantine (consumer, source, id, fingerprint, cause, topic, type, message, data)
				SELECT consumer, source, id || n, fingerprint, cause, topic, type, message, data
				FROM %[1]s.skald_quarantine, generate_series(1, 8000) AS n`, s.schema))
			s.must(err)
		},
		"SkaldCallUnsettled": func(s *server) {
			p := s.parked()
			p.Call = &store.Call{Key: "k", Request: "{}", Since: time.Now().Add(-10 * time.Minute)}
			s.apply(store.Effect{Park: p})
		},
		"SkaldConsumerGone": func(s *server) {
			s.beat()
			s.older("skald_consumer", "heard_at", 4*time.Minute)
			s.older("skald_handled_type", "at", 4*time.Minute)
		},
		"SkaldSagaStuck": func(s *server) {
			s.apply(store.Effect{Saga: &store.SagaUpdate{SagaRef: s.saga(), State: "{}",
				Release: true, Wake: -1,
				SagaStatus: store.SagaStatus{Status: "running", Stuck: true}}})
		},
		"SkaldSagaFailing": func(s *server) {
			s.apply(store.Effect{Saga: &store.SagaUpdate{SagaRef: s.saga(), State: "{}",
				Release: true, Wake: -1, SagaStatus: store.SagaStatus{Status: "running", Failed: 9,
					Since: time.Now().Add(-16 * time.Minute), Retry: time.Now().Add(time.Hour)}}})
		},
		"SkaldSagaOverdue": func(s *server) {
			s.saga()
			s.older("skald_saga", "due", 5*time.Minute)
		},
	} {
		t.Run(alert, func(t *testing.T) {
			t.Parallel()
			s := newServer(t)
			happen(s)
			want, lasts := []string{alert}, 7*time.Minute
			switch alert {
			case "":
				want = nil
			case "SkaldQuarantineFull":
				want = []string{alert, "SkaldTooOld"}
			case "SkaldRetentionStalled":
				lasts = 61 * time.Minute
			}
			if got := s.pass(lasts); !slices.Equal(got, want) {
				t.Errorf("%v fire", got)
			}
		})
	}
}
