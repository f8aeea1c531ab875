package main

import (
	"context"
	"fmt"
	"net/http"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/skald-go/skald/httpidem"
	"github.com/skald-go/skald/store"
	"github.com/skald-go/skald/store/pgstore"
)

const (
	bareHandler = "bare handler"
	idempotent  = "Handle"
	andLocked   = "Handle, an entity locked"
)

// added is what idempotency, and idempotency with a lock, add to the latency of one handler with one insert:
// one client at a time, with and without a network between.
func added(name string, slow bool, most, mostLocked float64) comparison {
	network := "no network between"
	if slow {
		network = fmt.Sprintf("%v more for each round trip", slowness)
	}
	return comparison{
		name: name, title: "latency of one post that inserts a row, one client, " + network,
		set: func(ctx context.Context, b *bench) ([]contender, error) {
			pool, db, err := b.skald(ctx)
			if err == nil {
				err = execAll(ctx, pool, "create table posted (id text)")
			}
			if err == nil && slow {
				pool, err = b.slow(ctx, pool)
				db = pgstore.New(pool, nil)
			}
			if err != nil {
				return nil, err
			}
			d := &desk{pool: pool}
			return []contender{d.single(bareHandler, inserting(pool)),
				d.single(idempotent, handling(db, "handle", nil)), d.single(andLocked, locking(db))}, nil
		},
		bars: []bar{
			{what: "added by idempotency, p50 ms", of: idempotent, to: []string{bareHandler}, value: p50,
				most: most, added: true},
			{what: "added by idempotency, p99 ms", of: idempotent, to: []string{bareHandler}, value: p99,
				added: true},
			{what: "added by idempotency with a lock, p50 ms", of: andLocked, to: []string{bareHandler},
				value: p50, most: mostLocked, added: true},
			{what: "added by idempotency with a lock, p99 ms", of: andLocked, to: []string{bareHandler},
				value: p99, added: true},
		},
	}
}

// single measures posts that come one after the other, each with a key of its own.
func (d *desk) single(name string, h http.Handler) contender {
	return contender{name, nil, func(ctx context.Context, m *meter) error {
		return m.loop(ctx, 1, 1,
			func(context.Context, int) error { return post(h, fmt.Sprint("k-", d.n.Add(1))) })
	}}
}

// inserting is a handler that knows nothing of keys: BEGIN, insert, COMMIT.
func inserting(pool *pgxpool.Pool) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		err := pgx.BeginFunc(r.Context(), pool, func(tx pgx.Tx) error {
			_, err := tx.Exec(r.Context(), insertPosted, r.Header.Get("Idempotency-Key"))
			return err
		})
		if err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		w.WriteHeader(http.StatusCreated)
	})
}

// handling is the same insert under Handle.
func handling(db httpidem.Store[pgx.Tx], name string, o *httpidem.Options) http.Handler {
	return httpidem.Handle(db, name, httpidem.OneTenant, o,
		func(ctx context.Context, tx pgx.Tx, q httpidem.Request[[]byte]) (httpidem.Reply[string], error) {
			_, err := tx.Exec(ctx, insertPosted, q.Key)
			return httpidem.Created("done", "/posted/"+q.Key), err
		})
}

// locking locks an entity of the request with its key.
func locking(db *pgstore.Store) http.Handler {
	return handling(db, "locked", &httpidem.Options{Entities: func(r *http.Request, _ []byte) []store.Lock {
		return []store.Lock{{Space: "account", Key: r.Header.Get(httpidem.KeyHeader)}}
	}})
}
