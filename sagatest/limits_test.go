package sagatest_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/skald-go/skald/broker"
	"github.com/skald-go/skald/broker/membroker"
	"github.com/skald-go/skald/relay"
	"github.com/skald-go/skald/store/pgstore"
)

// TestRelayDefersRowsThatExceedLimits: the table trusts the value of bucket, except for sizes, but the
// relay does not. A row that exceeds a limit is deferred under its name, and so are rows that were too
// large before the table had the limit.
func TestRelayDefersRowsThatExceedLimits(t *testing.T) {
	a := newAttack(t)
	ctx := t.Context()
	const insert = ".skald_outbox (topic, key, type, data, subject, bucket) VALUES "
	a.exec("ALTER TABLE " + a.schema + ".skald_outbox DISABLE TRIGGER zz_skald_limits")
	for _, row := range []string{
		"('orders', 'a', 'said', '1', NULL, 1)",
		"('two words', 'b', 'said', '2', NULL, 2)",
		"('orders', 'c', '', '3', NULL, 3)",
		"('orders', repeat('k', 1025), 'said', '4', NULL, 4)",
		"('orders', 'e', 'said', repeat('x', 921601), NULL, 5)",
		"('orders', 'f', 'said', '6', repeat('s', 1025), 6)",
		"('orders', 'c', 'said', '7', NULL, 3)", // waits for the row that exceeded the limit of the type
		"('orders', 'a', 'said', '8', NULL, 1)",
	} {
		a.exec("INSERT INTO " + a.schema + insert + row)
	}
	bus := membroker.New(nil)
	if err := bus.MakeTopics(ctx, 1, "orders"); err != nil {
		t.Fatal(err)
	}
	r := relay.New(pgstore.New(a.pool, &pgstore.Options{Schema: a.schema}), bus,
		&relay.Options{DeferFirst: time.Millisecond, DeferMost: time.Millisecond})
	sub, err := bus.Subscribe(ctx, broker.Group{Name: "reader", Topics: []string{"orders"}})
	if err != nil {
		t.Fatal(err)
	}
	const tries = `SELECT coalesce(min(attempts), 0) FROM (SELECT attempts FROM $.skald_deferred WHERE attempts > 0) AS a`
	var got, why []string
	for until := time.Now().Add(5 * time.Minute); ; {
		if _, err := r.Step(ctx); err != nil {
			t.Fatal(err)
		}
		b, err := sub.Receive(ctx, 10)
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range b.Deliveries {
			got = append(got, string(d.Data))
		}
		if len(got) >= 2 && scalar[int](t, a, tries) > 1 { // the rows were checked again
			break
		}
		if time.Now().After(until) {
			t.Fatalf("delivered %q only, tried %d times", got, scalar[int](t, a, tries))
		}
	}
	if want := []string{"1", "8"}; !slices.Equal(got, want) {
		t.Errorf("delivered %.80q, want %q", got, want)
	}
	why = scalar[[]string](t, a,
		`SELECT array_agg(coalesce(substring(reason FROM 'skald_outbox_[a-z]*'), '') ORDER BY seq) FROM $.skald_deferred`)
	if want := []string{"skald_outbox_topic", "skald_outbox_type", "skald_outbox_key", "skald_outbox_data",
		"skald_outbox_subject", ""}; !slices.Equal(why, want) {
		t.Errorf("deferred for %q, want %q", why, want)
	}
}

// scalar returns the result of a query; $ is replaced by its schema.
func scalar[T any](t *testing.T, a *attack, query string) (v T) {
	t.Helper()
	if err := a.pool.QueryRow(t.Context(), strings.ReplaceAll(query, "$", a.schema)).Scan(&v); err != nil {
		t.Fatal(err)
	}
	return v
}
