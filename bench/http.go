package main

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/skald-go/skald/httpidem"
)

const insertPosted = `insert into posted (id) values ($1)`

// A desk takes posts at the handler, without sockets.
type desk struct {
	pool *pgxpool.Pool
	n    atomic.Int64
}

// post sends one.
func post(h http.Handler, key string) error {
	r := httptest.NewRequest(http.MethodPost, "/orders", strings.NewReader(`{"sku":"tea"}`))
	r.Header.Set("Idempotency-Key", key)
	w := httptest.NewRecorder()
	if h.ServeHTTP(w, r); w.Code != http.StatusCreated {
		return fmt.Errorf("post %s: %d: %s", key, w.Code, w.Body)
	}
	return nil
}

// fresh measures posts of which each has a key of its own.
func (d *desk) fresh(name string, h http.Handler) contender {
	return contender{name, func(ctx context.Context) error { return execAll(ctx, d.pool, "truncate posted") },
		func(ctx context.Context, m *meter) error {
			return m.loop(ctx, clients, 1,
				func(context.Context, int) error { return post(h, fmt.Sprint("k-", d.n.Add(1))) })
		}}
}

// repeated measures posts of one key for each client, which were answered before.
func (d *desk) repeated(name string, h http.Handler) contender {
	ready := func(context.Context) error {
		for i := range clients {
			if err := post(h, fmt.Sprint("r-", i)); err != nil {
				return err
			}
		}
		return nil
	}
	return contender{name, ready, func(ctx context.Context, m *meter) error {
		return m.loop(ctx, clients, 1,
			func(_ context.Context, client int) error { return post(h, fmt.Sprint("r-", client)) })
	}}
}

func endpoints() comparison {
	return comparison{
		name:  "http",
		title: "one post that inserts a row (BEGIN, insert, COMMIT), at the handler without sockets, 16 clients",
		set: func(ctx context.Context, b *bench) ([]contender, error) {
			pool, db, err := b.skald(ctx)
			if err == nil {
				err = execAll(ctx, pool, "create table posted (id text)")
			}
			if err != nil {
				return nil, err
			}
			d := &desk{pool: pool}
			bare, handle := inserting(pool), handling(db, "handle", nil)
			wrap := httpidem.Wrap(db, "wrap", httpidem.OneTenant, nil, bare)
			return []contender{
				d.fresh(bareHandler, bare), d.fresh(idempotent, handle), d.fresh("Wrap", wrap),
				d.repeated("Handle, a repeat", handle), d.repeated("Wrap, a repeat", wrap),
			}, nil
		},
		bars: []bar{
			{what: "Handle ÷ bare handler", of: idempotent, to: []string{bareHandler}, value: perSecond},
			{what: "Wrap ÷ bare handler", of: "Wrap", to: []string{bareHandler}, value: perSecond},
			{what: "a repeat of Handle per second", of: "Handle, a repeat", value: perSecond, least: 20_000},
		},
	}
}
