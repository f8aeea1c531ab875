// This file has the command skald doctor: what stands against the promises, or the load.

package verbs

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/skald-go/skald"
	"github.com/skald-go/skald/cmd/skald/internal/cli"
	"github.com/skald-go/skald/cmd/skald/internal/connect"
	"github.com/skald-go/skald/operate"
	"github.com/skald-go/skald/schema"
)

const about = `Looks at a database and a broker for what stands against Skald's promises or against the load, and says what to do about it.
It changes nothing; with --rate it times a small file of its own beside one of SQLite. Exit code 8 if something failed; a warning is no failure. What failed and is meant so, --accept NAME makes a warning.

  skald doctor --store postgres://… --broker kafka://… --topic orders --topic payments --consumer billing --rate 500

With --metrics URL, where a service serves what its inboxes measure for Prometheus, it compares how long handlers take with
how long they may (--handle).`

// A doctor is what is to be examined, and what it is to be ready for.
type doctor struct {
	operate.Doctor
	schema, bus, metrics string
	lock                 string
	declared             schema.Lock
	accepted             []string
	window               operate.Window
	brokerKeeps          time.Duration
	asJSON               bool
}

// DoctorCommand is skald doctor.
func DoctorCommand(out io.Writer) *cobra.Command {
	d := &doctor{}
	d.Remedy = func(err error) string { return strings.TrimPrefix(cli.Remedy(err), ": ") }
	c := &cobra.Command{Use: "doctor", Short: "What stands against the promises, or the load", Long: about,
		Args: cobra.NoArgs}
	connect.StoreFlags(c, &d.schema, &d.asJSON)
	f := c.Flags()
	f.String("broker", "", "kafka://…, nats://… or amqp://…; SKALD_BROKER stands for it")
	f.StringArrayVar(&d.Topics, "topic", nil, "to be looked at, at the broker; again for each further one")
	f.StringVar(&d.Consumer, "consumer", "",
		"a consumer group: what is kept for it, and on RabbitMQ its queues")
	f.Float64Var(&d.Exam.Rate, "rate", 0, "how many messages a second it is to be ready for")
	f.DurationVar(&d.Exam.Handle, "handle", time.Minute,
		"inbox.Options.Timeouts.Handle: how long a handler may take")
	f.IntVar(&d.Exam.Connections, "connections", 0, "how many connections all processes want together")
	f.StringArrayVar(&d.accepted, "accept", nil,
		"the name of a finding that is known and meant: if it failed, it is a warning; again for each further one")
	f.StringVar(&d.lock, "lock", "",
		"the file that schema.WriteLock wrote: whether payloads of the outbox can be read as what the program declares")
	f.StringVar(&d.metrics, "metrics", "", "http://…/metrics of a service: how long its handlers take")
	f.DurationVar(&d.window.Outbox, "outbox", 7*24*time.Hour,
		"how long producers' outboxes keep rows, or their longest lag")
	f.DurationVar(&d.window.Age, "age", 24*time.Hour,
		"inbox.Options.Retry.Age: how long a failing message is tried again")
	f.DurationVar(&d.window.Saga, "saga", 0, "the longest that a saga lives (default: there is none)")
	f.DurationVar(&d.window.Dead, "dead", 0,
		"how long dead letters may still come from elsewhere (default: they do not)")
	f.DurationVar(&d.brokerKeeps, "broker-keeps", 0,
		"how long the broker keeps messages of each --topic, or of any (default: it is asked, of each --topic)")
	c.RunE = func(c *cobra.Command, _ []string) error {
		if err := d.sensible(c); err != nil {
			return err
		}
		ctx, cancel := context.WithTimeout(c.Context(), answerWithin)
		defer cancel()
		at := connect.From(c, "store", "SKALD_STORE")
		d.bus = connect.From(c, "broker", "SKALD_BROKER")
		if at == "" && d.bus == "" {
			return &cli.UsageError{What: "whom? Give --store, --broker or both"}
		}
		if at == "" && (d.Exam.Rate != 0 || d.Exam.Connections != 0 || d.lock != "") {
			return &cli.UsageError{
				What: "--rate, --connections and --lock are asked of the database: give --store, too"}
		}
		if at != "" {
			if err := d.readLock(); err != nil {
				return err
			}
			db, err := Open(at, d.schema, "")
			if err != nil {
				return err
			}
			d.store(ctx, db)
		}
		if err := d.broker(ctx); err != nil {
			return err
		}
		d.Standing()
		d.handlers(ctx)
		if err := d.Accept(d.accepted...); err != nil {
			return err
		}
		return d.tell(out)
	}
	return c
}

// doctor answers within 10 s, whatever is locked or away.
const (
	answerWithin = 9500 * time.Millisecond
	storeWithin  = 7 * time.Second
)

func (d *doctor) store(ctx context.Context, db Database) {
	ctx, cancel := context.WithTimeout(ctx, storeWithin)
	defer cancel()
	all, done, err := db.Stores(ctx, Rooms{})
	if err != nil {
		d.Failed("store", "connection", err)
		return
	}
	defer done()
	s, ok := all[0].(operate.Subject)
	if !ok {
		d.Failed("store", "connection", fmt.Errorf("%T cannot be examined", all[0]))
		return
	}
	d.inspectBy(all[0])
	d.Store(ctx, s)
}

func (d *doctor) tell(out io.Writer) error {
	failed, warned := 0, 0
	for _, f := range d.Found {
		switch f.Grade {
		case skald.Failed:
			failed++
		case skald.Doubtful:
			warned++
		}
	}
	if d.asJSON {
		err := cli.JSON(out).Encode(map[string]any{"ok": failed == 0, "failed": failed,
			"warnings": warned, "findings": d.Found})
		return errors.Join(err, verdictOf(failed, len(d.Found)))
	}
	w := cli.Table(out)
	for _, f := range d.Found {
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\n", f.Grade, f.About, f.Name, cmp.Or(f.Saw, "–"))
		if f.Remedy != "" {
			fmt.Fprintf(w, "\t\t\t→ %s\n", f.Remedy)
		}
	}
	return errors.Join(w.Flush(), verdictOf(failed, len(d.Found)))
}

// verdictOf is exit code 8 if something failed.
func verdictOf(failed, all int) error {
	if failed == 0 {
		return nil
	}
	return &cli.FailedError{Err: fmt.Errorf("doctor: %d of %d checks failed", failed, all)}
}
