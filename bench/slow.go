package main

import (
	"context"
	"fmt"
	"io"
	"net"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/skald-go/skald/store/pgstore"
)

// slowness is what the proxy adds to each round trip: what another machine of the same data centre does.
const slowness = 500 * time.Microsecond

// A delay is a proxy that hands on what the server answers some time after it came.
type delay struct {
	to string
	l  net.Listener
	wg sync.WaitGroup
}

// slow is a pool of t's database behind a delay, until the end of the comparison.
func (b *bench) slow(ctx context.Context, pool *pgxpool.Pool) (*pgxpool.Pool, error) {
	cfg := pool.Config()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("start the proxy: %w", err)
	}
	d := &delay{to: net.JoinHostPort(cfg.ConnConfig.Host, fmt.Sprint(cfg.ConnConfig.Port)), l: l}
	go d.serve()
	b.later(func() error {
		err := l.Close()
		d.wg.Wait()
		return err
	})
	at := l.Addr().(*net.TCPAddr)
	cfg.ConnConfig.Host, cfg.ConnConfig.Port, cfg.ConnConfig.Fallbacks = at.IP.String(), uint16(at.Port), nil
	slowed, err := pgxpool.NewWithConfig(ctx, cfg)
	if err != nil {
		return nil, fmt.Errorf("connect through the proxy: %w", err)
	}
	b.later(func() error { slowed.Close(); return nil })
	return slowed, nil
}

func (d *delay) serve() {
	for {
		client, err := d.l.Accept()
		if err != nil {
			return // it was closed
		}
		d.wg.Go(func() { d.join(client) })
	}
}

func (d *delay) join(client net.Conn) {
	defer client.Close()
	server, err := net.Dial("tcp", d.to)
	if err != nil {
		return // so the client is told
	}
	defer server.Close()
	go func() {
		_, _ = io.Copy(server, client)
		_ = server.(*net.TCPConn).CloseWrite()
	}()
	buf := make([]byte, 256<<10)
	for {
		n, err := server.Read(buf)
		if n > 0 {
			time.Sleep(slowness)
			if _, err := client.Write(buf[:n]); err != nil {
				return
			}
		}
		if err != nil {
			return
		}
	}
}

// slowTrips is idempotent-message with a network between.
func slowTrips() comparison {
	return comparison{
		name:  "slow-trips",
		title: fmt.Sprintf("an idempotent message with %v more for each round trip, 16 workers", slowness),
		set: func(ctx context.Context, b *bench) ([]contender, error) {
			t, err := b.till(ctx)
			if err != nil {
				return nil, err
			}
			pool, err := b.slow(ctx, t.pool)
			if err != nil {
				return nil, err
			}
			t.pool, t.db = pool, pgstore.New(pool, nil)
			committed := func(ctx context.Context, c *pgx.Conn, id string, value order) error {
				return t.tutorial(ctx, c, pgx.ReadCommitted, id, value)
			}
			return []contender{
				t.turn(single, t.each(1, 0)), t.turn(batched, t.each(batch, 0)), t.turn(onceForAll, t.atOnce),
				t.byHand(threeTrips, t.threeTrips, fresh), t.byHand(tutorialForm, committed, fresh),
			}, nil
		},
		bars: []bar{
			{what: "skald inbox ÷ tutorial", of: single, to: []string{tutorialForm}, value: perSecond,
				least: 1.8},
			{what: "skald inbox, batches ÷ tutorial", of: batched, to: []string{tutorialForm},
				value: perSecond, least: 1.8},
			{what: "skald inbox ÷ by hand", of: single, to: []string{threeTrips}, value: perSecond},
		},
	}
}

const (
	threeTrips   = "by hand: 3 round trips"
	tutorialForm = "tutorial: READ COMMITTED"
)
