package inbox_test

import (
	"bytes"
	"context"
	"crypto/rand"
	"fmt"
	"log/slog"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/skald-go/skald"
	"github.com/skald-go/skald/broker"
	"github.com/skald-go/skald/broker/kafkabroker"
	"github.com/skald-go/skald/broker/natsbroker"
	"github.com/skald-go/skald/broker/rabbitbroker"
	"github.com/skald-go/skald/inbox"
	"github.com/skald-go/skald/internal/need"
	"github.com/skald-go/skald/store/pgstore"
)

// log stores the log lines of an inbox. A test can read them concurrently.
type log struct {
	mu  sync.Mutex
	all bytes.Buffer
}

func (l *log) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.all.Write(b)
}

func (l *log) has(text string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return strings.Contains(l.all.String(), text)
}

// A handler runs while its consumer leaves the group. Another member gets its message, and waits for the
// mark. The result of the handler acknowledges nothing in the next session.
func TestHandlerRunsWhileItsConsumerLeaves(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 1)
	db := &away{Driver: w.db}
	said, begun, release := &log{}, make(chan struct{}), make(chan struct{})
	o := &inbox.Options{Workers: 2, Now: time.Now, Logger: slog.New(slog.NewTextHandler(said, nil)),
		Timeouts: inbox.Timeouts{Wait: time.Minute}}
	first := sync.Once{}
	in := w.over(db, o.LeaveAfter(time.Millisecond),
		func(ctx context.Context, t tx, m skald.Received[string]) error {
			first.Do(func() { close(begun); <-release })
			return keep(ctx, t, m)
		})
	stop := run(t, in)
	w.publish(w.message("k", "1"), w.message("k", "2"))
	<-begun
	db.out.Store(true)
	w.publish(w.message("l", "1"))
	until(t, "it leaves", func() bool { return said.has("leaving the group") })
	other := w.inbox(nil, keep)
	stopOther := run(t, other)
	until(t, "another one has its messages", func() bool { return other.Health().Received == 3 })
	until(t, "the message of another key", func() bool { return other.Health().Handled == 1 })
	close(release)
	until(t, "the handler's message is a repeat, the next one is handled", func() bool {
		h := other.Health()
		return h.Handled == 2 && h.Duplicates == 1
	})
	if err := stopOther(); err != nil {
		t.Fatal(err)
	}
	w.publish(w.message("k", "3"))
	if in.Health().Received != 3 {
		t.Error("a consumer outside its group receives messages")
	}
	db.out.Store(false)
	until(t, "it joins and continues", func() bool { return w.acknowledged() && in.Health().Ready })
	if err := stop(); err != nil {
		t.Fatal(err)
	}
	w.expect("k", "1 2 3")
	w.expect("l", "1")
}

// One of two consumers cannot reach the database. The other one handles all messages. Both work once the
// first one reaches it again. Each message is handled once, in the order of its key.
func TestConsumerWithoutItsDatabaseLeaves(t *testing.T) {
	for name, open := range map[string]func(*testing.T) (broker.Broker, error){
		"Kafka": func(t *testing.T) (broker.Broker, error) { return kafkabroker.New(need.Kafka(t), nil) },
		"RabbitMQ": func(t *testing.T) (broker.Broker, error) {
			return rabbitbroker.New(strings.TrimPrefix(need.RabbitMQ(t), "amqp://"), nil)
		},
		"NATS": func(t *testing.T) (broker.Broker, error) {
			return natsbroker.New(strings.TrimPrefix(need.NATS(t), "nats://"), nil)
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := newPair(t, open)
			for p.both(func() { p.publish(20) }) {
			}
			p.proxy.Set(need.Refuse)
			p.publish(200)
			until(t, "the other one handles all", func() bool { return p.handled() == p.published })
			if p.cut.Health().Ready {
				t.Error("a consumer without its database is ready")
			}
			p.proxy.Set(need.Pass)
			for p.both(func() { p.publish(20) }) {
			}
			until(t, "all are handled", func() bool { return p.handled() == p.published })
			p.check()
		})
	}
}

// pair is two consumers of one group. The first one uses its database through a proxy.
type pair struct {
	*testing.T
	name       string
	pool       *pgxpool.Pool
	proxy      *need.Proxy
	bus        broker.Broker
	cut, other *inbox.Inbox[pgx.Tx]
	published  int
}

func newPair(t *testing.T, open func(*testing.T) (broker.Broker, error)) *pair {
	p := &pair{T: t, name: "leave" + strings.ToLower(rand.Text()[:10])}
	at, err := url.Parse(need.Postgres(t))
	fatal(t, err)
	p.pool, err = pgxpool.New(t.Context(), at.String())
	fatal(t, err)
	t.Cleanup(func() {
		_, _ = p.pool.Exec(context.Background(), "DROP SCHEMA "+p.name+" CASCADE")
		p.pool.Close()
	})
	_, err = pgstore.Migrate(t.Context(), p.pool, &pgstore.MigrateOptions{Schema: p.name, Source: "/test"})
	fatal(t, err)
	_, err = p.pool.Exec(t.Context(), "CREATE TABLE "+p.name+
		".effect (n bigserial, key text NOT NULL, nth int NOT NULL, who text NOT NULL)")
	fatal(t, err)
	p.proxy = need.NewProxy(t, at.Host)
	at.Host = p.proxy.Addr()
	through, err := pgxpool.New(t.Context(), at.String())
	fatal(t, err)
	t.Cleanup(func() { go through.Close() }) // in the background: it may wait for dead connections
	p.bus = p.open(open)
	until(t, "the topic", func() bool { return p.bus.MakeTopics(t.Context(), 4, p.name) == nil })
	p.cut = p.start("cut", through, p.open(open))
	p.other = p.start("other", p.pool, p.open(open))
	return p
}

func (p *pair) open(open func(*testing.T) (broker.Broker, error)) broker.Broker {
	b, err := open(p.T)
	fatal(p.T, err)
	p.Cleanup(func() { _ = b.Close() })
	return b
}

func (p *pair) start(who string, pool *pgxpool.Pool, bus broker.Broker) *inbox.Inbox[pgx.Tx] {
	o := &inbox.Options{Logger: slog.New(slog.DiscardHandler)}
	in := inbox.New(pgstore.New(pool, &pgstore.Options{Schema: p.name}), bus, p.name,
		o.LeaveAfter(100*time.Millisecond))
	in.Handle(p.name, "said", func(ctx context.Context, tx pgx.Tx, m skald.Message) error {
		_, err := tx.Exec(ctx, "INSERT INTO "+p.name+".effect (key, nth, who) VALUES ($1, $2::text::int, $3)",
			string(m.Key), string(m.Data), who)
		return err
	})
	run(p.T, in)
	return in
}

// publish publishes n messages of ten keys.
func (p *pair) publish(n int) {
	p.Helper()
	var ms []skald.Message
	for range n {
		ms = append(ms, skald.Message{ID: fmt.Sprint("m", p.published), Source: "/other", Topic: p.name,
			Type: "said", Key: fmt.Appendf(nil, "k%d", p.published%10), Data: fmt.Append(nil, p.published)})
		p.published++
	}
	until(p.T, "what is published",
		func() bool { return p.bus.Publish(p.Context(), ms).Wait(p.Context()) == nil })
}

// both reports whether to publish more, until both consumers have handled a message.
func (p *pair) both(publish func()) (again bool) {
	p.Helper()
	cut, other := p.cut.Health().Handled, p.other.Health().Handled
	publish()
	until(p.T, "they are handled", func() bool { return p.handled() == p.published })
	return p.cut.Health().Handled == cut || p.other.Health().Handled == other
}

func (p *pair) handled() (n int) {
	p.Helper()
	fatal(p.T, p.pool.QueryRow(p.Context(), "SELECT count(*) FROM "+p.name+".effect").Scan(&n))
	return n
}

// check reads the effects: each is there once, and those of a key are in order.
func (p *pair) check() {
	p.Helper()
	var twice, unordered int
	fatal(p.T, p.pool.QueryRow(p.Context(), "SELECT count(*) - count(DISTINCT nth) FROM "+p.name+".effect").
		Scan(&twice))
	fatal(p.T, p.pool.QueryRow(p.Context(), "SELECT count(*) FROM "+p.name+".effect a JOIN "+p.name+
		".effect b ON a.key = b.key AND a.n < b.n AND a.nth > b.nth").Scan(&unordered))
	if twice > 0 || unordered > 0 {
		p.Errorf("%d effects are there twice, %d pairs are out of order", twice, unordered)
	}
}
