package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/user"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/skald-go/skald/examples/shop/place"
	"github.com/skald-go/skald/store"
)

// A keeper is what the store offers about kept messages.
type keeper interface {
	Check(ctx context.Context, as store.Role) error
	Kept(ctx context.Context, what store.Sought, limit int) ([]store.Parked, error)
	Apply(ctx context.Context, es ...store.Effect) ([]bool, error)
}

// wanted are the flags that say which messages are meant, and what is to be done.
type wanted struct {
	schema, consumer, source, id, key, fingerprint string
	dead                                           bool
	limit                                          int
	asJSON, dry, yes                               bool
	reason, by                                     string
}

func (w *wanted) flags(c *cobra.Command, changes bool) {
	f := c.Flags()
	f.String("store", "", "sqlite:FILE or postgres://…; SKALD_STORE stands for it")
	f.StringVar(&w.schema, "schema", "", "where the tables are; PostgreSQL only (default: public)")
	f.StringVar(&w.consumer, "consumer", "", "only of this consumer group")
	f.StringVar(&w.source, "source", "", "with --id: only this message")
	f.StringVar(&w.id, "id", "", "only messages of this id")
	f.StringVar(&w.key, "key", "", "only messages of this key")
	f.BoolVar(&w.asJSON, "json", false, "print one object on each line and nothing else")
	if w.dead {
		f.StringVar(&w.fingerprint, "fingerprint", "", "only those that failed in this way")
	}
	if !changes {
		f.IntVar(&w.limit, "limit", 100, "at most so many")
		return
	}
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
	what := store.Sought{Consumer: w.consumer, Fingerprint: w.fingerprint, Dead: &w.dead}
	if w.key != "" {
		what.Key = []byte(w.key)
	}
	return what
}

// open is the store, checked.
func (w *wanted) open(c *cobra.Command) (keeper, func(), error) {
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
	for {
		page, err := k.Kept(ctx, what, 100)
		if err != nil {
			return err
		}
		for _, p := range page {
			what.After = p.Place
			if w.id != "" && p.ID != w.id || w.source != "" && p.Source != w.source {
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

// keptJSON is what --json prints of a message: its names are stable. Key and data are base64.
type keptJSON struct {
	Place       int64      `json:"place"`
	Consumer    string     `json:"consumer"`
	Source      string     `json:"source"`
	ID          string     `json:"id"`
	Topic       string     `json:"topic"`
	Type        string     `json:"type"`
	Key         []byte     `json:"key"`
	Attempts    int        `json:"attempts"`
	DueSeconds  float64    `json:"due_seconds"`
	Waiting     bool       `json:"waiting"`
	Since       time.Time  `json:"since"`
	FirstError  string     `json:"first_error,omitempty"`
	LastError   string     `json:"last_error,omitempty"`
	LastAt      *time.Time `json:"last_at,omitempty"`
	LastHost    string     `json:"last_host,omitempty"`
	Lane        string     `json:"lane"`
	Position    int64      `json:"position"`
	Kind        string     `json:"kind,omitempty"`
	Fingerprint string     `json:"fingerprint,omitempty"`
	DeadAt      *time.Time `json:"dead_at,omitempty"`
	HoldsKey    bool       `json:"holds_key"`
	Version     string     `json:"version,omitempty"`
	Stack       string     `json:"stack,omitempty"`
	ContentType string     `json:"content_type,omitempty"`
	Data        []byte     `json:"data,omitempty"`
}

func jsonOf(p *store.Parked) keptJSON {
	m := &p.Message
	out := keptJSON{Place: p.Place, Consumer: p.Consumer, Source: p.Source, ID: p.ID, Topic: m.Topic, Type: m.Type, Key: m.Key, Attempts: p.Attempts,
		DueSeconds: p.Due.Seconds(), Waiting: p.Waiting, Since: p.Since, FirstError: p.First.Why, LastError: p.Last.Why, LastHost: p.Last.Host,
		Lane: p.Lane, Position: p.Position, HoldsKey: m.Key != nil, ContentType: m.ContentType, Data: m.Data}
	if !p.Last.At.IsZero() {
		out.LastAt = &p.Last.At
	}
	if d := p.Dead; d != nil {
		out.Kind, out.Fingerprint, out.DeadAt, out.Version, out.Stack = d.Kind, d.Fingerprint, &d.At, d.Version, d.Stack
		out.HoldsKey = d.Holds && m.Key != nil
	}
	return out
}

func listCommand(out io.Writer, dead bool, short string) *cobra.Command {
	w := &wanted{dead: dead}
	c := &cobra.Command{Use: "list", Short: short, Args: cobra.NoArgs, RunE: func(c *cobra.Command, _ []string) error {
		k, end, err := w.open(c)
		if err != nil {
			return err
		}
		defer end()
		table := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
		n := 0
		err = w.each(c.Context(), k, true, func(p store.Parked) (bool, error) {
			if n++; n == 1 && !w.asJSON {
				fmt.Fprintln(table, "consumer\tid\ttype\tkey\tattempts\tstate\terror")
			}
			if w.asJSON {
				return n < w.limit, json.NewEncoder(out).Encode(jsonOf(&p))
			}
			why, _, _ := strings.Cut(p.Last.Why, "\n")
			_, err := fmt.Fprintf(table, "%s\t%s\t%s\t%q\t%d\t%s\t%s\n", p.Consumer, p.ID, p.Message.Type, p.Message.Key, p.Attempts, stateOf(&p), why)
			return n < w.limit, err
		})
		return errors.Join(err, table.Flush())
	}}
	w.flags(c, false)
	return c
}

func stateOf(p *store.Parked) string {
	switch {
	case p.Dead != nil:
		return "dead: " + p.Dead.Kind + " " + p.Dead.Fingerprint
	case p.Waiting:
		return "waits behind its key"
	}
	return "due in " + p.Due.Round(time.Millisecond).String()
}

// act does something to each message that is meant, in order, each in a transaction with its audit.
func act(c *cobra.Command, w *wanted, out, errs io.Writer, verb string, effect func(p *store.Parked) store.Effect) error {
	if w.reason == "" && !w.dry {
		return &place.UsageError{What: verb + " wants a --reason: it is kept in skald_audit"}
	}
	k, end, err := w.open(c)
	if err != nil {
		return err
	}
	defer end()
	var all []store.Parked
	if err := w.each(c.Context(), k, true, func(p store.Parked) (bool, error) { all = append(all, p); return true, nil }); err != nil {
		return err
	}
	if len(all) == 0 {
		return &place.NoneError{What: "no kept message is meant by these flags"}
	}
	if !w.dry && !w.yes {
		question := fmt.Sprintf("%s %d messages?", verb, len(all))
		if err := askFirst(c.Context(), errs, question, fmt.Sprintf("%s would change %d messages: if that is meant, add --yes", verb, len(all))); err != nil {
			return err
		}
	}
	did := 0
	for i := range all {
		p := &all[i]
		if !w.dry {
			e := effect(p)
			e.Audit = &store.Audit{Who: w.by, Why: w.reason, What: verb, Consumer: p.Consumer, Identity: p.Identity}
			stands, err := k.Apply(c.Context(), e)
			if err != nil {
				return fmt.Errorf("%s %s, behind %d others: %w", verb, p.ID, did, err)
			}
			if !stands[0] { // it is finished, or somebody else was first
				continue
			}
		}
		did++
	}
	return told(out, w, verb, did, len(all))
}

func told(out io.Writer, w *wanted, verb string, did, meant int) error {
	if w.asJSON {
		return json.NewEncoder(out).Encode(map[string]any{"what": verb, "meant": meant, "done": did, "dry_run": w.dry})
	}
	word := "done"
	if w.dry {
		word = "would be done"
	}
	_, err := fmt.Fprintf(out, "%s: %d of %d messages %s\n", verb, did, meant, word)
	return err
}

func release(p *store.Parked) store.Effect {
	return store.Effect{Release: &store.Release{Consumer: p.Consumer, Identity: p.Identity}}
}
