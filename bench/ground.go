package main

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net/url"
	"strings"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/skald-go/skald/store/pgstore"
)

const prefix = "skald_bench_"

// later is done, last first, at the end of the comparison.
func (b *bench) later(f func() error) { b.undo = append(b.undo, f) }

func (b *bench) tidy() error {
	var errs []error
	for i := len(b.undo) - 1; i >= 0; i-- {
		errs = append(errs, b.undo[i]())
	}
	b.undo = nil
	return errors.Join(errs...)
}

// name is one that is nobody else's.
func name() string { return prefix + strings.ToLower(rand.Text()[:10]) }

// database is a new one, until the end of the comparison.
func (b *bench) database(ctx context.Context) (*pgxpool.Pool, error) {
	db := name()
	if _, err := b.probe.conn.Exec(ctx, "create database "+db+
		" encoding 'UTF8' template template0"); err != nil {
		return nil, fmt.Errorf("make database: %w", err)
	}
	b.later(func() error {
		ctx, stop := context.WithTimeout(context.WithoutCancel(ctx), time.Minute)
		defer stop()
		_, err := b.probe.conn.Exec(ctx, "drop database "+db+" with (force)")
		return err
	})
	at, err := url.Parse(b.pg)
	if err != nil {
		return nil, errors.New("the URL of PostgreSQL cannot be read")
	}
	at.Path = "/" + db
	return b.connect(ctx, at.String(), 64)
}

// connect is a pool of its own, until the end of the comparison.
func (b *bench) connect(ctx context.Context, url string, most int32) (*pgxpool.Pool, error) {
	cfg, err := pgxpool.ParseConfig(url)
	if err != nil {
		return nil, fmt.Errorf("connect: %w", err)
	}
	cfg.MaxConns = most
	pool, err := pgxpool.NewWithConfig(ctx, cfg)
	if err != nil {
		return nil, fmt.Errorf("connect: %w", err)
	}
	b.later(func() error { pool.Close(); return nil })
	return pool, nil
}

// skald is a new database with our tables.
func (b *bench) skald(ctx context.Context) (*pgxpool.Pool, *pgstore.Store, error) {
	pool, err := b.database(ctx)
	if err != nil {
		return nil, nil, err
	}
	if _, err := pgstore.Migrate(ctx, pool, &pgstore.MigrateOptions{Source: "/bench"}); err != nil {
		return nil, nil, err
	}
	return pool, pgstore.New(pool, nil), nil
}

func execAll(ctx context.Context, pool *pgxpool.Pool, statements ...string) error {
	for _, s := range statements {
		if _, err := pool.Exec(ctx, s); err != nil {
			return fmt.Errorf("%.60q: %w", s, err)
		}
	}
	return nil
}

// topic is a new one with this many partitions, until the end of the comparison.
func (b *bench) topic(ctx context.Context, partitions int32) (string, error) {
	cl, err := kgo.NewClient(kgo.SeedBrokers(strings.Split(b.kafka, ",")...))
	if err != nil {
		return "", fmt.Errorf("connect to Kafka: %w", err)
	}
	b.later(func() error { cl.Close(); return nil })
	adm, topic := kadm.NewClient(cl), name()
	if _, err := adm.CreateTopic(ctx, partitions, -1, nil, topic); err != nil {
		return "", fmt.Errorf("make topic: %w", err)
	}
	b.later(func() error {
		ctx, stop := context.WithTimeout(context.WithoutCancel(ctx), time.Minute)
		defer stop()
		_, err := adm.DeleteTopic(ctx, topic)
		return err
	})
	return topic, nil
}
