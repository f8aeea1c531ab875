package main

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/skald-go/skald"
	"github.com/skald-go/skald/flow"
	"github.com/skald-go/skald/inbox"
	"github.com/skald-go/skald/status"
)

const (
	// clonedSagas makes as many sagas as are wanted of the one that is there.
	clonedSagas = `insert into skald_tracked (key, flow, state, due, drift, body)
		select 'order-' || n, flow, state, now() + n * interval '1 second', drift, replace(body, 'order-0', 'order-' || n)
		from skald_tracked, generate_series(1, $1::bigint - 1) as n`
	marking  = "a consumer that only marks, batches"
	tracking = "a tracker, batches"
	answers  = "an answer"
)

// placing is a flow of three events, all on one topic.
func placing() (*flow.Flow, []string, error) {
	names := []string{"order.placed", "order.paid", "order.sent"}
	of := func(i int) skald.Event[order] { return skald.Event[order]{Topic: "orders", Type: names[i]} }
	f, err := flow.New("order", flow.From(of(0)), flow.Then(of(0), of(1)).Within(time.Hour),
		flow.Then(of(1), of(2)).Within(time.Hour), flow.End(of(2)))
	return f, names, err
}

func byKey(m skald.Message) string { return string(m.Key) }

// events has an inbox finish events of sagas, in batches: the three of a saga come in their order, among those
// of others.
func (t *till) events(name string, handle func(f *flow.Flow, in *inbox.Inbox[pgx.Tx])) contender {
	empty := func(ctx context.Context) error {
		return execAll(ctx, t.pool, "truncate skald_mark, skald_parked, skald_tracked")
	}
	return contender{name, empty, func(ctx context.Context, m *meter) error {
		f, names, err := placing()
		if err != nil {
			return err
		}
		const apart = 333 // sagas are begun between two events of one
		var n atomic.Int64
		h, err := t.finishing(ctx, m, func(feed *feed) *inbox.Inbox[pgx.Tx] {
			in, _ := t.batches(feed, batch)
			handle(f, in)
			return in
		}, func() skald.Message {
			i, kinds := n.Add(1)-1, int64(len(names))
			msg := newMessage(0, t.data)
			msg.Type = names[i%kinds]
			msg.Key = []byte("order-" + strconv.FormatInt(i/kinds+(kinds-1-i%kinds)*apart, 10))
			return msg
		}, func(h inbox.Health) int64 { return h.Handled })
		if err != nil {
			return err
		}
		var rows int64
		if err := t.pool.QueryRow(ctx, "select count(*) from skald_tracked").Scan(&rows); err != nil {
			return fmt.Errorf("count sagas: %w", err)
		}
		if name == tracking && rows < h.Handled/3 {
			return fmt.Errorf("%d messages were handled, and %d sagas are tracked", h.Handled, rows)
		}
		return nil
	}}
}

func tracked() comparison {
	return comparison{
		name:  "tracked",
		title: "events of choreographed sagas, three each, that share transactions of up to 100, 16 workers",
		set: func(ctx context.Context, b *bench) ([]contender, error) {
			t, err := b.till(ctx)
			if err != nil {
				return nil, err
			}
			only := func(f *flow.Flow, in *inbox.Inbox[pgx.Tx]) {
				for _, e := range f.Events() {
					in.Handle(e.Topic, e.Type,
						func(context.Context, pgx.Tx, skald.Message) error { return nil })
				}
			}
			track := func(f *flow.Flow, in *inbox.Inbox[pgx.Tx]) {
				flow.NewTracker(f, t.db, &flow.Options{Key: byKey}).On(in)
			}
			return []contender{t.events(marking, only), t.events(tracking, track)}, nil
		},
		bars: []bar{{what: "marks ÷ tracks, messages/s", of: marking, to: []string{tracking},
			value: perSecond, most: 1.5}},
	}
}

// answered asks for one saga after the other by HTTP, without a network.
func answered() comparison {
	return comparison{
		name:  "status",
		title: "where a choreographed saga stands, among many that are under way, 4 clients",
		set: func(ctx context.Context, b *bench) ([]contender, error) {
			t, err := b.till(ctx)
			if err != nil {
				return nil, err
			}
			if err := t.fillSagas(ctx, b.sagasLive); err != nil {
				return nil, err
			}
			h, err := status.Handler(t.db, &status.Options{Service: "orders",
				Auth: func(h http.Handler) http.Handler { return h }})
			if err != nil {
				return nil, fmt.Errorf("make the endpoint: %w", err)
			}
			var n atomic.Int64
			ask := func(ctx context.Context, _ int) error {
				key := n.Add(7919) % int64(b.sagasLive)
				w := httptest.NewRecorder()
				h.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/order-"+strconv.FormatInt(key, 10),
					http.NoBody).WithContext(ctx))
				if w.Code != http.StatusOK {
					return fmt.Errorf("order-%d: %d %s", key, w.Code, w.Body)
				}
				return nil
			}
			nothing := func(context.Context) error { return nil }
			return []contender{{answers, nothing,
				func(ctx context.Context, m *meter) error { return m.loop(ctx, 4, 1, ask) }}}, nil
		},
		bars: []bar{{what: "p50 in ms", of: answers, value: p50},
			{what: "p99 in ms", of: answers, value: p99, most: 20}},
	}
}

// fillSagas has n sagas under way.
func (t *till) fillSagas(ctx context.Context, n int) error {
	f, _, err := placing()
	if err != nil {
		return err
	}
	m := newMessage(0, t.data)
	m.Key = []byte("order-0")
	err = pgx.BeginFunc(ctx, t.pool, func(tx pgx.Tx) error {
		return flow.NewTracker(f, t.db, &flow.Options{Key: byKey}).Handle(ctx, tx, []skald.Message{m})
	})
	if err != nil {
		return fmt.Errorf("track a saga: %w", err)
	}
	if _, err := t.pool.Exec(ctx, clonedSagas, n); err != nil {
		return fmt.Errorf("clone a saga: %w", err)
	}
	return execAll(ctx, t.pool, "vacuum analyze skald_tracked")
}
