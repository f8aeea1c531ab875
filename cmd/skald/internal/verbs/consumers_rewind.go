package verbs

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/skald-go/skald/broker"
	"github.com/skald-go/skald/cmd/skald/internal/cli"
	"github.com/skald-go/skald/cmd/skald/internal/connect"
	"github.com/skald-go/skald/operate"
)

const rewindAbout = `Has a consumer read a topic again from a time on: the position of each partition is set back in the consumer's database, and a
consumer that runs finds out within some seconds, joins its group anew, and starts there. Messages whose marks are kept are
dropped as repeats; those without one are taken, or, if they are older than marks are kept, go into quarantine. The broker must
be one that can be rewound: Kafka or NATS (see docs/brokers.md). It is noted who did it and why.`

type rewinding struct {
	operate.Order
	schema, consumer, topic, to string
	asJSON, sure                bool
}

func rewindCommand(out, errs io.Writer) *cobra.Command {
	var r rewinding
	c := &cobra.Command{Use: "rewind", Short: "Have a consumer read a topic again from a time on",
		Long: rewindAbout, Args: cobra.NoArgs}
	connect.StoreFlags(c, &r.schema, &r.asJSON)
	f := c.Flags()
	f.String("broker", "",
		"kafka:// or nats://host:port[,host:port][?option=value&…]; SKALD_BROKER stands for it")
	connect.Filter(f, &r.consumer, "consumer",
		"the consumer group (default: that of the database, where it knows one)")
	f.StringVar(&r.topic, "topic", "", "the topic")
	f.StringVar(&r.to, "to-time", "", "a time as in RFC 3339, or how long ago: 90m")
	f.StringVar(&r.Reason, "reason", "", "why; it is noted")
	f.StringVar(&r.Author, "by", connect.Whoami(), "who does it, for the audit")
	f.BoolVar(&r.DryRun, "dry-run", false, "say what would be done, and do nothing")
	f.BoolVar(&r.sure, "yes", false, "do not ask")
	c.RunE = func(c *cobra.Command, _ []string) error { return r.run(c, out, errs) }
	return c
}

func (r *rewinding) run(c *cobra.Command, out, errs io.Writer) error {
	at, err := r.time(time.Now())
	if err != nil {
		return err
	}
	url := connect.From(c, "broker", "SKALD_BROKER")
	switch {
	case r.topic == "":
		return &cli.UsageError{What: "what? Give --topic"}
	case url == "":
		return &cli.UsageError{What: "at which broker? Give --broker, or SKALD_BROKER"}
	case !r.DryRun && strings.TrimSpace(r.Reason) == "":
		return &cli.UsageError{What: "why? Give --reason"}
	}
	places, err := r.find(c.Context(), url, at)
	if err != nil {
		return fmt.Errorf("inbox rewind: %w", err)
	}
	return withKnower(c, r.schema, r.DryRun, func(ctx context.Context, k knower) error {
		if r.consumer == "" {
			if r.consumer, err = onlyConsumer(ctx, k); err != nil {
				return err
			}
		}
		if !r.sure {
			r.Confirm = func(ctx context.Context, n int) error {
				return connect.Yes(ctx, errs,
					fmt.Sprintf("%d partitions of %s.\nShall %s read them again?", n,
						r.topic, r.consumer),
					fmt.Sprintf("%d partitions: look at them with --dry-run; if that is meant, add --yes", n))
			}
		}
		partitions, err := operate.Rewind(ctx, k, r.consumer, places, r.Order)
		if !cli.Reported(err) {
			return fmt.Errorf("inbox rewind: %w", err)
		}
		return errors.Join(r.tell(out, partitions), err)
	})
}

func (r *rewinding) time(now time.Time) (time.Time, error) {
	if ago, err := time.ParseDuration(r.to); err == nil && ago > 0 {
		return now.Add(-ago), nil
	}
	at, err := time.Parse(time.RFC3339, r.to)
	if err != nil {
		return at,
			&cli.UsageError{
				What: "--to-time is a time as in RFC 3339 (2026-01-02T15:04:05Z), or how long ago: 90m"}
	}
	return at, nil
}

func (r *rewinding) find(ctx context.Context, url string, at time.Time) ([]broker.Place, error) {
	dial, err := connect.Dial(url)
	if err != nil {
		return nil, err
	}
	b, err := dial()
	if err != nil {
		return nil, err
	}
	defer b.Close()
	ctx, cancel := context.WithTimeout(ctx, connect.BrokerPatience)
	defer cancel()
	places, err := b.Find(ctx, r.topic, at)
	if errors.Is(err, broker.ErrUnsupported) {
		return nil,
			&cli.UsageError{
				What: fmt.Sprintf("%s:// cannot be rewound: what was acknowledged there is gone; have the services that said it say it again (docs/brokers.md)", redacted(url))}
	}
	return places, err
}

// redacted is the kind of a broker: a URL may name more than is to be shown.
func redacted(url string) string {
	kind, _, _ := strings.Cut(url, ":")
	return kind
}

func (r *rewinding) tell(out io.Writer, partitions []operate.Rewound) error {
	if r.asJSON {
		return cli.JSON(out).Encode(map[string]any{"consumer": r.consumer, "topic": r.topic,
			"dry_run": r.DryRun, "partitions": partitions})
	}
	w := cli.Table(out)
	fmt.Fprintln(w, "partition\tfrom\tto\t")
	for _, l := range partitions {
		state := l.Why
		switch {
		case l.Rewound:
			state = "rewound"
		case l.Why == "":
			state = "would be rewound"
		}
		fmt.Fprintf(w, "%s\t%d\t%d\t%s\n", l.Partition, l.From, l.To, state)
	}
	return w.Flush()
}
