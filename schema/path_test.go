package schema_test

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/twmb/franz-go/pkg/sr"

	"github.com/skald-go/skald"
	"github.com/skald-go/skald/broker"
	"github.com/skald-go/skald/broker/kafkabroker"
	"github.com/skald-go/skald/broker/membroker"
	"github.com/skald-go/skald/inbox"
	"github.com/skald-go/skald/internal/need"
	"github.com/skald-go/skald/outbox"
	"github.com/skald-go/skald/relay"
	"github.com/skald-go/skald/schema"
	"github.com/skald-go/skald/store"
	"github.com/skald-go/skald/store/memstore"
	"github.com/skald-go/skald/store/pgstore"
)

// ground is a database and a broker.
type ground[TTx any] struct {
	db      store.Driver[TTx]
	bus     broker.Broker
	topic   string
	write   func(ctx context.Context, f func(tx TTx) error) error
	effect  func(ctx context.Context, tx TTx, key, saw string) error // fails if the key exists
	effects func(t testing.TB) map[string]string
}

func inMemory(t *testing.T) ground[*memstore.Tx] {
	db, bus := memstore.New(nil), membroker.New(nil)
	if err := bus.MakeTopics(t.Context(), 4, "payments"); err != nil {
		t.Fatal(err)
	}
	return ground[*memstore.Tx]{
		db: db, bus: bus, topic: "payments",
		write: func(_ context.Context, f func(tx *memstore.Tx) error) error {
			tx := db.BeginTx()
			if err := f(tx); err != nil {
				return err
			}
			return tx.Commit()
		},
		effect: func(_ context.Context, tx *memstore.Tx, key, saw string) error {
			return tx.Insert(key, saw)
		},
		effects: func(testing.TB) map[string]string { return db.User() },
	}
}

func onServers(t *testing.T) ground[pgx.Tx] {
	url, seeds := need.Postgres(t), need.Kafka(t)
	name := "schema_" + strings.ToLower(rand.Text()[:10])
	pool, err := pgxpool.New(context.Background(), url)
	if err != nil {
		t.Fatal(err)
	}
	exec := func(sql string) {
		t.Helper()
		if _, err := pool.Exec(context.Background(), sql); err != nil {
			t.Errorf("%s: %v", sql, err)
		}
	}
	t.Cleanup(pool.Close)
	exec("CREATE SCHEMA " + name)
	t.Cleanup(func() { exec("DROP SCHEMA " + name + " CASCADE") })
	if _, err := pgstore.Migrate(t.Context(), pool, &pgstore.MigrateOptions{Schema: name}); err != nil {
		t.Fatal(err)
	}
	exec("CREATE TABLE " + name + ".effect (key text PRIMARY KEY, saw text NOT NULL)")
	bus, err := kafkabroker.New(seeds, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = bus.Close() })
	if err := bus.MakeTopics(t.Context(), 4, name); err != nil {
		t.Fatal(err)
	}
	return ground[pgx.Tx]{
		db: pgstore.New(pool, &pgstore.Options{Schema: name}), bus: bus, topic: name,
		write: func(ctx context.Context, f func(tx pgx.Tx) error) error {
			return pgx.BeginFunc(ctx, pool, f)
		},
		effect: func(ctx context.Context, tx pgx.Tx, key, saw string) error {
			_, err := tx.Exec(ctx, "INSERT INTO "+name+".effect VALUES ($1, $2)", key, saw)
			return err
		},
		effects: func(t testing.TB) map[string]string {
			rows, err := pool.Query(context.Background(), "SELECT key, saw FROM "+name+".effect")
			out, key, saw := map[string]string{}, "", ""
			if err == nil {
				_, err = pgx.ForEachRow(rows, []any{&key, &saw}, func() error { out[key] = saw; return nil })
			}
			if err != nil {
				t.Fatal(err)
			}
			return out
		},
	}
}

// seen is a payment as read by a build of any language.
type seen struct {
	order  string
	amount int64
	method string
}

// through gives handlers of all languages the same type.
type through struct {
	build
	*schema.Codec
}

func (c through) Decode(ctx context.Context, m skald.Message, v any) (err error) {
	to := v.(*seen)
	to.order, to.amount, to.method, err = c.read(ctx, c.Codec, m)
	return err
}

// While old and new programs run together, each of them handles every payment once. Then the registry goes
// away, and both continue.
func TestRollInMemory(t *testing.T) {
	for name, versions := range builds(t) {
		t.Run(name, func(t *testing.T) { roll(t, inMemory(t), name, versions) })
	}
}

// The same on PostgreSQL and Kafka. The inboxes have more workers than the pool has connections: a schema
// is stored although handlers that wait for it hold all connections.
func TestRollOnServers(t *testing.T) {
	for _, name := range []string{"avro", "protobuf"} {
		t.Run(name, func(t *testing.T) { roll(t, onServers(t), name, builds(t)[name]) })
	}
}

// rolling is the state of one of these tests.
type rolling[TTx any] struct {
	ground[TTx]
	t        *testing.T
	b        *bed
	versions [2]build
	quiet    *slog.Logger
	out      *outbox.Outbox[TTx]
	writers  [2]*schema.Codec
	orders   []string
	methods  []string
}

func roll[TTx any](t *testing.T, g ground[TTx], language string, versions [2]build) {
	r := &rolling[TTx]{ground: g, t: t, b: newBed(t), versions: versions,
		quiet: slog.New(slog.DiscardHandler), out: outbox.New(g.db, nil)}
	for i, v := range versions {
		r.writers[i] = v.codec(r.b.registry(t, nil), nil)
	}
	ctx, stop := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	defer func() { stop(); wg.Wait() }()
	run := func(one skald.Runner) {
		wg.Go(func() {
			if err := one.Run(ctx); err != nil {
				t.Error(err)
			}
		})
	}
	run(relay.New(g.db, g.bus, &relay.Options{Logger: r.quiet}))
	for i := range versions {
		run(r.consumer(i))
	}
	for range 20 {
		r.pay(0) // only the old writer
	}
	for range 20 {
		r.pay(0)
		r.pay(1)
	}
	r.wait(language, 60)
	r.b.away.Store(true)
	for range 20 {
		r.pay(0)
		r.pay(1)
	}
	r.wait(language, 100)
	if kept := r.kept(); len(kept) > 0 {
		t.Errorf("%d are kept, the first because %s", len(kept), kept[0].Last.Why)
	}
	r.b.away.Store(false)
	r.unknown(language)
}

func (r *rolling[TTx]) group(version int) string { return fmt.Sprintf("%s.v%d", r.topic, version+1) }

func (r *rolling[TTx]) consumer(version int) skald.Runner {
	keep := r.db
	group := r.group(version)
	in := inbox.New(r.db, r.bus, group, &inbox.Options{Logger: r.quiet,
		Retry: inbox.Retry{InitialInterval: 50 * time.Millisecond, MaxInterval: 200 * time.Millisecond}})
	codec := through{r.versions[version], r.versions[version].codec(r.b.registry(r.t, keep), nil)}
	inbox.On(in, skald.Event[seen]{Topic: r.topic, Type: "payment.processed", Codec: codec},
		func(ctx context.Context, tx TTx, m skald.Received[seen]) error {
			return r.effect(ctx, tx, fmt.Sprintf("%s/v%d", m.Value.order, version+1),
				fmt.Sprintf("%d %s", m.Value.amount, m.Value.method))
		})
	return in
}

func (r *rolling[TTx]) draft(version int, order, method string) skald.Draft {
	return skald.Draft{Topic: r.topic, Type: "payment.processed", Key: []byte(order),
		Codec: r.writers[version], Value: r.versions[version].value(order, 7, method)}
}

// pay writes a payment as a program of that version.
func (r *rolling[TTx]) pay(version int) {
	r.t.Helper()
	order := fmt.Sprintf("o%d", len(r.orders))
	d := r.draft(version, order, "card")
	if err := r.write(r.t.Context(),
		func(tx TTx) error { return r.out.Write(r.t.Context(), tx, d) }); err != nil {
		r.t.Fatal(err)
	}
	r.orders, r.methods = append(r.orders, order), append(r.methods, []string{"", "card"}[version])
}

// wait waits until both programs have handled all payments, and compares the results.
func (r *rolling[TTx]) wait(language string, n int) {
	r.t.Helper()
	got := r.await(2 * n)
	for i, order := range r.orders {
		method := r.methods[i]
		if method == "" && language != "protobuf" {
			method = "unknown" // the new schema's default
		}
		if got[order+"/v1"] != "7 " || got[order+"/v2"] != "7 "+method {
			r.t.Errorf("%s: the old one saw %q, the new one %q, want the method %q", order, got[order+"/v1"],
				got[order+"/v2"], method)
		}
	}
}

func (r *rolling[TTx]) await(n int) map[string]string {
	r.t.Helper()
	end := time.After(5 * time.Minute)
	for tick := time.NewTicker(20 * time.Millisecond); ; {
		got := r.effects(r.t)
		if len(got) >= n {
			return got
		}
		select {
		case <-tick.C:
		case <-end:
			r.t.Fatalf("%d of %d effects are there; kept: %v", len(got), n, r.kept())
		}
	}
}

func (r *rolling[TTx]) kept() []store.Parked {
	r.t.Helper()
	kept, err := store.ListParked(r.t.Context(), r.db, store.ParkedQuery{Limit: 100})
	if err != nil {
		r.t.Fatal(err)
	}
	return kept
}

// unknown publishes a payment with an id that the registry does not have: both programs park it. Once the
// registry has the id, both handle it and the waiting messages.
func (r *rolling[TTx]) unknown(language string) {
	const id = 4711
	m := skald.Message{Topic: "x", Type: "x"}
	if err := r.writers[0].Encode(r.t.Context(), &m, r.versions[0].value("late", 7, "")); err != nil {
		r.t.Fatal(err)
	}
	mark := binary.BigEndian.AppendUint32([]byte{0}, id)
	if language == "protobuf" {
		mark = append(mark, 2, 2)
	}
	raw := skald.Message{ID: "late", Source: "/another", Topic: r.topic, Type: "payment.processed",
		Key: []byte("late"), Time: time.Now(),
		Headers: []skald.Header{{Name: schema.Header, Value: mark}}, Data: m.Data}
	if err := r.bus.Publish(r.t.Context(), []skald.Message{raw}).Wait(r.t.Context()); err != nil {
		r.t.Fatal(err)
	}
	end := time.After(5 * time.Minute)
	for tick := time.NewTicker(20 * time.Millisecond); ; {
		kept := r.kept()
		if len(kept) == 2 && strings.Contains(kept[0].Last.Why, "does not have schema 4711") &&
			kept[0].Dead == nil && kept[0].Attempts == 0 {
			break
		}
		select {
		case <-tick.C:
		case <-end:
			r.t.Fatalf("kept are %+v", kept)
		}
	}
	format := map[string]sr.SchemaType{"avro": sr.TypeAvro, "json": sr.TypeJSON,
		"protobuf": sr.TypeProtobuf}[language]
	text := map[string]string{"avro": avro1, "json": json1, "protobuf": proto1}[language]
	r.b.fake.SeedSchema("of-another", 1, id, sr.Schema{Type: format, Schema: text})
	got := r.await(202)
	if got["late/v1"] != "7 " || !strings.HasPrefix(got["late/v2"], "7 ") {
		r.t.Errorf("late: %q, %q", got["late/v1"], got["late/v2"])
	}
}
