// This file has the command skald relay.

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

const relaysAbout = `Publishes committed messages from the outbox to the broker until SIGTERM or SIGINT, and deletes rows
after their retention. Several relays share the shards of an outbox. If one ends, the others take over its
shards. One relay can serve several schemas of a database with one pool of connections. If a table or a
right is missing in one schema, the relay retries that schema and serves the others; /readyz names it.

The relay needs the tables (skald migrate) and existing topics. It waits for unavailable servers.

Stores: sqlite:FILE, postgres://…    Brokers: kafka://host:port[,host:port][?option=value&…], nats://…, amqp://…

Options of a broker's URL, explained in docs/brokers.md:
  kafka://  tls, ca, cert, key, sasl, user, password_file, token_file, credentials_file, partitioner, balancers, start, envelope
  nats://   tls, ca, cert, key, user, password_file, creds, nkey, replicas, retain, envelope, shapes
  amqp://   tls, ca, cert, key, user, password_file, auth, topology, prefetch, envelope, route, bind, unrouted, queue
amqp:// and nats:// URLs may also have user:password@ before the host, and no port, as other clients accept. Otherwise
the password is in password_file, or in SKALD_KAFKA_PASSWORD, SKALD_NATS_PASSWORD or SKALD_RABBITMQ_PASSWORD.`

// RelaysCommand returns skald relay.
func RelaysCommand(errs io.Writer) *cobra.Command {
	var r Rooms
	var metrics string
	var tables []string
	c := &cobra.Command{
		Use: "relay", Short: "Publish committed messages to the broker",
		Long: relaysAbout, Args: cobra.NoArgs,
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
	f.String("store", "", "`URL` of the database: sqlite:FILE or postgres://… (default: SKALD_STORE)")
	f.String("broker", "",
		"`URL` of the broker: kafka://…, nats://… or amqp://… (default: SKALD_BROKER)")
	f.StringArrayVar(&r.Schemas, "schema", nil,
		"PostgreSQL `SCHEMA` of the tables; repeatable (default: public)")
	f.IntVar(&r.Connections, "connections", 0,
		"at most `N` connections to PostgreSQL for all schemas, 2 or more (default: 4, or pool_max_conns of the URL)")
	f.StringArrayVar(tables, "table", nil,
		"publish another outbox table with the column map in this `FILE`, from skald adopt outbox --print; PostgreSQL only; repeatable")
	f.String("listen", "",
		"`URL` of the PostgreSQL server, not of a pooler, for notifications of services with Options.Notify, and for the slot of --wal (default: SKALD_LISTEN)")
	f.BoolVar(&r.WAL, "wal", false,
		"read commits from a logical replication slot instead of polling; creates the slot; needs wal_level=logical and a role with REPLICATION")
	f.StringVar(&r.Slot, "slot", "",
		"with --wal and one schema: `NAME` of the slot and its publication (default: skald_<database>_<schema>)")
	f.StringVar(&r.ReadBy, "read-by", "",
		"`SLOT` from which Debezium reads the outbox: publish only deferred messages, follow the "+
			"confirmed position of the slot, and delete rows after their retention; PostgreSQL only (docs/adopt.md)")
	f.StringVar(&r.Publication, "publication", "",
		"with --read-by: `NAME` of the publication (default: skald_debezium)")
	f.BoolVar(&r.TrustSlot, "trust-slot", false,
		"with --read-by: assume for this start that Debezium reads every row of the outbox "+
			"from this slot, if that cannot be proved")
	connect.KeepFlags(f, &r.Keep)
	f.StringVar(metrics, "metrics", "",
		"serve /metrics, /livez and /readyz at this `ADDRESS`, such as :9090 (default: none)")
}

// slots returns a usage error for wrong combinations of --wal, --slot and --read-by.
func slots(r Rooms) error {
	switch {
	case r.Slot != "" && !r.WAL:
		return &cli.UsageError{What: "--slot is for --wal"}
	case (r.Publication != "" || r.TrustSlot) && r.ReadBy == "":
		return &cli.UsageError{What: "--publication and --trust-slot are for --read-by"}
	case r.ReadBy != "" && (r.WAL || len(r.Schemas) > 1):
		return &cli.UsageError{
			What: "--read-by is for one schema, and cannot be combined with --wal: Debezium publishes"}
	case r.Slot != "" && len(r.Schemas) > 1:
		return &cli.UsageError{
			What: "--slot is for one schema: omit it, and each schema gets the slot skald_<database>_<schema>"}
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
			What: "--keep-outbox is positive, and --keep-marks is at least as long: a retained row can be published again, and then needs its mark"}
	}
	connect, err := dial(bus)
	if err != nil {
		return err
	}
	seen, err := newMonitor(metrics, log)
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

// dial is connect.Dial for a relay. It refuses mem:, because that broker is inside one process.
func dial(bus string) (func() (broker.Broker, error), error) {
	switch bus {
	case "mem:":
		return nil,
			&cli.UsageError{
				What: "mem: is a broker inside one process: no other process receives its messages"}
	case "":
		return nil,
			&cli.UsageError{
				What: "the broker is kafka://, nats:// or amqp://host:port[,host:port]; give --broker, or set SKALD_BROKER"}
	}
	return connect.Dial(bus)
}

// runners returns a schemaRelay for each source, and with --listen one listener for all sources.
func runners(r Rooms, sources []relay.Source, to broker.Broker, seen *monitor,
	log *slog.Logger) (all []skald.Runner, err error) {
	open := &supervisor{open: len(sources)}
	for i, source := range sources {
		one := &schemaRelay{source: source, log: log, all: open}
		if len(r.Schemas) > 1 {
			one.name, one.log = r.Schemas[i], log.With("schema", r.Schemas[i])
		}
		one.make = func() *relay.Relay {
			return relay.New(source, to, &relay.Options{Keep: r.Keep, Outboxes: len(sources), Logger: one.log,
				MeterProvider: seen.meters})
		}
		seen.health.Add("", one)
		all = append(all, one)
	}
	if r.Listen != "" && !r.WAL && r.ReadBy == "" { // replication slots make notifications unnecessary
		listener, err := listen(r.Listen, sources, log)
		if err != nil {
			return nil, err
		}
		all = append(all, listener)
	}
	return all, nil
}

// openPatiently opens the database, and checks that at least one schema can be served. It waits while the
// server is down. If ctx ends first, it returns nil for all results.
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

// patiently repeats the call of the function attempt while the database is down. If ctx ends first, it
// returns nil.
func patiently(ctx context.Context, log *slog.Logger, attempt func() error) error {
	due := backoff.LogLimit{First: logEvery, Most: logMost}
	for {
		err := attempt()
		if err == nil || ctx.Err() != nil {
			return nil
		}
		if !cli.Away(err) {
			return err
		}
		if due.Due(time.Now()) {
			log.Warn("waiting for the database", "error", cli.OneLine(err))
		}
		select {
		case <-ctx.Done():
		case <-time.After(time.Second):
		}
	}
}

const (
	// logEvery is the shortest pause between two lines about the same state.
	logEvery = 5 * time.Second
	// logMost is the longest pause between two lines about a long outage.
	logMost = 10 * time.Minute
)

// relayLog logs that a relay is ready, or why it is not ready. It logs an outage after 5 s, and then after
// pauses that double, up to 10 min. When the relay is ready again, relayLog logs the duration of the outage.
type relayLog struct {
	relay *relay.Relay
	log   *slog.Logger
}

// Run checks the relay until ctx is done.
func (v relayLog) Run(ctx context.Context) error {
	var ready bool
	due := backoff.LogLimit{First: logEvery, Most: logMost}
	since := time.Now() // when it was last ready, or began
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(100 * time.Millisecond):
		}
		h := v.relay.Health()
		switch {
		case h.Ready && !ready && due.Over():
			v.log.Info("relaying again", "shards", h.Shards, "waited", time.Since(since).Round(time.Second))
		case h.Ready && !ready:
			v.log.Info("relaying", "shards", h.Shards)
		case !h.Ready && time.Since(since) >= logEvery && due.Due(time.Now()):
			v.log.Warn("waiting", "why", h.Why, "since", since.Format(time.RFC3339))
		}
		if ready = h.Ready; ready {
			since = time.Now()
		}
	}
}
