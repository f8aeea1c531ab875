package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/skald-go/skald"
	"github.com/skald-go/skald/broker/kafkabroker"
	"github.com/skald-go/skald/examples/shop/place"
	"github.com/skald-go/skald/relay"
	"github.com/skald-go/skald/store"
)

const relayAbout = `Carries committed messages from the outbox to the broker until SIGTERM or SIGINT, and empties what is older than
the retention. Several may run on one outbox: they share its lanes, and take over from one another.

It needs the tables (skald migrate) and existing topics, nothing else. Servers that are away are waited for.

Stores: sqlite:FILE, postgres://…    Brokers: kafka://host:port[,host:port]`

func relayCommand(errs io.Writer) *cobra.Command {
	var schema string
	c := &cobra.Command{
		Use: "relay", Short: "Carry committed messages to the broker", Long: relayAbout, Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			db, err := openDatabase(from(c, "store", "SKALD_STORE"), schema, "")
			if err != nil {
				return err
			}
			return runRelay(c.Context(), db, from(c, "broker", "SKALD_BROKER"), slog.New(slog.NewTextHandler(errs, nil)))
		},
	}
	f := c.Flags()
	f.String("store", "", "sqlite:FILE or postgres://…; SKALD_STORE stands for it")
	f.String("broker", "", "kafka://host:port[,host:port]; SKALD_BROKER stands for it")
	f.StringVar(&schema, "schema", "", "where the tables are; PostgreSQL only (default: public)")
	return c
}

func runRelay(ctx context.Context, db database, bus string, log *slog.Logger) (err error) {
	switch {
	case bus == "mem:":
		return &place.UsageError{What: "mem: is a broker inside of one process: nobody could hear a relay of its own"}
	case !strings.HasPrefix(bus, "kafka:"):
		return &place.UsageError{What: "the broker is kafka://host:port[,host:port]; give --broker, or SKALD_BROKER"}
	}
	seeds, err := kafkabroker.ParseURL(bus)
	if err != nil {
		return &place.UsageError{What: err.Error()}
	}
	from, done, err := openPatiently(ctx, db, log)
	if err != nil || from == nil {
		return err
	}
	defer done()
	to, err := kafkabroker.New(seeds, nil)
	if err != nil {
		return fmt.Errorf("connect to broker: %w", err)
	}
	defer func() { err = errors.Join(err, to.Close()) }()
	r := relay.New(from, to, &relay.Options{Logger: log})
	return skald.Run(ctx, r, voice{r, log})
}

// openPatiently opens the database and checks its tables; it waits for a server that is away, until ctx is done: then
// it returns nothing.
func openPatiently(ctx context.Context, db database, log *slog.Logger) (relay.Source, func(), error) {
	var said time.Time
	for {
		from, done, err := db.store(ctx)
		if err == nil {
			if err = from.Check(ctx, store.Relay); err == nil {
				return from, done, nil
			}
			done()
		}
		if ctx.Err() != nil {
			return nil, nil, nil
		}
		if !place.Away(err) {
			return nil, nil, err
		}
		if time.Since(said) >= sayEvery {
			said = time.Now()
			log.Warn("waiting for the database", "error", err)
		}
		select {
		case <-ctx.Done():
		case <-time.After(time.Second):
		}
	}
}

// A voice says when a relay begins to work, and every 5 s that it cannot.
type voice struct {
	relay *relay.Relay
	log   *slog.Logger
}

// Run listens until ctx is done.
func (v voice) Run(ctx context.Context) error {
	var ready bool
	said := time.Now()
	for {
		select {
		case <-ctx.Done():
			v.log.Info("stopping")
			return nil
		case <-time.After(100 * time.Millisecond):
		}
		h := v.relay.Health()
		switch {
		case h.Ready != ready && h.Ready:
			v.log.Info("relaying", "lanes", h.Lanes)
		case h.Ready:
		case time.Since(said) < sayEvery:
			continue
		default:
			v.log.Warn("waiting", "why", h.Why)
		}
		ready, said = h.Ready, time.Now()
	}
}
