package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/skald-go/skald/examples/shop/place"
	"github.com/skald-go/skald/store"
)

const inboxShowAbout = `Says what a consumer knows of a message: whether it was taken and what was answered; whether it is parked, at a call to the outside,
or a dead letter, and why; and whether a message of that id is in quarantine, with its payload.

A message is known by its source and its id. Without --source it is looked for among what is kept, and else taken for a key, which has none.`

func inboxShowCommand(out io.Writer) *cobra.Command {
	var schema, consumer, source string
	var asJSON bool
	c := &cobra.Command{Use: "show ID", Short: "What a consumer knows of a message", Long: inboxShowAbout, Args: cobra.ExactArgs(1)}
	storeFlags(c, &schema, &asJSON)
	c.Flags().StringVar(&consumer, "consumer", "", "the consumer group, or the scope of a key")
	c.Flags().StringVar(&source, "source", "", "the message's source (default: that of the one that is kept; a key has none)")
	c.RunE = func(c *cobra.Command, args []string) error {
		if consumer == "" {
			return &place.UsageError{What: "whose knowledge? Give --consumer"}
		}
		return withKnower(c, schema, store.App, func(ctx context.Context, k knower) error {
			shown, err := show(ctx, k, consumer, store.Identity{Source: source, ID: args[0]}, c.Flags().Changed("source"))
			if err != nil {
				return fmt.Errorf("inbox show: %w", err)
			}
			if asJSON {
				return json.NewEncoder(out).Encode(shown)
			}
			return shown.tell(out)
		})
	}
	return c
}

// A shown is what --json prints: its names are stable.
type shown struct {
	Consumer    string      `json:"consumer"`
	Source      string      `json:"source"`
	ID          string      `json:"id"`
	Status      string      `json:"status"` // unknown, done, rejected, barred, parked, calling, dead
	Reason      string      `json:"reason,omitempty"`
	Code        int32       `json:"code"`
	Result      string      `json:"result"`
	Fingerprint int64       `json:"fingerprint,string"`
	Kept        *keptJSON   `json:"kept,omitempty"` // it is parked or a dead letter
	Quarantine  []apartShow `json:"quarantine"`
}

type apartShow struct {
	Number     int64      `json:"number"`
	Why        string     `json:"why"`
	At         time.Time  `json:"at"`
	Topic      string     `json:"topic"`
	Type       string     `json:"type"`
	Data       []byte     `json:"data"`
	AdmittedAt *time.Time `json:"admitted_at"`
	AdmittedBy string     `json:"admitted_by,omitempty"`
	Reason     string     `json:"reason,omitempty"`
	TakenAt    *time.Time `json:"taken_at"`
}

func show(ctx context.Context, k knower, consumer string, id store.Identity, sourced bool) (*shown, error) {
	kept, err := keptAs(ctx, k, consumer, id, sourced)
	if err != nil {
		return nil, err
	}
	if kept != nil {
		id.Source = kept.Source
	}
	seen, err := k.Seen(ctx, consumer, []store.Identity{id})
	if err != nil {
		return nil, err
	}
	v := seen[0]
	out := &shown{Consumer: consumer, Source: id.Source, ID: id.ID, Status: v.Outcome.String(), Reason: v.Reason, Code: v.Code,
		Result: v.Result, Fingerprint: v.Fingerprint, Quarantine: []apartShow{}}
	if kept != nil {
		one := jsonOf(kept)
		out.Kept = &one
	}
	if v.Outcome == store.Fresh {
		out.Status = statusOf(kept)
	}
	list, err := k.Quarantined(ctx, store.Query{Consumer: consumer, ID: id.ID, Taken: true})
	for _, q := range list {
		out.Quarantine = append(out.Quarantine, apartShow{q.Number, q.Why.String(), q.At, q.Message.Topic, q.Message.Type, q.Message.Data,
			some(q.Admitted), q.By, q.Reason, some(q.Taken)})
	}
	return out, err
}

// keptAs is the message as it is kept; nil: it is not.
func keptAs(ctx context.Context, k knower, consumer string, id store.Identity, sourced bool) (*store.Parked, error) {
	what := store.Sought{Consumer: consumer, Identity: &id, Bare: true}
	list, err := k.Kept(ctx, what, 1)
	if err != nil || len(list) > 0 || sourced {
		return first(list), err
	}
	what.Identity = nil
	for {
		if list, err = k.Kept(ctx, what, 1000); err != nil || len(list) == 0 {
			return nil, err
		}
		if i := slices.IndexFunc(list, func(p store.Parked) bool { return p.ID == id.ID }); i >= 0 {
			return &list[i], nil
		}
		what.After = list[len(list)-1].Place
	}
}

func first(list []store.Parked) *store.Parked {
	if len(list) == 0 {
		return nil
	}
	return &list[0]
}

func statusOf(kept *store.Parked) string {
	switch {
	case kept == nil:
		return "unknown"
	case kept.Dead != nil:
		return store.Dead.String()
	case kept.Call != nil:
		return "calling"
	}
	return store.Waiting.String()
}

func some(t time.Time) *time.Time {
	if t.IsZero() {
		return nil
	}
	return &t
}

func (s *shown) tell(out io.Writer) error {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintf(w, "%s\t%s\t%s\n", s.ID, s.Status, s.Reason)
	if s.Code != 0 || s.Result != "" {
		fmt.Fprintf(w, "answer\t%d\t%s\n", s.Code, s.Result)
	}
	if k := s.Kept; k != nil {
		why, _, _ := strings.Cut(k.LastError, "\n")
		fmt.Fprintf(w, "kept\t%s since %s\t%s %s, %d attempts: %s\n", s.Status, k.Since.Format(time.RFC3339), k.Topic, k.Type, k.Attempts, why)
	}
	if s.Status == "unknown" && s.Source == "" && len(s.Quarantine) == 0 {
		fmt.Fprintln(w, "a message has a source: give --source")
	}
	for _, q := range s.Quarantine {
		state := "waits"
		switch {
		case q.TakenAt != nil:
			state = "taken " + q.TakenAt.Format(time.RFC3339)
		case q.AdmittedAt != nil:
			state = "admitted by " + q.AdmittedBy + ": " + q.Reason
		}
		fmt.Fprintf(w, "quarantine %d\t%s since %s\t%s %s, %d bytes: %s\n", q.Number, q.Why, q.At.Format(time.RFC3339), q.Topic, q.Type, len(q.Data), state)
	}
	return w.Flush()
}
