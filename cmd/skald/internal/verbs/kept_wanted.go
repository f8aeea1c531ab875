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

// wanted are the flags that say which messages are meant, and what is to be done.
type wanted struct {
	connect.Change
	consumer, source, id, fingerprint string
	topic, typ, kind, since, until    string
	key                               connect.Key // nil: any
	dead, all                         bool
	limit                             int

	from, to time.Time // what since and until say; zero: any time
}

func (w *wanted) flags(c *cobra.Command, changes bool) {
	connect.ListFlags(c, &w.Schema, &w.JSON)
	f := c.Flags()
	connect.Filter(f, &w.consumer, "consumer", "only of this consumer group")
	connect.Filter(f, &w.source, "source", "with ID: only this message")
	connect.ByID(c, &w.id)
	f.Var(&w.key, "key", "only messages of this key; base64:… is one that is no text, as the lists print it")
	connect.Filter(f, &w.topic, "topic", "only messages of this topic")
	connect.Filter(f, &w.typ, "type", "only messages of this type")
	if w.dead {
		connect.Filter(f, &w.fingerprint, "fingerprint", "only those that failed in this way")
		connect.Filter(f, &w.kind, "kind", "only those that ended so: "+strings.Join(operate.DeadKinds(),
			", "))
		connect.Filter(f, &w.since, "since", "only those that died since then: 2026-01-31T08:00:00Z, or 2h: two hours ago")
		connect.Filter(f, &w.until, "until", "only those that died before; the same")
	}
	if !changes {
		f.IntVar(&w.limit, "limit", 100, "at most so many; 0: all")
		return
	}
	w.ChangeFlags(c)
}

// bulkFlags are those of what changes all that is meant.
func (w *wanted) bulkFlags(c *cobra.Command) {
	w.flags(c, true)
	c.Flags().BoolVar(&w.all, "all", false, "all that there are, where no other flag says which")
}

// filtered tells whether a flag says which messages are meant.
func (w *wanted) filtered() bool {
	says := func(s string) bool { return s != "" }
	return w.key != nil || slices.ContainsFunc([]string{w.consumer, w.source, w.id, w.topic, w.typ,
		w.fingerprint, w.kind, w.since, w.until}, says)
}

// filters names the flags that filtered looks at.
func (w *wanted) filters() string {
	if w.dead {
		return "an ID, --fingerprint, --key, --consumer, --source, --topic, --type, --kind, --since or --until"
	}
	return "an ID, --key, --consumer, --source, --topic or --type"
}

// valid holds that the flags can be meant.
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

// selection is what the flags say.
func (w *wanted) selection() operate.Selection {
	return operate.Selection{Dead: w.dead, Consumer: w.consumer, Source: w.source, ID: w.id, Key: w.key,
		Topic: w.topic, Type: w.typ,
		Fingerprint: w.fingerprint, Kind: w.kind, DeadFrom: w.from, DeadTo: w.to, All: w.all}
}

// bulk has f change all that is meant. Nothing is done to all of them because a flag was forgotten.
func (w *wanted) bulk(c *cobra.Command, errs io.Writer, verb string,
	f func(context.Context, keeper, operate.Order) error) error {
	if err := w.Reasoned(verb); err != nil {
		return err
	}
	if !w.Dry && !w.all && !w.filtered() {
		return &cli.UsageError{What: fmt.Sprintf(
			"%s which messages? Give %s; or --all, if all of them are meant", verb, w.filters())}
	}
	return w.write(c, func(ctx context.Context, k keeper) error {
		err := f(ctx, k, w.Order(errs, verb))
		if none := new(operate.NoneError); errors.As(err, &none) {
			return cmp.Or(known(ctx, k, w.consumer), err)
		}
		return err
	})
}

// look opens the store for as long as f takes. It wants no right to write: a dry run is a look, too.
func (w *wanted) look(c *cobra.Command, f func(context.Context, keeper) error) error {
	if err := w.valid(); err != nil {
		return err
	}
	return unchecked(c, w.Schema, f)
}

// write is look for what changes something: it checks the rights first.
func (w *wanted) write(c *cobra.Command, f func(context.Context, keeper) error) error {
	if w.Dry {
		return w.look(c, f)
	}
	if err := w.valid(); err != nil {
		return err
	}
	return With(c, w.Schema, store.App, f)
}
