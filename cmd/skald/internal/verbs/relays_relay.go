// This file has the commands skald relay and skald adopt: it runs the relays of a process, of Skald's
// outbox or of tables of other teams.

package verbs

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"slices"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/skald-go/skald"
	"github.com/skald-go/skald/broker"
	"github.com/skald-go/skald/cmd/skald/internal/cli"
	"github.com/skald-go/skald/cmd/skald/internal/connect"
	"github.com/skald-go/skald/internal/backoff"
	"github.com/skald-go/skald/relay"
)

const relaysAbout = `Carries committed messages from the outbox to the broker until SIGTERM or SIGINT, and empties what is older than
the retention. Several may run on one outbox: they share its shards, and take over from one another. One can serve
several schemas of a database, over one pool of connections: one that lacks a table or a right is tried again while the
others are served, and /readyz names it.

It needs the tables (skald migrate) and existing topics, nothing else. Servers that are away are waited for.

Stores: sqlite:FILE, postgres://…    Brokers: kafka://host:port[,host:port][?option=value&…], nats://…, amqp://…

Options of a broker's URL, which docs/brokers.md explains:
  kafka://  tls, ca, cert, key, sasl, user, password_file, token_file, credentials_file, partitioner, balancers, start, envelope
  nats://   tls, ca, cert, key, user, password_file, creds, nkey, replicas, retain, envelope, shapes
  amqp://   tls, ca, cert, key, user, password_file, auth, topology, prefetch, envelope, route, bind, unrouted, queue
amqp:// and nats:// URLs may be as their own clients take them: user:password@ in front of the host, without a port. Else
a password is read from its file, or from SKALD_KAFKA_PASSWORD, SKALD_NATS_PASSWORD or SKALD_RABBITMQ_PASSWORD.`

// RelaysCommand is skald relay.
func RelaysCommand(errs io.Writer) *cobra.Command {
	var r Rooms
	var metrics string
	var tables []string
	c := &cobra.Command{
		Use: "relay", Short: "Carry committed messages to the broker", Long: relaysAbout, Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			db, err := Open(connect.From(c, "store", "SKALD_STORE"), "", "")
			if err != nil {
				return err
			}
			for i, schema := range r.Schemas {
				if slices.Contains(r.Schemas[:i], schema) {
					return &cli.UsageError{What: fmt.Sprintf("--schema %s is given twice", schema)}
				}
			}
			if len(tables) > 0 {
				for _, name := range []string{"schema", "listen", "wal", "slot", "read-by", "publication",
					"trust-slot", "keep-outbox", "keep-marks", "keep-steps", "keep-sagas"} {
					if c.Flags().Changed(name) {
						return &cli.UsageError{What: "--" + name +
							" is for Skald's own outbox, not for --table"}
					}
				}
				return runTables(c.Context(), db, tables, r.Connections,
					connect.From(c, "broker", "SKALD_BROKER"), metrics,
					slog.New(slog.NewTextHandler(errs, nil)))
			}
			r.Listen = connect.From(c, "listen", "SKALD_LISTEN")
			return runRelay(c.Context(), db, r, connect.From(c, "broker", "SKALD_BROKER"), metrics,
				slog.New(slog.NewTextHandler(errs, nil)))
		},
	}
	flags(c.Flags(), &r, &tables, &metrics)
	return c
}

func flags(f *pflag.FlagSet, r *Rooms, tables *[]string, metrics *string) {
	f.String("store", "", "sqlite:FILE or postgres://…; SKALD_STORE stands for it")
	f.String("broker", "",
		"kafka://host:port[,host:port][?option=value&…], nats://… or amqp://…; SKALD_BROKER stands for it")
	f.StringArrayVar(&r.Schemas, "schema", nil,
		"where the tables are; again for each further schema of the database; PostgreSQL only (default: public)")
	f.IntVar(&r.Connections, "connections", 0,
		"to the database, at most, for all schemas together, 2 or more; PostgreSQL only (default: 4, or the URL's pool_max_conns)")
	f.StringArrayVar(tables, "table", nil,
		"FILE that says, as JSON, which columns of another outbox table make a message: carry that table instead of Skald's; again for each further one; PostgreSQL only (skald adopt outbox --print writes one)")
	f.String("listen", "",
		"postgres://… of the server itself, no pooler's: be told of what services with Options.Notify write, over one more connection; with --wal, read the slot there; SKALD_LISTEN stands for it")
	f.BoolVar(&r.WAL, "wal", false,
		"hear of commits from a logical replication slot, which is made where it is missing, instead of looking; PostgreSQL with wal_level=logical, a role with REPLICATION")
	f.StringVar(&r.Slot, "slot", "",
		"the slot, and the publication of that name; with --wal and one schema (default: skald_<database>_<schema>)")
	f.StringVar(&r.ReadBy, "read-by", "",
		"the replication slot from which Debezium reads the outbox: publish nothing but "+
			"what was deferred, move the positions to where that slot is confirmed, and empty what is older than the "+
			"retention; PostgreSQL only (docs/debezium.md)")
	f.StringVar(&r.Publication, "publication", "",
		"that the slot is read by; with --read-by (default: skald_debezium)")
	f.BoolVar(&r.TrustSlot, "trust-slot", false,
		"take it, for this start, that the slot has had or will have every row of "+
			"the outbox, where that cannot be proved: Debezium has read it all along; with --read-by")
	connect.KeepFlags(f, &r.Keep)
	f.StringVar(metrics, "metrics", "",
		"serve /metrics for Prometheus, /livez and /readyz at this address, \":9090\" (default: do not)")
}

// slots checks --wal, --slot and --read-by.
func slots(r Rooms) error {
	switch {
	case r.Slot != "" && !r.WAL:
		return &cli.UsageError{What: "--slot is for --wal"}
	case (r.Publication != "" || r.TrustSlot) && r.ReadBy == "":
		return &cli.UsageError{What: "--publication and --trust-slot are for --read-by"}
	case r.ReadBy != "" && (r.WAL || len(r.Schemas) > 1):
		return &cli.UsageError{
			What: "--read-by is for one schema, and not for --wal: who reads by the slot publishes"}
	case r.Slot != "" && len(r.Schemas) > 1:
		return &cli.UsageError{
			What: "--slot is for one schema: each needs its own; leave it out, and each has skald_<database>_<schema>"}
	}
	return nil
}

func runRelay(ctx context.Context, db Database, r Rooms, bus, metrics string,
	log *slog.Logger) (err error) {
	if err := slots(r); err != nil {
		return err
	}
	if r.Keep.Outbox <= 0 || r.Keep.Marks < r.Keep.Outbox {
		return &cli.UsageError{
			What: "--keep-outbox is more than 0, and --keep-marks is at least as much: a row that is kept can be published again, and then its mark must still be there"}
	}
	connect, err := dial(bus)
	if err != nil {
		return err
	}
	seen, err := newSight(metrics, log)
	if err != nil {
		return err
	}
	defer seen.close(ctx)
	from, done, err := openPatiently(ctx, db, r, log)
	if err != nil || from == nil {
		return err
	}
	defer done()
	to, err := connect()
	if err != nil {
		return fmt.Errorf("connect to broker: %w", err)
	}
	defer func() { err = errors.Join(err, to.Close()) }()
	all, err := runners(r, from, to, seen, log)
	if err != nil {
		return err
	}
	return skald.Run(ctx, all...)
}

// dial is connect.Dial for who publishes to others.
func dial(bus string) (func() (broker.Broker, error), error) {
	switch bus {
	case "mem:":
		return nil,
			&cli.UsageError{
				What: "mem: is a broker inside of one process: nobody could hear a relay of its own"}
	case "":
		return nil,
			&cli.UsageError{
				What: "the broker is kafka://, nats:// or amqp://host:port[,host:port]; give --broker, or SKALD_BROKER"}
	}
	return connect.Dial(bus)
}

// runners are a schemaRelay for each schema, and with --listen one listener for all of them.
func runners(r Rooms, from []relay.Source, to broker.Broker, seen *sight,
	log *slog.Logger) (all []skald.Runner, err error) {
	open := &supervisor{open: len(from)}
	for i, source := range from {
		one := &schemaRelay{source: source, log: log, all: open}
		if len(r.Schemas) > 1 {
			one.name, one.log = r.Schemas[i], log.With("schema", r.Schemas[i])
		}
		one.make = func() *relay.Relay {
			return relay.New(source, to, &relay.Options{Keep: r.Keep, Outboxes: len(from), Logger: one.log,
				MeterProvider: seen.meters})
		}
		seen.health.AddRelay("", one)
		all = append(all, one)
	}
	if r.Listen != "" && !r.WAL && r.ReadBy == "" { // who reads by a slot is told of nothing
		heard, err := listen(r.Listen, from, log)
		if err != nil {
			return nil, err
		}
		all = append(all, heard)
	}
	return all, nil
}

// openPatiently opens the database and looks whether there is something to relay; it waits for a server that
// is away, until ctx is done: then it returns nothing.
func openPatiently(ctx context.Context, db Database, r Rooms,
	log *slog.Logger) (from []relay.Source, done func(), err error) {
	err = patiently(ctx, log, func() error {
		var err error
		if from, done, err = db.Stores(ctx, r); err != nil {
			return err
		}
		if err = checkAny(ctx, from); err != nil {
			done()
			from = nil
		}
		return err
	})
	return from, done, err
}

// patiently tries again while the database is away, until ctx is done: then it returns nil.
func patiently(ctx context.Context, log *slog.Logger, try func() error) error {
	say := backoff.Rarely{First: sayEvery, Most: sayMost}
	for {
		err := try()
		if err == nil || ctx.Err() != nil {
			return nil
		}
		if !cli.Away(err) {
			return err
		}
		if say.Due(time.Now()) {
			log.Warn("waiting for the database", "error", err)
		}
		select {
		case <-ctx.Done():
		case <-time.After(time.Second):
		}
	}
}

const (
	// sayEvery is the shortest pause between two lines about the same state.
	sayEvery = 5 * time.Second
	// sayMost is the longest pause between two lines about an outage that lasts.
	sayMost = 10 * time.Minute
)

// A voice says when a relay begins to work, and that it cannot: after 5 s, then after pauses that double, up
// to 10 min. Once it can again it says for how long it could not.
type voice struct {
	relay *relay.Relay
	log   *slog.Logger
}

// Run listens until ctx is done.
func (v voice) Run(ctx context.Context) error {
	var ready bool
	say := backoff.Rarely{First: sayEvery, Most: sayMost}
	since := time.Now() // when it was last ready, or began
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(100 * time.Millisecond):
		}
		h := v.relay.Health()
		switch {
		case h.Ready && !ready && say.Over():
			v.log.Info("relaying again", "shards", h.Shards, "waited", time.Since(since).Round(time.Second))
		case h.Ready && !ready:
			v.log.Info("relaying", "shards", h.Shards)
		case !h.Ready && time.Since(since) >= sayEvery && say.Due(time.Now()):
			v.log.Warn("waiting", "why", h.Why, "since", since.Format(time.RFC3339))
		}
		if ready = h.Ready; ready {
			since = time.Now()
		}
	}
}
