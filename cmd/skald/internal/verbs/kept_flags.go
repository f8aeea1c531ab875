package verbs

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/skald-go/skald/cmd/skald/internal/cli"
	"github.com/skald-go/skald/cmd/skald/internal/connect"
	"github.com/skald-go/skald/operate"
	"github.com/skald-go/skald/store"
)

// wanted has the flags that select messages, and the flags of a change.
type wanted struct {
	connect.Change
	consumer, source, id, fingerprint string
	topic, typ, kind, since, until    string
	key                               connect.Key // nil selects all
	dead, all                         bool
	limit                             int

	from, to time.Time // the times of since and until; zero sets no limit
}

func (w *wanted) flags(c *cobra.Command, changes bool) {
	connect.ListFlags(c, &w.Schema, &w.JSON)
	f := c.Flags()
	connect.Filter(f, &w.consumer, "consumer", "only of this consumer `GROUP`")
	connect.Filter(f, &w.source, "source", "only messages of this `SOURCE`")
	connect.ByID(c, &w.id)
	f.Var(&w.key, "key", "only messages of this `KEY`; a binary key as base64:…")
	connect.Filter(f, &w.topic, "topic", "only messages of this `TOPIC`")
	connect.Filter(f, &w.typ, "type", "only messages of this `TYPE`")
	if w.dead {
		connect.Filter(f, &w.fingerprint, "fingerprint", "only errors with this `FINGERPRINT`")
		connect.Filter(f, &w.kind, "kind", "only dead letters of this `KIND`: "+
			strings.Join(operate.DeadKinds(), ", "))
		connect.Filter(f, &w.since, "since", "only dead letters since this `TIME`: 2026-01-31T08:00:00Z, or 2h for two hours ago")
		connect.Filter(f, &w.until, "until", "only dead letters before this `TIME`")
	}
	if !changes {
		f.IntVar(&w.limit, "limit", 100, "list at most `N`; 0 lists all")
		return
	}
	w.ChangeFlags(c)
}

// bulkFlags adds the flags of a command that changes all selected messages.
func (w *wanted) bulkFlags(c *cobra.Command) {
	w.flags(c, true)
	c.Flags().BoolVar(&w.all, "all", false, "select all messages; required if no other flag selects messages")
}

// filtered reports whether a flag selects messages.
func (w *wanted) filtered() bool {
	given := func(s string) bool { return s != "" }
	return w.key != nil || slices.ContainsFunc([]string{w.consumer, w.source, w.id, w.topic, w.typ,
		w.fingerprint, w.kind, w.since, w.until}, given)
}

// filters names the flags that filtered checks.
func (w *wanted) filters() string {
	if w.dead {
		return "an ID, --fingerprint, --key, --consumer, --source, --topic, --type, --kind, --since or --until"
	}
	return "an ID, --key, --consumer, --source, --topic or --type"
}

// valid returns a usage error for invalid flags.
func (w *wanted) valid() (err error) {
	if w.kind != "" && !slices.Contains(operate.DeadKinds(), w.kind) {
		return &cli.UsageError{What: fmt.Sprintf("--kind is one of %s, not %q",
			strings.Join(operate.DeadKinds(), ", "), w.kind)}
	}
	if err := connect.Limit(w.limit); err != nil {
		return err
	}
	if w.from, err = connect.Moment("since", w.since); err != nil {
		return err
	}
	w.to, err = connect.Moment("until", w.until)
	return err
}

// selection returns the selection of the flags.
func (w *wanted) selection() operate.Selection {
	return operate.Selection{Dead: w.dead, Consumer: w.consumer, Source: w.source, ID: w.id, Key: w.key,
		Topic: w.topic, Type: w.typ,
		Fingerprint: w.fingerprint, Kind: w.kind, DeadFrom: w.from, DeadTo: w.to, All: w.all}
}

// bulk calls f for a change of the selected messages. Without a filter it requires --all, so that a
// forgotten filter does not change all messages.
func (w *wanted) bulk(c *cobra.Command, errs io.Writer, verb string,
	f func(context.Context, keeper, operate.Order) error) error {
	if !w.Dry && !w.all && !w.filtered() {
		return &cli.UsageError{What: fmt.Sprintf(
			"%s which messages? Give %s; or give --all to select all", verb, w.filters())}
	}
	if err := w.reasoned(c, verb); err != nil {
		return err
	}
	return w.write(c, func(ctx context.Context, k keeper) error {
		err := f(ctx, k, w.Order(errs, verb))
		none := new(operate.NoMatchError)
		if !errors.As(err, &none) {
			return err
		}
		if err := checkConsumer(ctx, k, w.consumer); err != nil || w.id != "" {
			return cmp.Or(err, error(none))
		}
		fmt.Fprintln(errs, "skald: "+none.Reason)
		return tellBulk(c.OutOrStdout(), w, verb, operate.Report{})
	})
}

// reasoned returns an error if there is no reason. If the selected message does not exist either, it reports
// that first.
func (w *wanted) reasoned(c *cobra.Command, verb string) error {
	missing := w.Reasoned(verb)
	if missing == nil || w.id == "" {
		return missing
	}
	return w.look(c, func(ctx context.Context, k keeper) error {
		for _, err := range operate.List(ctx, k, w.selection(), true) {
			return cmp.Or(err, missing)
		}
		none := &cli.NoneError{What: "no message with the ID " + w.id + " is selected"}
		return cmp.Or(checkConsumer(ctx, k, w.consumer), error(none))
	})
}

// look calls f with the store, for a read or a dry run. It does not check rights.
func (w *wanted) look(c *cobra.Command, f func(context.Context, keeper) error) error {
	if err := w.valid(); err != nil {
		return err
	}
	return unchecked(c, w.Schema, f)
}

// write calls f with the store, for a change. It first checks the rights, unless this is a dry run.
func (w *wanted) write(c *cobra.Command, f func(context.Context, keeper) error) error {
	if w.Dry {
		return w.look(c, f)
	}
	if err := w.valid(); err != nil {
		return err
	}
	return With(c, w.Schema, store.App, f)
}
