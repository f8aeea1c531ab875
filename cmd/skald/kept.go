package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/skald-go/skald/examples/shop/place"
	"github.com/skald-go/skald/store"
)

// A keeper is what the store offers about kept messages.
type keeper interface {
	store.Keeper
	Check(ctx context.Context, as store.Role) error
	Seen(ctx context.Context, consumer string, ids []store.Identity) ([]store.Verdict, error)
	Apply(ctx context.Context, es ...store.Effect) ([]bool, error)
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

	Time          *time.Time      `json:"time,omitempty"` // when it was said
	Subject       string          `json:"subject,omitempty"`
	DataSchema    string          `json:"data_schema,omitempty"`
	CorrelationID string          `json:"correlation_id,omitempty"`
	CausationID   string          `json:"causation_id,omitempty"`
	TraceParent   string          `json:"traceparent,omitempty"`
	Headers       []headerJSON    `json:"headers,omitempty"`
	Payload       json.RawMessage `json:"payload,omitempty"` // data, where it is JSON
	Fault         string          `json:"fault,omitempty"`   // why its envelope could not be read
	FirstAt       *time.Time      `json:"first_at,omitempty"`
	FirstHost     string          `json:"first_host,omitempty"`
	Kills         int             `json:"kills,omitempty"` // how often its process ended while nothing else was run
}

type headerJSON struct {
	Name  string `json:"name"`
	Value []byte `json:"value"`
}

func jsonOf(p *store.Parked) keptJSON {
	m := &p.Message
	out := keptJSON{Place: p.Place, Consumer: p.Consumer, Source: p.Source, ID: p.ID, Topic: m.Topic, Type: m.Type, Key: m.Key, Attempts: p.Attempts,
		DueSeconds: p.Due.Seconds(), Waiting: p.Waiting, Since: p.Since, FirstError: p.First.Why, LastError: p.Last.Why, LastHost: p.Last.Host,
		Lane: p.Lane, Position: p.Position, HoldsKey: m.Key != nil, ContentType: m.ContentType, Data: m.Data,
		Time: some(m.Time), Subject: m.Subject, DataSchema: m.Schema, CorrelationID: m.CorrelationID, CausationID: m.CausationID, TraceParent: m.TraceParent,
		Fault: p.Fault, FirstAt: some(p.First.At), FirstHost: p.First.Host, LastAt: some(p.Last.At), Kills: p.Kills}
	for _, h := range m.Headers {
		out.Headers = append(out.Headers, headerJSON{h.Name, h.Value})
	}
	if m.ContentType == "application/json" && json.Valid(m.Data) {
		out.Payload = m.Data
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
				return n != w.limit, json.NewEncoder(out).Encode(jsonOf(&p))
			}
			why, _, _ := strings.Cut(p.Last.Why, "\n")
			_, err := fmt.Fprintf(table, "%s\t%s\t%s\t%s\t%d\t%s\t%s\n", p.Consumer, p.ID, p.Message.Type, keyText(p.Message.Key), p.Attempts, stateOf(&p), why)
			return n != w.limit, err
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

// An act changes messages that are meant: one verb, one effect for each.
type act struct {
	w         *wanted
	out, errs io.Writer
	verb      string
	effect    func(ctx context.Context, k keeper, p *store.Parked) (store.Effect, error)
	foresee   func(ctx context.Context, p *store.Parked) (string, error) // what else will be wanted; nil: nothing. For a dry run
}

// meant are the messages, bare, in order.
func (a *act) meant(ctx context.Context, k keeper) (all []store.Parked, err error) {
	err = a.w.each(ctx, k, true, func(p store.Parked) (bool, error) { all = append(all, p); return true, nil })
	if err == nil && len(all) == 0 {
		err = &place.NoneError{What: "no kept message is meant by these flags"}
	}
	return all, err
}

// ready asks for a reason, and for a yes where n messages are changed.
func (a *act) ready(ctx context.Context, n int) error {
	if a.w.dry || a.w.yes {
		return nil
	}
	return askFirst(ctx, a.errs, fmt.Sprintf("%s %d messages?", a.verb, n),
		fmt.Sprintf("%s would change %d messages: if that is meant, add --yes", a.verb, n))
}

func (a *act) reasoned() error {
	if strings.TrimSpace(a.w.reason) == "" && !a.w.dry {
		return &place.UsageError{What: a.verb + " wants a --reason: it is kept in skald_audit"}
	}
	return nil
}

// bulk holds that it is said why, and which messages are meant: nothing is done to all of them because a flag was forgotten.
func (a *act) bulk() error {
	if err := a.reasoned(); err != nil {
		return err
	}
	if !a.w.dry && !a.w.all && !a.w.filtered() {
		return &place.UsageError{What: fmt.Sprintf("%s which messages? Give %s; or --all, if all of them are meant", a.verb, a.w.filters())}
	}
	return nil
}

// run does it to each message that is meant, in order, each in a transaction with its audit.
func (a *act) run(c *cobra.Command) error {
	if err := a.bulk(); err != nil {
		return err
	}
	k, end, err := a.w.open(c)
	if err != nil {
		return err
	}
	defer end()
	all, err := a.meant(c.Context(), k)
	if err == nil {
		err = a.ready(c.Context(), len(all))
	}
	if err != nil {
		return err
	}
	did, wanted := 0, []string(nil)
	for i := range all {
		stands := a.w.dry
		if stands && a.foresee != nil {
			more, err := a.foresee(c.Context(), &all[i])
			if err != nil {
				return fmt.Errorf("%s %s: %w", a.verb, all[i].ID, err)
			}
			if more != "" {
				wanted = append(wanted, more)
			}
		}
		if !stands {
			if stands, err = a.change(c.Context(), k, &all[i], ""); err != nil {
				return fmt.Errorf("%s %s, behind %d others: %w", a.verb, all[i].ID, did, err)
			}
		}
		if stands {
			did++
		}
	}
	if err := told(a.out, a.w, a.verb, did, len(all), wanted...); err != nil {
		return err
	}
	return partly(a.verb, did, len(all))
}

// partly is the error of a bulk of which some were finished, or changed by somebody else, while it ran.
func partly(verb string, did, meant int) error {
	if did == meant {
		return nil
	}
	return &place.PartlyError{What: fmt.Sprintf("%s: %d of %d messages were finished, or somebody else was first: look what there is, and type it again", verb, meant-did, meant)}
}

// change does it to one message. False: it is finished, or somebody else was first.
func (a *act) change(ctx context.Context, k keeper, p *store.Parked, run string) (bool, error) {
	e, err := a.effect(ctx, k, p)
	if err != nil {
		return false, err
	}
	e.Audit = &store.Audit{Who: a.w.by, Why: a.w.reason, What: a.verb, Consumer: p.Consumer, Identity: p.Identity, Run: run}
	stands, err := k.Apply(ctx, e)
	return err == nil && stands[0], err
}

func told(out io.Writer, w *wanted, verb string, did, meant int, wanted ...string) error {
	if w.asJSON {
		said := map[string]any{"what": verb, "meant": meant, "done": did, "dry_run": w.dry}
		if len(wanted) > 0 {
			said["wanted"] = wanted
		}
		return json.NewEncoder(out).Encode(said)
	}
	word := "done"
	if w.dry {
		word = "would be done"
	}
	_, err := fmt.Fprintf(out, "%s: %d of %d messages %s\n", verb, did, meant, word)
	for _, more := range wanted {
		_, wrote := fmt.Fprintln(out, more)
		err = errors.Join(err, wrote)
	}
	return err
}

func release(_ context.Context, _ keeper, p *store.Parked) (store.Effect, error) {
	return store.Effect{Release: &store.Release{Consumer: p.Consumer, Identity: p.Identity}}, nil
}
