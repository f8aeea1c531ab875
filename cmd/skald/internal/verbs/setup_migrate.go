// This file has the commands that make what services need before they start: skald migrate for tables and
// topics, skald roles for rights.

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

const migrateAbout = `Makes Skald's tables, or brings them up to date. It changes nothing that is up to date, and two at once do no harm.

--outbox-slots changes the ring that retention empties slot by slot, while everything works: rows can be kept two days
less than the outbox has slots of a day (10 at first). Ended before it was done, it goes on where it was.

--print --format TOOL --dir FOLDER writes a numbered file for each migration that has none in the folder of your own
migration tool. Run it again with each later build.

--broker URL --topic NAME, once for each topic, makes topics and what groups need at the broker, where they are not there
yet; what is there stays as it is, and is refused if it would lose messages. With --store or without. On RabbitMQ a group
hears what is published once its queues are there: --group NAME, once for each, makes those for all of the topics.

Stores: sqlite:FILE, postgres://…    Brokers: kafka://host:port[,host:port][?option=value&…], nats://…, amqp://…`

// Migrate is skald migrate.
func Migrate(out io.Writer) *cobra.Command {
	var schema, source string
	var check bool
	var p printing
	var rows int
	var topics topology
	t := &cli.Tidings{Out: out}
	c := &cobra.Command{
		Use: "migrate", Short: "Make the tables, or bring them up to date", Long: migrateAbout,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) (err error) {
			defer func() { err = t.End(err) }()
			atBroker, err := topics.asked(c)
			if err == nil && atBroker && p.script {
				err = &cli.UsageError{What: "--print is for databases: not with --broker"}
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
	f.String("store", "", "sqlite:FILE or postgres://…; SKALD_STORE stands for it")
	f.StringVar(&schema, "schema", "", "where the tables are; PostgreSQL only (default: public)")
	f.StringVar(&source, "source", "",
		"who says the messages of this database, for ever (default: /DATABASE/SCHEMA)")
	f.IntVar(&rows, "outbox-slots", 0,
		"how many slots of a day the outbox has; PostgreSQL only (default: as it is)")
	f.String("broker", "",
		"kafka://host:port[,host:port][?option=value&…], nats://… or amqp://…; SKALD_BROKER stands for it, with --topic")
	f.StringArrayVar(&topics.topics, "topic", nil, "a topic at the broker; again for each further one")
	f.StringArrayVar(&topics.groups, "group", nil,
		"a group that listens to these topics; again for each further one (other brokers than RabbitMQ need nothing)")
	f.IntVar(&topics.partitions, "partitions", 0,
		"how many partitions topics get that are made (default: the broker's)")
	f.BoolVar(&check, "check", false, "change nothing; exit code 8 if there is work to do")
	f.BoolVar(&p.script, "print", false, "change nothing; print the SQL that makes all tables")
	f.StringVar(&p.tool, "format", "",
		"with --print and --dir: files for golang-migrate, goose, atlas or dbmate; PostgreSQL only")
	f.StringVar(&p.dir, "dir", "",
		"the folder of that tool's migrations; what is there stays, new files get the next numbers")
	return c
}

// together says which of the flags exclude each other, or what the database does not have.
func together(db Database, rows int, check bool, p printing) error {
	switch {
	case !resizes(db) && rows != 0:
		return &cli.UsageError{
			What: "--outbox-slots is for PostgreSQL: SQLite has no slots, it deletes in batches"}
	case wrongRing(rows):
		return &cli.UsageError{What: fmt.Sprintf("a ring has %d to %d slots", pgstore.LeastSlots,
			pgstore.MostSlots)}
	case (check || p.script) && rows != 0:
		return &cli.UsageError{What: "--outbox-slots changes the database: not with --check or --print"}
	case check && p.script:
		return &cli.UsageError{What: "--check or --print, not both"}
	}
	return p.check()
}

// migrate applies what is pending, then changes the ring.
func migrate(ctx context.Context, t *cli.Tidings, db Database, rows int) error {
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

// A resizer is a database with a ring.
type resizer interface {
	Resize(ctx context.Context, rows int) ([]string, error)
}

func resizes(db Database) bool {
	_, ok := db.(resizer)
	return ok
}

func checkPending(c *cobra.Command, t *cli.Tidings, db Database) error {
	todo, err := db.Pending(c.Context())
	if err == nil {
		err = t.List("pending", "pending", todo)
	}
	if err == nil && len(todo) > 0 {
		err = &cli.FailedError{Err: errPending}
	}
	return err
}
