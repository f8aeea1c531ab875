// This file has the command skald doctor: it checks a database, a broker and settings.

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

const about = `Checks a database and a broker against Skald's promises and the expected load, and prints remedies. It
changes nothing. With --rate it times writes to a temporary file next to a SQLite database.

The exit code is 8 if a check fails. A warning does not change the exit code. --accept NAME turns an
accepted failure into a warning. --metrics URL compares the duration of handlers with --handle.`

// doctor holds the flags and the findings of skald doctor.
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

// DoctorCommand returns skald doctor.
func DoctorCommand(out io.Writer) *cobra.Command {
	d := &doctor{}
	d.Remedy = func(err error) string { return strings.TrimPrefix(cli.Remedy(err), ": ") }
	c := &cobra.Command{Use: "doctor", Short: "Check database, broker and settings", Long: about,
		Args: cobra.NoArgs}
	connect.StoreFlags(c, &d.schema, &d.asJSON)
	f := c.Flags()
	f.String("broker", "", "`URL` of the broker: kafka://…, nats://… or amqp://… (default: SKALD_BROKER)")
	f.StringArrayVar(&d.Topics, "topic", nil, "`TOPIC` to check at the broker; repeatable")
	f.StringVar(&d.Consumer, "consumer", "",
		"consumer `GROUP` to check, on RabbitMQ with its queues")
	f.Float64Var(&d.Exam.Rate, "rate", 0, "expected `N` messages per second")
	f.DurationVar(&d.Exam.Handle, "handle", time.Minute,
		"`TIME` limit of a handler: inbox.Options.Timeouts.Handle")
	f.IntVar(&d.Exam.Connections, "connections", 0, "`N` connections of all processes together")
	f.StringArrayVar(&d.accepted, "accept", nil,
		"`NAME` of a check whose failure is a warning; repeatable")
	f.StringVar(&d.lock, "lock", "",
		"`FILE` of schema.WriteLock: check that payloads of the outbox match its schemas")
	f.StringVar(&d.metrics, "metrics", "", "`URL` of a service's metrics, http://…/metrics: check the duration of its handlers")
	f.DurationVar(&d.window.Outbox, "outbox", 7*24*time.Hour,
		"`TIME` that the outboxes of producers retain rows, or their longest lag")
	f.DurationVar(&d.window.Age, "age", 24*time.Hour,
		"`TIME` that a failing message is retried: inbox.Options.Retry.Age")
	f.DurationVar(&d.window.Saga, "saga", 0, "`TIME` of the longest saga (default: no sagas)")
	f.DurationVar(&d.window.Dead, "dead", 0,
		"`TIME` that dead letters may arrive from elsewhere (default: they do not)")
	f.DurationVar(&d.brokerKeeps, "broker-keeps", 0,
		"`TIME` that the broker retains messages (default: ask it for each --topic)")
	c.RunE = func(c *cobra.Command, _ []string) error {
		if err := d.sensible(c); err != nil {
			return err
		}
		ctx, cancel := context.WithTimeout(c.Context(), answerWithin)
		defer cancel()
		at := connect.From(c, "store", "SKALD_STORE")
		d.bus = connect.From(c, "broker", "SKALD_BROKER")
		if at == "" && d.bus == "" {
			return &cli.UsageError{What: "which server? Give --store, --broker or both"}
		}
		if at == "" && (d.Exam.Rate != 0 || d.Exam.Connections != 0 || d.lock != "") {
			return &cli.UsageError{
				What: "--rate, --connections and --lock need the database: give --store, too"}
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
		d.Consumers()
		d.handlers(ctx)
		if err := d.Accept(d.accepted...); err != nil {
			return err
		}
		return d.tell(out)
	}
	return c
}

// These limits let the command end within 10 s, even if tables are locked or servers are down.
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
	s, ok := all[0].(operate.DoctorStore)
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
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\n", f.Grade, f.About, f.Name, cmp.Or(f.Observed, "–"))
		if f.Remedy != "" {
			fmt.Fprintf(w, "\t\t\t→ %s\n", f.Remedy)
		}
	}
	return errors.Join(w.Flush(), verdictOf(failed, len(d.Found)))
}

// verdictOf returns the error for exit code 8 if a check failed.
func verdictOf(failed, all int) error {
	if failed == 0 {
		return nil
	}
	return &cli.FailedError{Err: fmt.Errorf("doctor: %d of %d checks failed", failed, all)}
}
