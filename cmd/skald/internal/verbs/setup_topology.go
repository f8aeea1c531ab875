package verbs

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/skald-go/skald/broker"
	"github.com/skald-go/skald/cmd/skald/internal/cli"
	"github.com/skald-go/skald/cmd/skald/internal/connect"
	"github.com/skald-go/skald/operate"
)

// topology has the topics and groups that skald migrate creates at a broker.
type topology struct {
	url        string
	topics     []string
	groups     []string
	partitions int
}

// groupMaker is a broker that needs objects for each group. RabbitMQ needs queues, for example.
type groupMaker interface {
	Declare(ctx context.Context, g broker.Group) error
}

// isWanted reports whether the user wants to create topics or groups. SKALD_BROKER alone is no such
// request, because it may be set for a service.
func (w *topology) isWanted(c *cobra.Command) (bool, error) {
	w.url = connect.From(c, "broker", "SKALD_BROKER")
	given := c.Flags().Changed("broker")
	switch {
	case len(w.topics) == 0 && len(w.groups) == 0 && !given && w.partitions == 0:
		return false, nil
	case len(w.topics) == 0:
		return true, &cli.UsageError{What: "--broker: which topics? Give --topic NAME, once for each"}
	case w.url == "":
		return true, &cli.UsageError{What: "--topic: which broker? Give --broker, or set SKALD_BROKER"}
	case w.url == "mem:":
		return true, &cli.UsageError{What: w.url +
			" is a broker inside one process: that process creates its topics"}
	case w.partitions < 0 || w.partitions > 1024:
		return true, &cli.UsageError{What: "--partitions is 1 to 1,024"}
	}
	return true, nil
}

// migrate creates the missing topics and groups. If check is true, it only lists them.
func (w *topology) migrate(ctx context.Context, t *cli.Output, check bool) (err error) {
	dial, err := connect.Dial(w.url)
	if err != nil {
		return err
	}
	b, err := dial()
	if err != nil {
		return fmt.Errorf("connect to broker: %w", err)
	}
	defer func() { err = errors.Join(err, b.Close()) }()
	ctx, cancel := context.WithTimeout(ctx, connect.BrokerPatience)
	defer cancel()
	missing, err := operate.MissingTopics(ctx, b, w.topics, w.groups)
	switch {
	case err != nil:
		return err
	case len(missing) == 0 && !check:
		return t.Say("made", []string{}, "topics: up to date")
	case len(missing) == 0:
		return t.Say("missing", []string{}, "topics: up to date")
	case check:
		return errors.Join(t.List("missing", "pending", missing), &cli.FailedError{Err: errPending})
	}
	if err := w.make(ctx, b); err != nil {
		return err
	}
	still, err := operate.MissingTopics(ctx, b, w.topics, w.groups)
	if err != nil {
		return err
	}
	if len(still) > 0 {
		return &cli.ForeignError{What: still[0], Remedy: "change or remove it: it has other settings than Skald needs"}
	}
	return t.List("made", "made", createdNames(missing))
}

// createdNames returns the names of the created objects.
func createdNames(missing []string) []string {
	out := make([]string, len(missing))
	for i, what := range missing {
		out[i] = strings.TrimSuffix(what, ": "+broker.ErrNoTopic.Error())
	}
	return out
}

func (w *topology) make(ctx context.Context, b broker.Broker) error {
	if err := b.MakeTopics(ctx, w.partitions, w.topics...); err != nil {
		return err
	}
	g, ok := b.(groupMaker)
	if !ok {
		return nil
	}
	for _, name := range w.groups {
		if err := g.Declare(ctx, broker.Group{Name: name, Topics: w.topics}); err != nil {
			return fmt.Errorf("create group %s: %w", name, err)
		}
	}
	return nil
}
