package inbox_test

import (
	"context"
	"crypto/rand"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/skald-go/skald"
	"github.com/skald-go/skald/broker"
	"github.com/skald-go/skald/broker/kafkabroker"
	"github.com/skald-go/skald/broker/natsbroker"
	"github.com/skald-go/skald/inbox"
	"github.com/skald-go/skald/internal/need"
	"github.com/skald-go/skald/operate"
	"github.com/skald-go/skald/store"
	"github.com/skald-go/skald/store/pgstore"
)

// restart is a consumer with PostgreSQL and a real broker. The consumer stops and starts while the database
// or the broker changes.
type restart struct {
	*testing.T
	name, group string
	pool        *pgxpool.Pool
	db          *pgstore.Store
	bus         broker.Broker
	drop        func(topic string) error

	mu   sync.Mutex
	logs []string // WARN and above
}

// rewindable returns the real brokers that can deliver messages again.
func rewindable() map[string]func(*restart, string) {
	return map[string]func(*restart, string){"Kafka": onKafka, "NATS": onNATS}
}

func onKafka(r *restart, start string) {
	b, err := kafkabroker.New(need.Kafka(r.T), &kafkabroker.Options{Start: start,
		Client: []kgo.Opt{kgo.MetadataMaxAge(200 * time.Millisecond)}})
	fatal(r.T, err)
	cl, err := kgo.NewClient(kgo.SeedBrokers(strings.Split(need.Kafka(r.T), ",")...))
	fatal(r.T, err)
	r.Cleanup(cl.Close)
	r.bus, r.drop = b, func(topic string) error {
		_, err := kadm.NewClient(cl).DeleteTopics(context.Background(), topic)
		return err
	}
}

func onNATS(r *restart, _ string) {
	url := strings.TrimPrefix(need.NATS(r.T), "nats://")
	b, err := natsbroker.New(url, &natsbroker.Options{})
	fatal(r.T, err)
	nc, err := nats.Connect(url)
	fatal(r.T, err)
	r.Cleanup(nc.Close)
	r.bus, r.drop = b, func(topic string) error {
		js, err := jetstream.New(nc)
		if err != nil {
			return err
		}
		return js.DeleteStream(context.Background(), natsbroker.Stream(topic))
	}
}

func newRestart(t *testing.T, on func(*restart, string), start string) *restart {
	r := &restart{T: t, name: "begin" + strings.ToLower(rand.Text()[:10])}
	r.group = r.name
	r.pool, r.db = r.database(r.name)
	on(r, start)
	t.Cleanup(func() { _ = r.bus.Close() })
	return r
}

func (r *restart) database(schema string) (*pgxpool.Pool, *pgstore.Store) {
	pool, err := pgxpool.New(r.Context(), need.Postgres(r.T))
	fatal(r.T, err)
	r.Cleanup(pool.Close)
	_, err = pgstore.Migrate(r.Context(), pool, &pgstore.MigrateOptions{Schema: schema, Source: "/test"})
	fatal(r.T, err)
	r.Cleanup(func() { _, _ = pool.Exec(context.Background(), "DROP SCHEMA "+schema+" CASCADE") })
	_, err = pool.Exec(r.Context(), "CREATE TABLE "+schema+".effect (topic text NOT NULL, id text NOT NULL)")
	fatal(r.T, err)
	return pool, pgstore.New(pool, &pgstore.Options{Schema: schema})
}

func (r *restart) make(topics ...string) {
	r.Helper()
	until(r.T, "the topics", func() bool { return r.bus.MakeTopics(r.Context(), 2, topics...) == nil })
	r.Cleanup(func() {
		for _, topic := range topics {
			_ = r.drop(topic)
		}
	})
}

func (r *restart) publish(topic string, from, to int) {
	r.Helper()
	var ms []skald.Message
	for i := from; i < to; i++ {
		ms = append(ms, skald.Message{ID: fmt.Sprintf("%s-%03d", topic, i), Source: "/other", Topic: topic,
			Type: "said", Key: fmt.Appendf(nil, "k%d", i%7), Data: []byte("{}")})
	}
	until(r.T, "what is published",
		func() bool { return r.bus.Publish(r.Context(), ms).Wait(r.Context()) == nil })
}

// Handle, Enabled, WithAttrs and WithGroup implement slog.Handler, which stores the records.
func (r *restart) Handle(_ context.Context, rec slog.Record) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	text := rec.Level.String() + " " + rec.Message
	rec.Attrs(func(a slog.Attr) bool { text += " " + a.String(); return true })
	r.logs = append(r.logs, text)
	return nil
}
func (r *restart) Enabled(_ context.Context, l slog.Level) bool { return l >= slog.LevelWarn }
func (r *restart) WithAttrs([]slog.Attr) slog.Handler           { return r }
func (r *restart) WithGroup(string) slog.Handler                { return r }

// logged returns the number of lines since the last call that contain the text what.
func (r *restart) logged(what string) (n int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, line := range r.logs {
		if strings.Contains(line, what) {
			n++
		}
	}
	r.logs = nil
	return n
}

func (r *restart) consumer(topics ...string) *inbox.Inbox[pgx.Tx] {
	in := inbox.New(r.db, r.bus, r.group, &inbox.Options{Logger: slog.New(r)})
	for _, topic := range topics {
		in.Handle(topic, "said", func(ctx context.Context, tx pgx.Tx, m skald.Message) error {
			_, err := tx.Exec(ctx, "INSERT INTO "+r.name+".effect VALUES ($1, $2)", m.Topic, m.ID)
			return err
		})
	}
	return in
}

// consume runs a consumer of topics until it has this number of effects.
func (r *restart) consume(effects int, topics ...string) {
	r.Helper()
	in := r.consumer(topics...)
	stop := run(r.T, in)
	untilFor(r.T, time.Minute, fmt.Sprintf("%d effects, of %d", effects, r.effects()),
		func() bool { return r.effects() >= effects && in.Health().Ready })
	until(r.T, "the acknowledgements", func() bool {
		lag, err := r.bus.Lag(r.Context(), r.group, topics...)
		n := int64(0)
		for _, one := range lag {
			n += one
		}
		return err == nil && n == 0
	})
	fatal(r.T, stop())
	if n := r.effects(); n != effects {
		r.Errorf("%d effects, want %d", n, effects)
	}
}

func (r *restart) effects() (n int) {
	r.Helper()
	fatal(r.T, r.pool.QueryRow(r.Context(), "SELECT count(*) FROM "+r.name+".effect").Scan(&n))
	return n
}

// forget removes rows that an older backup would not have.
func (r *restart) forget(statements ...string) {
	r.Helper()
	for _, one := range statements {
		_, err := r.pool.Exec(r.Context(), strings.ReplaceAll(one, "{}", r.name))
		fatal(r.T, err)
	}
}

const again = "the database has no checkpoint of these partitions"

// A database is restored from a backup that is older than a topic, or older than the first start. The
// consumer gets the messages again, and logs their number in one WARN. Messages with marks take effect once.
func TestDatabaseFromBeforeATopicWasAdded(t *testing.T) {
	t.Parallel()
	for broker, on := range rewindable() {
		t.Run(broker, func(t *testing.T) {
			t.Parallel()
			r := newRestart(t, on, "")
			one, two := r.name+".one", r.name+".two"
			r.make(one, two)
			r.publish(one, 0, 10)
			r.consume(10, one)
			r.publish(two, 0, 20)
			r.consume(30, one, two)
			r.logged("")

			r.forget("DELETE FROM {}.skald_checkpoint WHERE partition LIKE '%.two/%'",
				"DELETE FROM {}.skald_mark WHERE id LIKE '%.two-%'", "DELETE FROM {}.effect WHERE topic LIKE '%.two'")
			r.consume(30, one, two)
			if n := r.logged(again); n == 0 {
				t.Error("no log line says that messages come again")
			}

			r.forget("DELETE FROM {}.skald_checkpoint", "DELETE FROM {}.skald_mark", "DELETE FROM {}.effect",
				"DELETE FROM {}.skald_handled_type", "DELETE FROM {}.skald_consumer")
			r.consume(30, one, two)
			if n := r.logged(again); n == 0 {
				t.Error("no log line says that messages come again")
			}
			r.forget("DELETE FROM {}.skald_checkpoint") // the marks remain
			r.consume(30, one, two)
		})
	}
}

// A topic is deleted and recreated while its consumer is stopped. The consumer reads it from its
// beginning, even with start=latest: the consumer is not new.
func TestTopicRecreatedWhileTheConsumerIsStopped(t *testing.T) {
	t.Parallel()
	for broker, on := range rewindable() {
		t.Run(broker, func(t *testing.T) {
			t.Parallel()
			r := newRestart(t, on, "latest")
			topic := r.name + ".t"
			r.make(topic)
			r.consume(0, topic)
			r.publish(topic, 0, 10)
			r.consume(10, topic)
			fatal(t, r.drop(topic))
			until(t, "the end of the topic", func() bool { // until then it takes messages, and loses them
				ids, err := r.bus.Topics(t.Context(), topic)
				return err == nil && ids[topic] == ""
			})
			r.make(topic)
			r.publish(topic, 10, 100)
			r.logged("")
			r.consume(100, topic)
			if n := r.logged(again); n == 0 {
				t.Error("no log line says that messages come again")
			}
		})
	}
}

// A process with another database is refused, even if the group has no members, until an operator makes
// that database adopt the group. From then on the first database is refused. A refused process continues
// as soon as it may.
func TestAnotherDatabaseIsRefusedUntilItAdoptsTheGroup(t *testing.T) {
	t.Parallel()
	for broker, on := range rewindable() {
		t.Run(broker, func(t *testing.T) {
			t.Parallel()
			r := newRestart(t, on, "")
			topic := r.name + ".t"
			r.make(topic)
			r.publish(topic, 0, 10)
			r.consume(10, topic)
			wrong := &restart{T: t, name: r.name + "wrong", group: r.group, bus: r.bus}
			wrong.pool, wrong.db = r.database(wrong.name)
			refused := func(r *restart) (from string, stop func() error) {
				t.Helper()
				in := r.consumer(topic)
				stop = run(t, in)
				until(t, "the refusal",
					func() bool { return strings.Contains(in.Health().Why, "skald consumer adopt") })
				until(t, "the ERROR", func() bool { return r.logged("ERROR inbox: cannot join the group yet") > 0 })
				_, rest, _ := strings.Cut(in.Health().Why, "--from ")
				return strings.Fields(rest)[0], stop
			}
			from, stop := refused(wrong)
			r.publish(topic, 10, 20)
			r.consume(20, topic) // it has lost nothing
			if n := wrong.effects(); n != 0 {
				t.Errorf("%d effects in the wrong database", n)
			}
			fatal(t, operate.AdoptInbox(t.Context(), wrong.db, r.bus, r.group, from,
				operate.Order{Author: "ann", Reason: "we moved"}))
			until(t, "what is retained", func() bool { return wrong.effects() == 20 })
			fatal(t, stop())
			audits, err := wrong.db.Audits(t.Context(), store.AuditQuery{})
			if err != nil || len(audits) != 1 ||
				audits[0].Action != "adopt from "+from || audits[0].Author != "ann" {
				t.Errorf("audited %+v, %v", audits, err)
			}
			_, stop = refused(r)
			fatal(t, stop())
		})
	}
}
