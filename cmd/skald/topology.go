package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/skald-go/skald/broker"
	"github.com/skald-go/skald/cmd/skald/internal/demo"
	"github.com/skald-go/skald/examples/shop/place"
)

// topology is what migrate makes at a broker.
type topology struct {
	url    string
	topics []string
	groups []string
	lanes  int
}

// groupMaker is a broker at which groups need something made: RabbitMQ, where each has queues.
type groupMaker interface {
	Declare(ctx context.Context, g broker.Group) error
	CheckGroup(ctx context.Context, g broker.Group) (missing []string, err error)
}

// asked tells whether migrate is to look at the broker. SKALD_BROKER alone does not ask: a service has it for itself.
func (w *topology) asked(c *cobra.Command) (bool, error) {
	w.url = from(c, "broker", "SKALD_BROKER")
	given := c.Flags().Changed("broker")
	switch {
	case len(w.topics) == 0 && len(w.groups) == 0 && !given && w.lanes == 0:
		return false, nil
	case len(w.topics) == 0:
		return true, &place.UsageError{What: "--broker: which topics? Give --topic NAME, once for each"}
	case w.url == "":
		return true, &place.UsageError{What: "--topic: at which broker? Give --broker, or SKALD_BROKER"}
	case w.url == "mem:" || w.url == "nats:":
		return true, &place.UsageError{What: w.url + " is a broker inside of one process: its topics are made there"}
	case w.lanes < 0 || w.lanes > 1024:
		return true, &place.UsageError{What: "--lanes is 1 to 1,024"}
	}
	return true, nil
}

// brokerPatience is how long a broker may take to answer.
const brokerPatience = 10 * time.Second

// migrate makes those topics that are missing; with check it only says which.
func (w *topology) migrate(ctx context.Context, t *tidings, check bool) (err error) {
	connect, err := place.Dial(w.url)
	if err != nil {
		return err
	}
	b, err := connect()
	if err != nil {
		return fmt.Errorf("connect to broker: %w", err)
	}
	defer func() { err = errors.Join(err, b.Close()) }()
	maker, makes := b.(broker.TopicMaker)
	checker, checks := b.(broker.TopicChecker)
	if !makes || !checks {
		return &place.UsageError{What: fmt.Sprintf("%T makes no topics", b)}
	}
	ctx, cancel := context.WithTimeout(ctx, brokerPatience)
	defer cancel()
	missing, err := w.missing(ctx, b, checker)
	switch {
	case err != nil:
		return err
	case len(missing) == 0 && !check:
		return t.list("made", "", nil)
	case len(missing) == 0:
		return t.list("missing", "", nil)
	case check:
		return errors.Join(t.list("missing", "pending", missing), &place.FailedError{Err: errPending})
	}
	if err := w.make(ctx, b, maker); err != nil {
		return err
	}
	still, err := w.missing(ctx, b, checker)
	if err != nil {
		return err
	}
	if len(still) > 0 {
		return &demo.ForeignError{What: still[0], Remedy: "change it, or remove it; it was not made here"}
	}
	return t.list("made", "made what was missing:", missing)
}

// missing is what of the topics and groups is not there, or cannot be used.
func (w *topology) missing(ctx context.Context, b broker.Broker, checker broker.TopicChecker) ([]string, error) {
	missing, err := checker.CheckTopics(ctx, w.topics...)
	g, ok := b.(groupMaker)
	if err != nil || !ok {
		return missing, err
	}
	for _, name := range w.groups {
		more, err := g.CheckGroup(ctx, broker.Group{Name: name, Topics: w.topics})
		if err != nil {
			return nil, err
		}
		missing = append(missing, slices.DeleteFunc(more, func(s string) bool { return slices.Contains(missing, s) })...)
	}
	return missing, nil
}

func (w *topology) make(ctx context.Context, b broker.Broker, maker broker.TopicMaker) error {
	if err := maker.MakeTopics(ctx, w.lanes, w.topics...); err != nil {
		return err
	}
	g, ok := b.(groupMaker)
	if !ok {
		return nil
	}
	for _, name := range w.groups {
		if err := g.Declare(ctx, broker.Group{Name: name, Topics: w.topics}); err != nil {
			return fmt.Errorf("make group %s: %w", name, err)
		}
	}
	return nil
}
