package main

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"os"
	"os/user"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/skald-go/skald/examples/shop/place"
	"github.com/skald-go/skald/inbox"
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
	f.StringVar(&w.source, "source", "", "with --id: only this message")
	f.StringVar(&w.id, "id", "", "only messages of this id")
	f.Var(&w.key, "key", "only messages of this key; base64:… is one that is no text, as the lists print it")
	f.StringVar(&w.topic, "topic", "", "only messages of this topic")
	f.StringVar(&w.typ, "type", "", "only messages of this type")
	f.BoolVar(&w.asJSON, "json", false, "print one object on each line and nothing else")
	if w.dead {
		f.StringVar(&w.fingerprint, "fingerprint", "", "only those that failed in this way")
		f.StringVar(&w.kind, "kind", "", "only those that ended so: "+strings.Join(deadKinds(), ", "))
		f.StringVar(&w.since, "since", "", "only those that died since then: 2026-01-31T08:00:00Z, or 2h ago")
		f.StringVar(&w.until, "until", "", "only those that died before; the same")
	}
	if !changes {
		f.IntVar(&w.limit, "limit", 100, "at most so many; 0: all")
		return
	}
	w.changeFlags(c)
}

// bulkFlags are those of what changes all that is meant.
func (w *wanted) bulkFlags(c *cobra.Command) {
	w.flags(c, true)
	c.Flags().BoolVar(&w.all, "all", false, "all that there are, where no other flag says which")
}

// filtered tells whether a flag says which messages are meant. An empty one, of a variable that was not set, says nothing.
func (w *wanted) filtered() bool {
	says := func(s string) bool { return s != "" }
	return w.key != nil || slices.ContainsFunc([]string{w.consumer, w.source, w.id, w.topic, w.typ, w.fingerprint, w.kind, w.since, w.until}, says)
}

// filters names the flags that filtered looks at.
func (w *wanted) filters() string {
	if w.dead {
		return "--fingerprint, --id, --key, --consumer, --source, --topic, --type, --kind, --since or --until"
	}
	return "--id, --key, --consumer, --source, --topic or --type"
}

// deadKinds are the ways in which a message can end as a dead letter.
func deadKinds() []string {
	return []string{"attempts", "age", string(inbox.Malformed), string(inbox.Permanent), kindRejected, string(inbox.Crash), string(inbox.Unhandled)}
}

// valid holds that the flags can be meant.
func (w *wanted) valid() (err error) {
	switch {
	case w.kind != "" && !slices.Contains(deadKinds(), w.kind):
		return &place.UsageError{What: fmt.Sprintf("--kind is one of %s, not %q", strings.Join(deadKinds(), ", "), w.kind)}
	case w.limit < 0:
		return &place.UsageError{What: "--limit is how many at most; 0: all"}
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

func (w *wanted) sought() store.Sought {
	return store.Sought{Consumer: w.consumer, Fingerprint: w.fingerprint, Dead: &w.dead, Key: w.key}
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
		err = &place.UsageError{What: fmt.Sprintf("--%s %q: give a time as 2026-01-31T08:00:00Z, or how long ago as 2h", flag, text)}
	}
	return at, err
}

// means tells whether p is meant by the flags that the store does not look at.
func (w *wanted) means(p *store.Parked) bool {
	is := func(want, have string) bool { return want == "" || want == have }
	return is(w.id, p.ID) && is(w.source, p.Source) && is(w.topic, p.Message.Topic) && is(w.typ, p.Message.Type) &&
		(p.Dead == nil || is(w.kind, p.Dead.Kind) && !p.Dead.At.Before(w.from) && (w.to.IsZero() || p.Dead.At.Before(w.to)))
}

// open is the store, checked.
func (w *wanted) open(c *cobra.Command) (keeper, func(), error) {
	if err := w.valid(); err != nil {
		return nil, nil, err
	}
	db, err := openDatabase(from(c, "store", "SKALD_STORE"), w.schema, "")
	if err != nil {
		return nil, nil, err
	}
	all, end, err := db.stores(c.Context(), rooms{})
	if err != nil {
		return nil, nil, err
	}
	k, ok := all[0].(keeper)
	if !ok {
		err = fmt.Errorf("%T keeps no messages", all[0])
	} else {
		err = k.Check(c.Context(), store.App)
	}
	if err != nil {
		end()
		return nil, nil, err
	}
	return k, end, nil
}

// each reads all messages that are meant, page by page, and stops where f says so.
func (w *wanted) each(ctx context.Context, k keeper, bare bool, f func(p store.Parked) (more bool, err error)) error {
	what := w.sought()
	what.Bare = bare
	return w.walk(ctx, k, what, f)
}

// anyKept is each for parked messages and dead letters alike.
func (w *wanted) anyKept(ctx context.Context, k keeper, f func(p store.Parked) (more bool, err error)) error {
	what := w.sought()
	what.Dead, what.Bare = nil, true
	return w.walk(ctx, k, what, f)
}

func (w *wanted) walk(ctx context.Context, k keeper, what store.Sought, f func(p store.Parked) (more bool, err error)) error {
	for {
		page, err := k.Kept(ctx, what, 100)
		if err != nil {
			return err
		}
		for _, p := range page {
			what.After = p.Place
			if !w.means(&p) {
				continue
			}
			if more, err := f(p); err != nil || !more {
				return err
			}
		}
		if len(page) < 100 {
			return nil
		}
	}
}
