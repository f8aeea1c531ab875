// This file has the command skald migrate.

package verbs

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/skald-go/skald/cmd/skald/internal/cli"
	"github.com/skald-go/skald/cmd/skald/internal/connect"
	"github.com/skald-go/skald/store/pgstore"
)

var errPending = errors.New("there are migrations to apply: run skald migrate without --check")

const migrateAbout = `Creates Skald's tables, or updates them. It does nothing if they are up to date. Two runs at the same
time are safe.

--topic creates topics at the broker, with or without a database. --group creates the queues of a
consumer group on RabbitMQ: a queue receives only messages that are published later. Other brokers need no
queues. Existing topics and queues do not change. The command fails if one of them can lose messages.

--outbox-slots changes the number of slots of the outbox, one for each day, while services run. Rows can be
retained for two days less than the number of slots (default: 10). If the command is interrupted, run it
again.

--print --format TOOL --dir DIR writes each missing migration as a numbered file for your own migration
tool. Repeat it after each upgrade.

Stores: sqlite:FILE, postgres://…    Brokers: kafka://host:port[,host:port][?option=value&…], nats://…, amqp://…`

// Migrate returns skald migrate.
func Migrate(out io.Writer) *cobra.Command {
	var schema, source string
	var check bool
	var p printing
	var rows int
	var topics topology
	t := &cli.Output{Out: out}
	c := &cobra.Command{
		Use: "migrate", Short: "Create or update the tables", Long: migrateAbout,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) (err error) {
			defer func() { err = t.End(err) }()
			atBroker, err := topics.isWanted(c)
			if err == nil && atBroker && p.script {
				err = &cli.UsageError{What: "--print is for databases: omit --broker"}
			}
			store := connect.From(c, "store", "SKALD_STORE")
			switch {
			case err != nil:
				return err
			case atBroker && store == "":
				return topics.migrate(c.Context(), t, check)
			}
			db, err := Open(store, schema, source)
			if err == nil {
				err = together(db, rows, check, p)
			}
			switch {
			case err != nil:
				return err
			case p.script:
				return p.print(t, db)
			case check:
				err = checkPending(c, t, db)
			default:
				err = migrate(c.Context(), t, db, rows)
			}
			if !atBroker || err != nil && !errors.Is(err, errPending) {
				return err
			}
			return cmp.Or(topics.migrate(c.Context(), t, check), err)
		},
	}
	t.Flag(c)
	f := c.Flags()
	f.String("store", "", "`URL` of the database: sqlite:FILE or postgres://… (default: SKALD_STORE)")
	f.StringVar(&schema, "schema", "", "PostgreSQL `SCHEMA` of the tables (default: public)")
	f.StringVar(&source, "source", "",
		"`SOURCE` of all messages of this database, forever (default: /DATABASE/SCHEMA)")
	f.IntVar(&rows, "outbox-slots", 0,
		"resize the outbox to `N` slots of a day, PostgreSQL only")
	f.String("broker", "",
		"`URL` of the broker: kafka://…, nats://… or amqp://… (default with --topic: SKALD_BROKER)")
	f.StringArrayVar(&topics.topics, "topic", nil, "`TOPIC` to create at the broker; repeatable")
	f.StringArrayVar(&topics.groups, "group", nil,
		"consumer `GROUP` that reads these topics, for RabbitMQ; repeatable")
	f.IntVar(&topics.partitions, "partitions", 0,
		"create topics with `N` partitions (default: the broker's)")
	f.BoolVar(&check, "check", false, "change nothing; exit with code 8 if something is missing")
	f.BoolVar(&p.script, "print", false, "change nothing; print the SQL of all tables")
	f.StringVar(&p.tool, "format", "",
		"with --print and --dir: write files for this `TOOL`: golang-migrate, goose, atlas or dbmate; PostgreSQL only")
	f.StringVar(&p.dir, "dir", "",
		"`DIR` of the tool's migrations; existing files remain, new ones get the next numbers")
	return c
}

// together returns a usage error if flags exclude each other, or if the database does not support them.
func together(db Database, rows int, check bool, p printing) error {
	switch {
	case !resizes(db) && rows != 0:
		return &cli.UsageError{
			What: "--outbox-slots is for PostgreSQL: SQLite has no slots"}
	case wrongRing(rows):
		return &cli.UsageError{What: fmt.Sprintf("an outbox has %d to %d slots", pgstore.LeastSlots,
			pgstore.MostSlots)}
	case (check || p.script) && rows != 0:
		return &cli.UsageError{What: "--outbox-slots changes the database: omit --check and --print"}
	case check && p.script:
		return &cli.UsageError{What: "--check and --print exclude each other"}
	}
	return p.check()
}

// migrate applies the pending migrations, then changes the number of slots.
func migrate(ctx context.Context, t *cli.Output, db Database, rows int) error {
	did, err := db.Migrate(ctx)
	if err == nil || len(did) > 0 {
		err = errors.Join(t.List("applied", "applied", did), err)
	}
	if err != nil || rows == 0 {
		return err
	}
	did, err = db.(resizer).Resize(ctx, rows)
	if len(did) > 0 {
		err = errors.Join(t.List("rings", "", did), err)
	}
	return err
}

func wrongRing(n int) bool { return n != 0 && (n < pgstore.LeastSlots || n > pgstore.MostSlots) }

// resizer is a database with an outbox of slots.
type resizer interface {
	Resize(ctx context.Context, rows int) ([]string, error)
}

func resizes(db Database) bool {
	_, ok := db.(resizer)
	return ok
}

func checkPending(c *cobra.Command, t *cli.Output, db Database) error {
	todo, err := db.Pending(c.Context())
	if err == nil {
		err = t.List("pending", "pending", todo)
	}
	if err == nil && len(todo) > 0 {
		err = &cli.FailedError{Err: errPending}
	}
	return err
}
