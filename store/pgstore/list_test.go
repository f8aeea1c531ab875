package pgstore

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/skald-go/skald"
	"github.com/skald-go/skald/internal/uuid7"
	"github.com/skald-go/skald/store"
	"github.com/skald-go/skald/store/pgstore/internal/query"
)

// TestLists checks that each row keeps its own values and its order, for any number of rows and for each
// statement.
func TestLists(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	s := b.store(t)
	ctx := context.Background()
	var want []string
	for n := range query.UsualMost + 3 {
		var ms []skald.Message
		for i := range n {
			name := func(what string) string { return fmt.Sprintf("%s %d of %d", what, i, n) }
			at := time.Now().UTC().Truncate(time.Microsecond)
			m := skald.Message{Topic: fmt.Sprintf("t%d.%d", n, i), Type: name("type"),
				Key: []byte(name("key")), Data: []byte(name("data")), ContentType: query.UsualType,
				CorrelationID: name("correlation"), CausationID: name("cause"), TraceParent: name("trace"),
				Time: at, ID: uuid7.New(at)}
			if i%3 == 1 {
				m.Key, m.CausationID, m.TraceParent = nil, "", ""
			}
			ms = append(ms, m)
			want = append(want, fmt.Sprint(m.Topic, m.Type, string(m.Key), string(m.Data), m.CorrelationID,
				m.CausationID, m.TraceParent, m.Time.UnixMicro(), m.ID))
		}
		if err := pgx.BeginFunc(ctx, b.pool,
			func(tx pgx.Tx) error { return s.Write(ctx, tx, store.Effect{Rows: ms}) }); err != nil {
			t.Fatal(err)
		}
	}
	rows, err := b.pool.Query(ctx,
		b.q(`SELECT topic, type, coalesce(key, ''), data, correlation_id, coalesce(causation_id, ''), coalesce(traceparent, ''), time, id::text
		FROM {skald_outbox} WHERE bucket IS NOT NULL ORDER BY seq`))
	if err != nil {
		t.Fatal(err)
	}
	got, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (string, error) {
		var topic, kind, key, data, correlation, cause, trace, id string
		var at time.Time
		err := row.Scan(&topic, &kind, &key, &data, &correlation, &cause, &trace, &at, &id)
		return fmt.Sprint(topic, kind, key, data, correlation, cause, trace, at.UnixMicro(), id), err
	})
	if err != nil || !slices.Equal(got, want) {
		t.Errorf("%v: got\n%q, want\n%q", err, got, want)
	}
}
