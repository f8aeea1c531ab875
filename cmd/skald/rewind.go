package main

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/skald-go/skald/broker"
	"github.com/skald-go/skald/examples/shop/place"
	"github.com/skald-go/skald/store"
)

const inboxRewindAbout = `Has a consumer read a topic again from a time on: the position of each lane is set back in the consumer's database, and a
consumer that runs finds out within some seconds, joins its group anew, and starts there. Messages whose marks are kept are
dropped as repeats; those without one are taken, or, if they are older than marks are kept, go into quarantine. The broker must
be one that can be rewound: Kafka or NATS (see docs/brokers.md). It is noted who did it and why.`

// spotter is what rewind asks of a store.
type spotter interface {
	Check(ctx context.Context, as store.Role) error
	Spots(ctx context.Context, consumer string) (store.Spots, error)
	Apply(ctx context.Context, es ...store.Effect) ([]bool, error)
}

type rewinding struct {
	schema, consumer, topic, to, reason, by string
	asJSON, dry, sure                       bool
}

// A rewound is what --json prints of a lane: its names are stable.
type rewound struct {
	Lane    string `json:"lane"`
	From    int64  `json:"from"` // -1: not known
	To      int64  `json:"to"`
	Rewound bool   `json:"rewound"`
	Why     string `json:"why,omitempty"` // it is not

	origin string
}

func inboxRewindCommand(out, errs io.Writer) *cobra.Command {
	var r rewinding
	c := &cobra.Command{Use: "rewind", Short: "Have a consumer read a topic again from a time on", Long: inboxRewindAbout, Args: cobra.NoArgs}
	storeFlags(c, &r.schema, &r.asJSON)
	f := c.Flags()
	f.String("broker", "", "kafka:// or nats://host:port[,host:port][?option=value&…]; SKALD_BROKER stands for it")
	f.StringVar(&r.consumer, "consumer", "", "the consumer group")
	f.StringVar(&r.topic, "topic", "", "the topic")
	f.StringVar(&r.to, "to-time", "", "a time as in RFC 3339, or how long ago: 90m")
	f.StringVar(&r.reason, "reason", "", "why; it is noted")
	f.StringVar(&r.by, "by", whoami(), "who; it is noted")
	f.BoolVar(&r.dry, "dry-run", false, "say what would be done, and do nothing")
	f.BoolVar(&r.sure, "yes", false, "do not ask")
	c.RunE = func(c *cobra.Command, _ []string) error { return r.run(c, out, errs) }
	return c
}

func (r *rewinding) run(c *cobra.Command, out, errs io.Writer) error {
	at, err := r.time(time.Now())
	if err != nil {
		return err
	}
	url := from(c, "broker", "SKALD_BROKER")
	switch {
	case r.consumer == "" || r.topic == "":
		return &place.UsageError{What: "whom and what? Give --consumer and --topic"}
	case url == "":
		return &place.UsageError{What: "at which broker? Give --broker, or SKALD_BROKER"}
	case !r.dry && strings.TrimSpace(r.reason) == "":
		return &place.UsageError{What: "why? Give --reason"}
	}
	places, err := r.find(c.Context(), url, at)
	if err != nil {
		return fmt.Errorf("inbox rewind: %w", err)
	}
	return withKnower(c, r.schema, store.App, func(ctx context.Context, k knower) error {
		db, ok := k.(spotter)
		if !ok {
			return fmt.Errorf("inbox rewind: %T keeps no positions", k)
		}
		all, err := db.Spots(ctx, r.consumer)
		if err != nil {
			return fmt.Errorf("inbox rewind: %w", err)
		}
		if len(all.Spots) == 0 && !r.dry {
			return &place.NoneError{What: fmt.Sprintf("inbox rewind: no consumer %s has read anything with these tables: is that its name, and is this its database?", r.consumer)}
		}
		lanes := compared(all, places)
		if err := r.change(ctx, errs, db, lanes); err != nil {
			return fmt.Errorf("inbox rewind: %w", err)
		}
		return errors.Join(r.tell(out, lanes), r.partly(lanes))
	})
}

func (r *rewinding) time(now time.Time) (time.Time, error) {
	if ago, err := time.ParseDuration(r.to); err == nil && ago > 0 {
		return now.Add(-ago), nil
	}
	at, err := time.Parse(time.RFC3339, r.to)
	if err != nil {
		return at, &place.UsageError{What: "--to-time is a time as in RFC 3339 (2026-01-02T15:04:05Z), or how long ago: 90m"}
	}
	return at, nil
}

func (r *rewinding) find(ctx context.Context, url string, at time.Time) ([]broker.Place, error) {
	connect, err := place.Dial(url)
	if err != nil {
		return nil, err
	}
	b, err := connect()
	if err != nil {
		return nil, err
	}
	defer b.Close()
	finder, ok := b.(broker.Finder)
	if !ok {
		return nil, &place.UsageError{What: fmt.Sprintf("%s:// cannot be rewound: what was acknowledged there is gone; have the services that said it say it again (docs/brokers.md)", redacted(url))}
	}
	ctx, cancel := context.WithTimeout(ctx, brokerPatience)
	defer cancel()
	return finder.Find(ctx, r.topic, at)
}

// redacted is the kind of a broker: a URL may name more than is to be shown.
func redacted(url string) string {
	kind, _, _ := strings.Cut(url, ":")
	return kind
}

// compared says which lanes can be set back.
func compared(all store.Spots, places []broker.Place) []rewound {
	out := []rewound{}
	for _, p := range places {
		one := rewound{Lane: p.Lane.Name, From: -1, To: p.Position, origin: p.Lane.Origin, Why: "the consumer has not had this lane yet"}
		for _, s := range all.Spots {
			if s.Lane != p.Lane.Name {
				continue
			}
			switch one.From = s.Position; {
			case s.Origin != p.Lane.Origin:
				one.From, one.Why = -1, "its position is that of a topic that is not there any more"
			case s.Position >= 0 && s.Position <= p.Position:
				one.Why = "it is not farther"
			default:
				one.Why = ""
			}
		}
		out = append(out, one)
	}
	return out
}

func (r *rewinding) change(ctx context.Context, errs io.Writer, db spotter, lanes []rewound) error {
	n := 0
	for _, l := range lanes {
		if l.Why == "" {
			n++
		}
	}
	if r.dry || n == 0 {
		return nil
	}
	if !r.sure {
		if err := askFirst(ctx, errs, fmt.Sprintf("%d lanes of %s.\nShall %s read them again?", n, r.topic, r.consumer),
			fmt.Sprintf("%d lanes: look at them with --dry-run; if that is meant, add --yes", n)); err != nil {
			return err
		}
	}
	for i := range lanes {
		l := &lanes[i]
		if l.Why != "" {
			continue
		}
		stood, err := db.Apply(ctx, store.Effect{
			Rewind: &store.Rewind{Consumer: r.consumer, Lane: l.Lane, Origin: l.origin, Position: l.To, Note: "rewind-" + rand.Text()},
			Audit:  &store.Audit{Who: r.by, Why: r.reason, What: "rewind", Consumer: r.consumer, Identity: store.Identity{Source: l.Lane, ID: fmt.Sprint(l.To)}}})
		if err != nil {
			return fmt.Errorf("lane %s: %w", l.Lane, err)
		}
		if l.Rewound = stood[0]; !l.Rewound {
			l.Why = changedMeanwhile
		}
	}
	return nil
}

const changedMeanwhile = "it changed meanwhile"

// partly is the error of a rewind of which some lanes moved while it ran.
func (r *rewinding) partly(lanes []rewound) error {
	n := 0
	for _, l := range lanes {
		if l.Why == changedMeanwhile {
			n++
		}
	}
	if n == 0 {
		return nil
	}
	return &place.PartlyError{What: fmt.Sprintf("inbox rewind: %d of %d lanes changed meanwhile: look with --dry-run, and type it again", n, len(lanes))}
}

func (r *rewinding) tell(out io.Writer, lanes []rewound) error {
	if r.asJSON {
		return json.NewEncoder(out).Encode(map[string]any{"consumer": r.consumer, "topic": r.topic, "dry_run": r.dry, "lanes": lanes})
	}
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "lane\tfrom\tto\t")
	for _, l := range lanes {
		state := l.Why
		switch {
		case l.Rewound:
			state = "rewound"
		case l.Why == "":
			state = "would be rewound"
		}
		fmt.Fprintf(w, "%s\t%d\t%d\t%s\n", l.Lane, l.From, l.To, state)
	}
	return w.Flush()
}
