package inbox_test

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/skald-go/skald"
	"github.com/skald-go/skald/inbox"
	"github.com/skald-go/skald/internal/testlog"
	"github.com/skald-go/skald/store"
	"github.com/skald-go/skald/store/memstore"
)

// want fails the test unless n lines of log contain all texts of have.
func want(t *testing.T, log *testlog.Log, n int, have ...string) {
	t.Helper()
	if got := log.Count(have...); got != n {
		t.Errorf("%d lines have %q, want %d, of:\n%s", got, have, n, log)
	}
}

// A type that no build handles is logged once, as a warning if it looks like a misspelt one. The consumer
// and its servers are logged at the start.
func TestSkippedTypeIsLoggedOnce(t *testing.T) {
	w, log := newWorld(t, 2), &testlog.Log{}
	in := w.inbox(&inbox.Options{Now: w.clock, Logger: log.Logger()}, keep)
	for _, typ := range []string{"siad", "other", "siad", "other", "said"} {
		m := w.message("k", "x")
		m.Type = typ
		w.publish(m)
	}
	w.quiet(in)
	want(t, log, 1, "level=WARN", "no build handles", "type=siad", "handled=said")
	want(t, log, 1, "level=INFO", "no build handles", "type=other")
	want(t, log, 2, "no build handles")
	want(t, log, 1, "inbox: consuming", "consumer=stock", "topics=[orders]", "orders: said", "store=memory",
		"broker=memory")
	want(t, log, 1, "inbox: ready", "partitions=2")
	if h := in.Health(); h.Skipped != 4 || h.Handled != 1 {
		t.Errorf("%+v", h)
	}
}

// A new consumer logs one warning if the database has an inactive consumer of the same topic, because that
// may be the same consumer under its old name. It logs no warning for an active consumer.
func TestANewNameIsNoticed(t *testing.T) {
	w, first, second, third, fourth := newWorld(t, 1), &testlog.Log{}, &testlog.Log{}, &testlog.Log{},
		&testlog.Log{}
	fifth := &testlog.Log{}
	w.db = memstore.New(&memstore.Options{Now: w.clock})
	named := func(name, topic string, log *testlog.Log) {
		in := inbox.New(w.db, w.bus, name, &inbox.Options{Now: w.clock, Logger: log.Logger()})
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
	want(t, first, 0, is)
	want(t, second, 1, is)
	want(t, second, 1, "level=INFO", is, "consumer=stock-2", "others=[stock]")
	want(t, fourth, 1, "level=WARN", is, "consumer=stock-3", `others="[stock stock-2]"`,
		"use the old name again", "skald consumer rename OLD NEW")
	for n := range 9 {
		named(fmt.Sprint("old-", n), "orders", &testlog.Log{})
	}
	w.pass(time.Hour)
	named("stock-4", "orders", fifth)
	want(t, fifth, 1, "level=WARN", is, `others="[old-0 old-1 old-2 old-3 old-4]"`, "count=12")
	want(t, third, 0, is)
}

// The error for a missing topic has the command that creates it.
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

// plain is a database over a network without TLS.
type plain struct{ store.Driver[tx] }

func (plain) Unencrypted() []string { return []string{"db.example"} }

// A consumer with a network connection without TLS logs that once.
func TestWithoutTLS(t *testing.T) {
	w, log := newWorld(t, 1), &testlog.Log{}
	in := w.over(plain{w.db}, &inbox.Options{Now: w.clock, Logger: log.Logger()}, keep)
	w.publish(w.message("k", "x"))
	w.quiet(in)
	want(t, log, 1, "level=WARN", "inbox: no TLS", "db.example", "sslmode=verify-full")
}
