package inbox_test

import (
	"context"
	"log/slog"
	"net/url"
	"strings"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/skald-go/skald"
	"github.com/skald-go/skald/broker"
	"github.com/skald-go/skald/broker/membroker"
	"github.com/skald-go/skald/inbox"
	"github.com/skald-go/skald/internal/need"
	"github.com/skald-go/skald/store/memstore"
	"github.com/skald-go/skald/store/pgstore"
)

// firstLine is a log that ends the run at the first line of a level.
type firstLine struct {
	slog.Handler
	once sync.Once
	end  context.CancelFunc
	line string
}

func (l *firstLine) Enabled(_ context.Context, level slog.Level) bool { return level >= slog.LevelWarn }

func (l *firstLine) Handle(_ context.Context, r slog.Record) error {
	l.once.Do(func() {
		l.line = r.Level.String() + " " + r.Message
		r.Attrs(func(a slog.Attr) bool {
			l.line += " " + a.String()
			return true
		})
		l.end()
	})
	return nil
}

func (l *firstLine) WithAttrs([]slog.Attr) slog.Handler { return l }

// foreign is a broker with a group that belongs to another database.
type foreign struct{ broker.Broker }

func (foreign) Subscribe(context.Context, broker.Group) (broker.Subscription, error) {
	return nil, &broker.OwnerError{Group: "stock", Owner: "a", OwnerName: "the database a"}
}

// awayFirst is a broker that is first unavailable, and then refuses.
type awayFirst struct {
	broker.Broker
	asked *int
}

func (b awayFirst) Subscribe(context.Context, broker.Group) (broker.Subscription, error) {
	if *b.asked++; *b.asked <= 2 {
		return nil, broker.ErrUnavailable
	}
	return foreign{}.Subscribe(context.Background(), broker.Group{})
}

// levels ends a run at its first ERROR, and counts lines below that.
type levels struct {
	slog.Handler
	end   context.CancelFunc
	warns *int
}

func (l levels) Handle(_ context.Context, r slog.Record) error {
	switch r.Level {
	case slog.LevelWarn:
		*l.warns++
	case slog.LevelError:
		l.end()
	}
	return nil
}

func (l levels) WithAttrs([]slog.Attr) slog.Handler { return l }

// An outage that was logged a moment ago does not delay the ERROR of a wrong setting that follows it.
func TestConfigurationErrorIsNotHiddenByAnOutage(t *testing.T) {
	bus, asked, warns := membroker.New(nil), 0, 0
	ctx, end := context.WithCancel(t.Context())
	in := inbox.New(memstore.New(nil), awayFirst{bus, &asked}, "stock", &inbox.Options{
		Logger: slog.New(levels{slog.NewTextHandler(t.Output(), nil), end, &warns})})
	inbox.On(in, skald.Event[string]{Topic: "orders", Type: "placed"},
		func(context.Context, *memstore.Tx, skald.Received[string]) error { return nil })
	if err := in.Run(ctx); err != nil || asked != 3 || warns != 1 {
		t.Errorf("the ERROR came after %d attempts and %d WARNs; %v", asked, warns, err)
	}
}

// An error that only other settings can cure is logged as an ERROR from the first time on.
func TestConfigurationErrorIsAnError(t *testing.T) {
	at, err := url.Parse(need.Postgres(t))
	if err != nil {
		t.Fatal(err)
	}
	at.Path = "/skald_no_such_database"
	at.RawQuery += "&connect_timeout=30" // without a bound a WARN is logged
	pool, err := pgxpool.New(t.Context(), at.String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pool.Close)
	bus := membroker.New(nil)
	if err := bus.MakeTopics(t.Context(), 1, "orders"); err != nil {
		t.Fatal(err)
	}
	placed := skald.Event[string]{Topic: "orders", Type: "placed"}
	for want, in := range map[string]func(o *inbox.Options) skald.Runner{
		`ERROR inbox: cannot join the group yet; will retry|database "skald_no_such_database" does not exist`: func(
			o *inbox.Options) skald.Runner {
			in := inbox.New(pgstore.New(pool, nil), bus, "stock", o)
			inbox.On(in, placed, func(context.Context, pgx.Tx, skald.Received[string]) error { return nil })
			return in
		},
		"ERROR inbox: cannot join the group yet; will retry|belongs to the database a": func(
			o *inbox.Options) skald.Runner {
			in := inbox.New(memstore.New(nil), foreign{bus}, "stock", o)
			inbox.On(in, placed,
				func(context.Context, *memstore.Tx, skald.Received[string]) error { return nil })
			return in
		},
	} {
		ctx, end := context.WithCancel(t.Context())
		log := &firstLine{end: end}
		if err := in(&inbox.Options{Logger: slog.New(log)}).Run(ctx); err != nil {
			t.Error(err)
		}
		end()
		for _, part := range strings.Split(want, "|") {
			if !strings.Contains(log.line, part) {
				t.Errorf("the log has %q, want %q", log.line, part)
			}
		}
	}
}
