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

const rewindAbout = `Makes a consumer read a topic again from a point in time. The command sets back the positions of the
partitions in the consumer's database. Running consumers read from there within seconds.

A message with a mark is dropped as a duplicate. A message without a mark is handled or, if it is older
than the retention of marks, quarantined. The broker must be Kafka or NATS (docs/brokers.md).`

type rewinding struct {
	operate.Order
	schema, consumer, topic, to string
	asJSON, sure                bool
}

func rewindCommand(out, errs io.Writer) *cobra.Command {
	var r rewinding
	c := &cobra.Command{Use: "rewind", Short: "Let a consumer read a topic again from a point in time",
		Long: rewindAbout, Args: cobra.NoArgs}
	connect.StoreFlags(c, &r.schema, &r.asJSON)
	f := c.Flags()
	f.String("broker", "",
		"`URL` of the broker: kafka://… or nats://… (default: SKALD_BROKER)")
	connect.Filter(f, &r.consumer, "consumer",
		"consumer `GROUP` (default: the only consumer of the database)")
	f.StringVar(&r.topic, "topic", "", "`TOPIC` to read again")
	f.StringVar(&r.to, "to-time", "", "`TIME` to start at: 2026-01-31T08:00:00Z, or 90m for 90 minutes ago")
	connect.AuditFlags(f, &r.Reason, &r.Author)
	f.BoolVar(&r.DryRun, "dry-run", false, "print what would change, and change nothing")
	f.BoolVar(&r.sure, "yes", false, "do not ask for confirmation")
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
		return &cli.UsageError{What: "which topic? Give --topic"}
	case url == "":
		return &cli.UsageError{What: "which broker? Give --broker, or set SKALD_BROKER"}
	case !r.DryRun && strings.TrimSpace(r.Reason) == "":
		return &cli.UsageError{What: "why? Give --reason"}
	}
	places, err := r.find(c.Context(), url, at)
	if err != nil {
		return fmt.Errorf("consumer rewind: %w", err)
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
					fmt.Sprintf("%d partitions of %s.\nLet %s read them again?", n,
						r.topic, r.consumer),
					fmt.Sprintf("%d partitions: list them with --dry-run; to rewind them, add --yes", n))
			}
		}
		partitions, err := operate.Rewind(ctx, k, r.consumer, places, r.Order)
		if !cli.Reported(err) {
			return fmt.Errorf("consumer rewind: %w", err)
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
				What: "--to-time is a time such as 2026-01-02T15:04:05Z, or an age such as 90m"}
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
				What: fmt.Sprintf("%s:// cannot be rewound, because it deletes acknowledged messages; let their producers publish them again (docs/brokers.md)", redacted(url))}
	}
	return places, err
}

// redacted returns the scheme of a broker's URL, for error texts. The rest of the URL may have a password.
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
