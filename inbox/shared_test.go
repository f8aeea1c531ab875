package inbox_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/skald-go/skald"
	"github.com/skald-go/skald/broker"
	"github.com/skald-go/skald/broker/natsbroker"
	"github.com/skald-go/skald/broker/rabbitbroker"
	"github.com/skald-go/skald/call"
	"github.com/skald-go/skald/inbox"
	"github.com/skald-go/skald/internal/need"
	"github.com/skald-go/skald/internal/seeded"
	"github.com/skald-go/skald/store/pgstore"
)

// shape is a subscription that several instances share at a broker: a queue or a durable.
type shape struct {
	topic, group string
	open         func(l *line) broker.Broker
	publish      func(id, typ string) // without a key, as a plain client would
}

func shapes() map[string]func(*testing.T, string) shape {
	return map[string]func(*testing.T, string) shape{
		"a queue of RabbitMQ": func(t *testing.T, name string) shape {
			return rabbitShape(t, name, rabbitbroker.Options{Queue: name, Prefetch: 4})
		},
		"types of RabbitMQ": func(t *testing.T, name string) shape {
			return rabbitShape(t, name, rabbitbroker.Options{ByType: true, Prefetch: 4})
		},
		"a durable of NATS": natsShape,
	}
}

func rabbitShape(t *testing.T, name string, o rabbitbroker.Options) shape {
	url := need.RabbitMQ(t)
	conn, err := amqp.Dial(strings.Replace(url, "amqp://", "amqp://guest:guest@", 1))
	fatal(t, err)
	t.Cleanup(func() { _ = conn.Close() })
	ch, err := conn.Channel()
	fatal(t, err)
	fatal(t, ch.ExchangeDeclare(name, "topic", true, false, false, false, nil))
	_, err = ch.QueueDeclare(name, true, false, false, false, nil)
	fatal(t, err)
	fatal(t, ch.QueueBind(name, "#", name, false, nil))
	fatal(t, ch.Confirm(false))
	t.Cleanup(func() {
		_, _ = ch.QueueDelete(name, false, false, false)
		_ = ch.ExchangeDelete(name, false, false)
	})
	return shape{topic: name, group: name,
		open: func(l *line) broker.Broker {
			o := o
			o.Dial = l.dial
			b, err := rabbitbroker.New(strings.TrimPrefix(url, "amqp://"), &o)
			fatal(t, err)
			return b
		},
		publish: func(id, typ string) {
			sent, err := ch.PublishWithDeferredConfirm(name, typ, true, false, amqp.Publishing{MessageId: id,
				Type: typ, ContentType: "application/json", Body: []byte("{}"), DeliveryMode: 2})
			fatal(t, err)
			if !sent.Wait() {
				t.Fatal("RabbitMQ refuses a message")
			}
		}}
}

func natsShape(t *testing.T, name string) shape {
	url := need.NATS(t)
	nc, err := nats.Connect(url)
	fatal(t, err)
	t.Cleanup(nc.Close)
	js, err := jetstream.New(nc)
	fatal(t, err)
	stream := strings.ReplaceAll(name, ".", "_")
	_, err = js.CreateStream(t.Context(),
		jetstream.StreamConfig{Name: stream, Subjects: []string{name + ".*"}})
	fatal(t, err)
	t.Cleanup(func() { _ = js.DeleteStream(context.Background(), stream) })
	wait := 30 * time.Second // on a slow machine a shorter wait could end too early
	if seeded.Bug() != "" {
		wait = 5 * time.Second
	}
	_, err = js.CreateConsumer(t.Context(), stream, jetstream.ConsumerConfig{Durable: stream,
		AckPolicy: jetstream.AckExplicitPolicy, MaxDeliver: -1, AckWait: wait})
	fatal(t, err)
	return shape{topic: name, group: stream,
		open: func(l *line) broker.Broker {
			b, err := natsbroker.New(strings.TrimPrefix(url, "nats://"),
				&natsbroker.Options{Prefetch: 4, Client: []nats.Option{nats.SetCustomDialer(l)},
					Shapes: map[string]natsbroker.Shape{name: {Stream: stream, Subject: name + ".{type}",
						Durable: true}}})
			fatal(t, err)
			return b
		},
		publish: func(id, typ string) {
			m := nats.NewMsg(name + "." + typ)
			m.Header = nats.Header{"ce-specversion": {"1.0"}, "ce-id": {id}, "ce-source": {"/s"},
				"ce-type": {typ}, "content-type": {"application/json"}}
			m.Data = []byte("{}")
			_, err := js.PublishMsg(t.Context(), m)
			fatal(t, err)
		}}
}

// line is an instance's connection to the broker. A test can cut it permanently.
type line struct {
	mu    sync.Mutex
	gone  bool
	conns []net.Conn
}

func (l *line) dial(network, address string) (net.Conn, error) { return l.Dial(network, address) }

// Dial is the dialer of clients.
func (l *line) Dial(network, address string) (net.Conn, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.gone {
		return nil, errors.New("the line is cut")
	}
	c, err := net.Dial(network, address)
	if err == nil {
		l.conns = append(l.conns, c)
	}
	return c, err
}

func (l *line) cut() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.gone = true
	for _, c := range l.conns {
		_ = c.Close()
	}
}

func fatal(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// sharing is several instances of one consumer on one shape, with one database.
type sharing struct {
	*testing.T
	shape
	pool *pgxpool.Pool
	mu   sync.Mutex
	at   map[string]int // runs of an id at this moment
	loud []string       // log lines of WARN and above
	wake chan struct{}
}

func newSharing(t *testing.T, of func(*testing.T, string) shape) *sharing {
	url := need.Postgres(t)
	name := fmt.Sprintf("shared%x", time.Now().UnixNano())
	config, err := pgxpool.ParseConfig(url)
	fatal(t, err)
	config.MaxConns = 20                                // each handler has one
	config.ConnConfig.ConnectTimeout = 30 * time.Second // without a bound a WARN is logged
	pool, err := pgxpool.NewWithConfig(t.Context(), config)
	fatal(t, err)
	t.Cleanup(pool.Close)
	_, err = pgstore.Migrate(t.Context(), pool, &pgstore.MigrateOptions{Schema: name, Source: "/test"})
	fatal(t, err)
	_, err = pool.Exec(t.Context(), "CREATE TABLE "+name+".effect (id text NOT NULL, by text NOT NULL)")
	fatal(t, err)
	t.Cleanup(func() { _, _ = pool.Exec(context.Background(), "DROP SCHEMA "+name+" CASCADE") })
	return &sharing{T: t, shape: of(t, name), pool: pool, at: map[string]int{},
		wake: make(chan struct{}, 1000)}
}

// enter records that id runs now, and fails the test if it runs elsewhere.
func (s *sharing) enter(id string) (leave func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.at[id]++; s.at[id] > 1 {
		s.Errorf("%s runs twice at the same time", id)
	}
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.at[id]--
	}
}

// Handle, Enabled, WithAttrs and WithGroup implement slog.Handler, which stores warnings and errors.
func (s *sharing) Handle(_ context.Context, r slog.Record) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	said := r.Message
	if strings.Contains(said, "the broker keeps messages forever") {
		return nil // that is true here
	}
	r.Attrs(func(a slog.Attr) bool { said += " " + a.String(); return true })
	s.loud = append(s.loud, said)
	return nil
}
func (s *sharing) Enabled(_ context.Context, l slog.Level) bool { return l >= slog.LevelWarn }
func (s *sharing) WithAttrs([]slog.Attr) slog.Handler           { return s }
func (s *sharing) WithGroup(string) slog.Handler                { return s }

type hands map[string]func(ctx context.Context, id string) error

// start runs an instance with this name. Its handlers wait for the hand of their type, and then write the
// id of each message.
func (s *sharing) start(who string, each hands) (cut, stop func()) {
	way := &line{}
	bus := s.open(way)
	name := strings.SplitN(s.topic, ".", 2)[0]
	in := inbox.New(storedWrongly(pgstore.New(s.pool, &pgstore.Options{Schema: name})), bus, s.group,
		&inbox.Options{Logger: slog.New(s), Workers: 4, Batch: 1,
			Timeouts: inbox.Timeouts{Drain: 10 * time.Second}})
	for typ, hand := range each {
		if typ == "called" {
			s.call(in, hand)
			continue
		}
		in.Handle(s.topic, typ, func(ctx context.Context, tx pgx.Tx, m skald.Message) error {
			defer s.enter(m.ID)()
			if err := hand(ctx, m.ID); err != nil {
				return err
			}
			_, err := tx.Exec(ctx, "INSERT INTO "+name+".effect VALUES ($1, $2)", m.ID, who)
			select {
			case s.wake <- struct{}{}:
			default:
			}
			return err
		})
	}
	ctx, end := context.WithCancel(context.Background())
	over := make(chan error, 1)
	go func() { over <- in.Run(ctx) }()
	stop = sync.OnceFunc(func() {
		end()
		if err := <-over; err != nil && !errors.Is(err, broker.ErrClosed) {
			s.Errorf("%s: %v", who, err)
		}
		_ = bus.Close()
	})
	s.Cleanup(stop)
	return way.cut, stop
}

// effects waits until there are n effects of different messages. It returns the number of effects of each
// instance.
func (s *sharing) effects(n int) map[string]int {
	s.Helper()
	patience := 5 * time.Minute
	if seeded.Bug() != "" {
		patience = time.Minute
	}
	deadline := time.After(patience)
	for {
		rows, err := s.pool.Query(s.Context(), "SELECT id, by FROM "+s.topic+".effect")
		fatal(s.T, err)
		by, ids, id, who := map[string]int{}, map[string]bool{}, "", ""
		_, err = pgx.ForEachRow(rows, []any{&id, &who}, func() error {
			if by[who]++; ids[id] {
				s.Fatalf("%s took effect twice", id)
			}
			ids[id] = true
			return nil
		})
		fatal(s.T, err)
		if len(ids) == n {
			return by
		}
		if len(ids) > n {
			s.Fatalf("%d effects of %d", len(ids), n)
		}
		select {
		case <-s.wake:
		case <-time.After(20 * time.Millisecond):
		case <-deadline:
			s.Fatalf("%d effects of %d", len(ids), n)
		}
	}
}

// awaitBug waits until the bug of this process is visible: other instances may get the messages of the cut
// instance after all others.
func (s *sharing) awaitBug() {
	for deadline := time.After(time.Minute); seeded.Bug() != "" && !s.Failed(); {
		select {
		case <-time.After(20 * time.Millisecond):
		case <-deadline:
			return
		}
	}
}

// meet is a meeting point of several instances: it releases them when all are there.
func meet(n int) func(ctx context.Context, id string) error {
	var mu sync.Mutex
	all := make(chan struct{})
	return func(ctx context.Context, id string) error {
		mu.Lock()
		if n--; n == 0 {
			close(all)
		}
		mu.Unlock()
		select {
		case <-all:
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// TestSharedInPeace runs instances that share a queue or a durable, at the same time. Nothing is logged, no
// instance takes a message of another one, and each message takes effect once.
func TestSharedInPeace(t *testing.T) {
	t.Parallel()
	for name, shape := range shapes() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newSharing(t, shape)
			both := meet(8) // as many as two instances have workers
			each := hands{"met": both, "plain": func(context.Context, string) error { return nil }}
			_, stopOne := s.start("one", each)
			_, stopTwo := s.start("two", each)
			for i := range 8 {
				s.publish(fmt.Sprint("m", i), "met")
			}
			if by := s.effects(8); by["one"] == 0 || by["two"] == 0 {
				t.Errorf("who handled them: %v", by)
			}
			for i := range 60 {
				s.publish(fmt.Sprint("p", i), "plain")
			}
			s.effects(68)
			stopOne()
			stopTwo()
			if len(s.loud) > 0 {
				t.Errorf("the log has: %s", strings.Join(s.loud, "\n"))
			}
		})
	}
}

// TestSharedAndCutOff cuts an instance off from its broker while it has a parked message, a call and a new
// message in progress. Other instances, also one that joins then, do not run these messages until its lease
// or its transaction ends.
func TestSharedAndCutOff(t *testing.T) {
	t.Parallel()
	for name, shape := range shapes() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newSharing(t, shape)
			free, begun := make(chan struct{}), make(chan string, 10)
			failed := sync.Map{}
			hold := func(ctx context.Context, id string) error {
				begun <- id
				select {
				case <-free:
					return nil
				case <-ctx.Done():
					return ctx.Err()
				}
			}
			first := hands{"fresh": hold, "called": hold,
				"parked": func(ctx context.Context, id string) error {
					if _, again := failed.LoadOrStore(id, true); !again {
						return errors.New("the first time it fails")
					}
					return hold(ctx, id)
				}}
			plain := func(context.Context, string) error { return nil }
			others := hands{"fresh": plain, "parked": plain, "called": plain, "later": plain}
			cut, _ := s.start("one", first)
			for _, kind := range []string{"parked", "fresh", "called"} {
				s.publish(kind, kind)
				if got := <-begun; got != kind {
					t.Fatalf("%s is in progress, not %s", got, kind)
				}
			}
			s.start("two", others)
			cut()
			s.start("three", others)
			for i := range 20 {
				s.publish(fmt.Sprint("later", i), "later")
			}
			s.effects(20)
			var claims int // of parked messages that only their owner may claim yet
			fatal(t, s.pool.QueryRow(t.Context(), "SELECT count(*) FROM "+s.topic+
				".skald_parked WHERE id IN ('parked', 'called') AND due > now() + interval '30 s'").Scan(
				&claims))
			if claims != 2 {
				t.Errorf("of 2 messages in progress of a living instance, %d are left to it", claims)
			}
			s.awaitBug()
			close(free)
			if by := s.effects(23); by["one"] < 2 {
				t.Errorf("who handled them: %v", by)
			}
		})
	}
}

// call makes in call for the type "called", with calls that wait for the hand.
func (s *sharing) call(in *inbox.Inbox[pgx.Tx], hand func(context.Context, string) error) {
	said := skald.Event[struct{}]{Topic: s.topic, Type: "called"}
	inbox.OnCall(in, said, call.Call[pgx.Tx, struct{}, string, string]{
		At: call.NewProvider("bank", &call.ProviderOptions{Timeout: time.Minute}),
		Intent: func(_ context.Context, _ pgx.Tx, m skald.Received[struct{}]) (string, string, error) {
			return m.ID, m.ID, nil
		},
		Do: func(ctx context.Context, id, _ string) (string, error) {
			defer s.enter(id)()
			return "paid", hand(ctx, id)
		},
		Settle: func(ctx context.Context, tx pgx.Tx, m skald.Received[struct{}],
			_ call.Outcome[string]) error {
			_, err := tx.Exec(ctx, "INSERT INTO "+s.topic+".effect VALUES ($1, 'bank')", m.ID)
			return err
		},
	})
}
