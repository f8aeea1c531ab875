package main

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"os"
	"os/user"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/skald-go/skald/cmd/skald/internal/exit"
	"github.com/skald-go/skald/operate"
	"github.com/skald-go/skald/store"
)

// wanted are the flags that say which messages are meant, and what is to be done.
type wanted struct {
	schema, consumer, source, id, fingerprint string
	topic, typ, kind, since, until            string
	key                                       typedKey // nil: any
	dead                                      bool
	limit                                     int
	asJSON, dry, yes, all                     bool
	reason, by                                string

	from, to time.Time // what since and until say; zero: any time
}

func (w *wanted) flags(c *cobra.Command, changes bool) {
	f := c.Flags()
	f.String("store", "", "sqlite:FILE or postgres://…; SKALD_STORE stands for it")
	f.StringVar(&w.schema, "schema", "", "where the tables are; PostgreSQL only (default: public)")
	f.StringVar(&w.consumer, "consumer", "", "only of this consumer group")
	f.StringVar(&w.source, "source", "", "with ID: only this message")
	byID(c, &w.id)
	f.Var(&w.key, "key", "only messages of this key; base64:… is one that is no text, as the lists print it")
	f.StringVar(&w.topic, "topic", "", "only messages of this topic")
	f.StringVar(&w.typ, "type", "", "only messages of this type")
	f.BoolVar(&w.asJSON, "json", false, "print one object on each line and nothing else")
	if w.dead {
		f.StringVar(&w.fingerprint, "fingerprint", "", "only those that failed in this way")
		f.StringVar(&w.kind, "kind", "", "only those that ended so: "+strings.Join(operate.DeadKinds(), ", "))
		f.StringVar(&w.since, "since", "", "only those that died since then: 2026-01-31T08:00:00Z, or 2h ago")
		f.StringVar(&w.until, "until", "", "only those that died before; the same")
	}
	if !changes {
		f.IntVar(&w.limit, "limit", 100, "at most so many; 0: all")
		return
	}
	w.changeFlags(c)
}

// byID lets a command take the id of a message behind its name.
func byID(c *cobra.Command, id *string) {
	c.Use += " [ID]"
	c.Args = func(_ *cobra.Command, args []string) error {
		if len(args) > 1 {
			return fmt.Errorf("one ID, not %d", len(args))
		}
		if len(args) == 1 {
			*id = args[0]
		}
		return nil
	}
}

// bulkFlags are those of what changes all that is meant.
func (w *wanted) bulkFlags(c *cobra.Command) {
	w.flags(c, true)
	c.Flags().BoolVar(&w.all, "all", false, "all that there are, where no other flag says which")
}

// filtered tells whether a flag says which messages are meant. An empty one, of a variable that was not set,
// says nothing.
func (w *wanted) filtered() bool {
	says := func(s string) bool { return s != "" }
	return w.key != nil || slices.ContainsFunc([]string{w.consumer, w.source, w.id, w.topic, w.typ, w.fingerprint, w.kind, w.since, w.until}, says)
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
	switch {
	case w.kind != "" && !slices.Contains(operate.DeadKinds(), w.kind):
		return &exit.UsageError{What: fmt.Sprintf("--kind is one of %s, not %q", strings.Join(operate.DeadKinds(), ", "), w.kind)}
	case w.limit < 0:
		return &exit.UsageError{What: "--limit is how many at most; 0: all"}
	}
	if w.from, err = moment("since", w.since); err != nil {
		return err
	}
	w.to, err = moment("until", w.until)
	return err
}

// binary64 is what a key begins with that is given in base64.
const binary64 = "base64:"

// A typedKey is a key that a flag gives; nil: none was given. One that is empty is a key, too.
type typedKey []byte

// Set reads what was typed.
func (k *typedKey) Set(text string) (err error) {
	code, is := strings.CutPrefix(text, binary64)
	if !is {
		*k = []byte(text)
		return nil
	}
	if *k, err = base64.StdEncoding.DecodeString(code); err != nil {
		return errors.New("behind base64: comes the key as --json prints it; one that begins so itself is given like that, too")
	}
	return nil
}

func (k *typedKey) String() string { return string(*k) }

// Type is what the help calls it.
func (k *typedKey) Type() string { return "string" }

// keyText is a key as a shell and --key take it; - is none.
func keyText(key []byte) string {
	text := string(key)
	quoted := strconv.Quote(text)
	switch {
	case key == nil:
		return "-"
	case quoted != `"`+text+`"`, strings.ContainsAny(text, "$`!"), strings.HasPrefix(text, binary64):
		return binary64 + base64.StdEncoding.EncodeToString(key)
	}
	return quoted
}

// changeFlags are those of whatever changes something.
func (w *wanted) changeFlags(c *cobra.Command) {
	f := c.Flags()
	f.BoolVar(&w.dry, "dry-run", false, "say what would be done, and do nothing")
	f.BoolVar(&w.yes, "yes", false, "do not ask")
	f.StringVar(&w.reason, "reason", "", "why; it is kept in skald_audit")
	f.StringVar(&w.by, "by", whoami(), "who; the same")
}

func whoami() string {
	host, _ := os.Hostname() // or none
	if u, err := user.Current(); err == nil {
		return u.Username + "@" + host
	}
	return "@" + host
}

// selection is what the flags say.
func (w *wanted) selection() operate.Selection {
	return operate.Selection{Dead: w.dead, Consumer: w.consumer, Source: w.source, ID: w.id, Key: w.key, Topic: w.topic, Type: w.typ,
		Fingerprint: w.fingerprint, Kind: w.kind, DeadFrom: w.from, DeadTo: w.to, All: w.all}
}

// order is who does it and why. Before many messages are changed it asks, unless --yes was given.
func (w *wanted) order(errs io.Writer, verb string) operate.Order {
	o := operate.Order{Author: w.by, Reason: w.reason, DryRun: w.dry}
	if !w.yes {
		o.Confirm = func(ctx context.Context, n int) error {
			return askFirst(ctx, errs, fmt.Sprintf("%s %d messages?", verb, n),
				fmt.Sprintf("%s would change %d messages: if that is meant, add --yes", verb, n))
		}
	}
	return o
}

func (w *wanted) reasoned(verb string) error {
	if strings.TrimSpace(w.reason) == "" && !w.dry {
		return &exit.UsageError{What: verb + " wants a --reason: it is kept in skald_audit"}
	}
	return nil
}

// bulk has f change all that is meant. Nothing is done to all of them because a flag was forgotten.
func (w *wanted) bulk(c *cobra.Command, errs io.Writer, verb string, f func(context.Context, keeper, operate.Order) error) error {
	if err := w.reasoned(verb); err != nil {
		return err
	}
	if !w.dry && !w.all && !w.filtered() {
		return &exit.UsageError{What: fmt.Sprintf("%s which messages? Give %s; or --all, if all of them are meant", verb, w.filters())}
	}
	return w.with(c, func(ctx context.Context, k keeper) error { return f(ctx, k, w.order(errs, verb)) })
}

func firstLine(text string) string {
	line, _, _ := strings.Cut(text, "\n")
	return line
}

// moment reads a point in time, or a time ago.
func moment(flag, text string) (time.Time, error) {
	if text == "" {
		return time.Time{}, nil
	}
	if ago, err := time.ParseDuration(text); err == nil && ago >= 0 {
		return time.Now().Add(-ago), nil
	}
	at, err := time.Parse(time.RFC3339, text)
	if err != nil {
		err = &exit.UsageError{What: fmt.Sprintf("--%s %q: give a time as 2026-01-31T08:00:00Z, or how long ago as 2h", flag, text)}
	}
	return at, err
}

// with opens the store, checked, for as long as f takes.
func (w *wanted) with(c *cobra.Command, f func(context.Context, keeper) error) error {
	if err := w.valid(); err != nil {
		return err
	}
	db, err := openDatabase(from(c, "store", "SKALD_STORE"), w.schema, "")
	if err != nil {
		return err
	}
	all, end, err := db.stores(c.Context(), rooms{})
	if err != nil {
		return err
	}
	defer end()
	k, ok := all[0].(keeper)
	if !ok {
		return fmt.Errorf("%T keeps no messages", all[0])
	}
	if err := k.Check(c.Context(), store.App); err != nil {
		return err
	}
	return f(c.Context(), k)
}
