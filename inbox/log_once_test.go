package inbox_test

import (
	"bytes"
	"context"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/skald-go/skald"
	"github.com/skald-go/skald/inbox"
	"github.com/skald-go/skald/store"
	"github.com/skald-go/skald/store/memstore"
)

// A told is a log that a test reads.
type told struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (l *told) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

func (l *told) logger() *slog.Logger { return slog.New(slog.NewTextHandler(l, nil)) }

// lines are those that have all of these.
func (l *told) lines(have ...string) (n int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for line := range strings.Lines(l.text.String()) {
		ok := true
		for _, s := range have {
			ok = ok && strings.Contains(line, s)
		}
		if ok {
			n++
		}
	}
	return n
}

func (l *told) want(t *testing.T, n int, have ...string) {
	t.Helper()
	if got := l.lines(have...); got != n {
		t.Errorf("%d lines have %q, want %d, of:\n%s", got, have, n, &l.text)
	}
}

// A type that nobody handles is named once, louder where it is a handled one misspelt; who consumes what is
// said at the start.
func TestWhatIsSkippedIsNamedOnce(t *testing.T) {
	w, log := newWorld(t, 2), &told{}
	in := w.inbox(&inbox.Options{Now: w.clock, Logger: log.logger()}, keep)
	for _, typ := range []string{"siad", "other", "siad", "other", "said"} {
		m := w.message("k", "x")
		m.Type = typ
		w.publish(m)
	}
	w.quiet(in)
	log.want(t, 1, "level=WARN", "nobody handles", "type=siad", "handled=said")
	log.want(t, 1, "level=INFO", "nobody handles", "type=other")
	log.want(t, 2, "nobody handles")
	log.want(t, 1, "inbox: consuming", "consumer=stock", "topics=[orders]", "orders: said", "store=memory",
		"broker=memory")
	log.want(t, 1, "inbox: ready", "partitions=2")
	if h := in.Health(); h.Skipped != 4 || h.Handled != 1 {
		t.Errorf("%+v", h)
	}
}

// A consumer that is new to a database which knows another one of the same topic, of which nothing is heard
// any more, may be that one renamed: it warns, once. Beside one that is at work it is another reader.
func TestANewNameIsNoticed(t *testing.T) {
	w, first, second, third, fourth := newWorld(t, 1), &told{}, &told{}, &told{}, &told{}
	w.db = memstore.New(&memstore.Options{Now: w.clock})
	named := func(name, topic string, log *told) {
		in := inbox.New(w.db, w.bus, name, &inbox.Options{Now: w.clock, Logger: log.logger()})
		inbox.On(in, skald.Event[string]{Topic: topic, Type: "said"}, keep)
		w.quiet(in)
		w.leave(in)
	}
	if err := w.bus.MakeTopics(t.Context(), 1, "parcels"); err != nil {
		t.Fatal(err)
	}
	named("stock", "orders", first)
	named("stock-2", "orders", second)
	named("stock-2", "orders", second)
	named("parcels", "parcels", third)
	w.pass(time.Hour)
	named("stock-3", "orders", fourth)
	const is = "this consumer is new to the database"
	first.want(t, 0, is)
	second.want(t, 1, is)
	second.want(t, 1, "level=INFO", is, "consumer=stock-2", "others=[stock]")
	fourth.want(t, 1, "level=WARN", is, "consumer=stock-3", `others="[stock stock-2]"`,
		"give it the old name back", "skald inbox rename OLD NEW")
	third.want(t, 0, is)
}

// A topic that is not there is named with the command that makes it.
func TestMissingTopicHasARemedy(t *testing.T) {
	w := newWorld(t, 1)
	in := inbox.New(w.db, w.bus, "stock", &inbox.Options{Logger: slog.New(slog.DiscardHandler)})
	inbox.On(in, skald.Event[string]{Topic: "nowhere", Type: "said"},
		func(context.Context, tx, skald.Received[string]) error { return nil })
	_, err := in.Step(t.Context())
	if err == nil || !strings.Contains(err.Error(),
		"skald migrate --broker URL --group stock --topic nowhere") {
		t.Errorf("got %v", err)
	}
}

// plain is a database that is reached over a network without TLS.
type plain struct{ store.Driver[tx] }

func (plain) Unencrypted() []string { return []string{"db.example"} }

// Who works over a network without TLS says so once.
func TestWithoutTLS(t *testing.T) {
	w, log := newWorld(t, 1), &told{}
	in := w.over(plain{w.db}, &inbox.Options{Now: w.clock, Logger: log.logger()}, keep)
	w.publish(w.message("k", "x"))
	w.quiet(in)
	log.want(t, 1, "level=WARN", "inbox: no TLS", "db.example", "sslmode=verify-full")
}
