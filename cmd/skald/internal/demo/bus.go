// This file is the broker that a run of the demo is on: its topics are made there, told from those of
// others, and taken away again.

package demo

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/skald-go/skald/broker"
	"github.com/skald-go/skald/broker/kafkabroker"
	"github.com/skald-go/skald/broker/membroker"
	"github.com/skald-go/skald/broker/natsbroker"
	"github.com/skald-go/skald/broker/rabbitbroker"
	"github.com/skald-go/skald/cmd/skald/internal/cli"
	"github.com/skald-go/skald/cmd/skald/internal/connect"
	"github.com/skald-go/skald/examples/shop/event"
	"github.com/skald-go/skald/examples/shop/place"
	"github.com/skald-go/skald/examples/shop/service"
)

const (
	// partitions is how many partitions each topic of a run gets.
	partitions = 4
	// connectTimeout is how long a server may take to answer.
	connectTimeout = 10 * time.Second
	// makeTimeout is how long it may take to make the topics of a run, and RabbitMQ's queues, some fifty.
	makeTimeout = time.Minute
	session     = 6 * time.Second
	// emptyWithin is how long a group may take to notice that the members of a demo that was killed are gone.
	emptyWithin = 10 * session
)

// A messageBus is the broker of a run. Each life of a service connects anew, as a process would.
type messageBus struct {
	Connect func() (broker.Broker, error)
	URL     string
	Own     broker.Broker // for what the run itself asks
	kind    kind
}

// A busRun is what the ledger knows of a run's topics.
type busRun struct {
	Prefix  string
	Style   event.Style
	Cluster string            // the broker's
	Topics  map[string]string // the ids of those that the run made; none until then
}

// topics are the names of the run's topics.
func (r *busRun) topics() []string { return event.New(r.Prefix).Topics() }

// kind is what differs between the brokers.
type kind interface {
	// there are the cluster's id and the ids of those of names that exist.
	there(ctx context.Context, names []string) (cluster string, ids map[string]string, err error)
	// own is a *exit.ForeignError if a group of the run's names is another's; or if one of the topics with
	// these ids has messages, and the run had not noted its topics: it died before it used them.
	own(ctx context.Context, r *busRun, ids map[string]string) error
	// remove takes these groups away and then the topics, if they still have these ids.
	remove(ctx context.Context, groups []string, ids map[string]string) error
}

// open connects to the broker at url.
func open(url string) (b *messageBus, err error) {
	b = &messageBus{URL: url, kind: memory{}}
	switch {
	case url == "mem:":
		cluster := membroker.New(nil)
		b.Connect = func() (broker.Broker, error) { return cluster.Client(), nil }
	case strings.HasPrefix(url, "kafka:"):
		seeds, opts, err := connect.Kafka(url)
		if err != nil {
			return nil, err
		}
		opts.Session = session
		b.Connect = func() (broker.Broker, error) { return kafkabroker.New(seeds, opts) }
		b.kind = &kafka{seeds, opts}
	default:
		if b.Connect, err = connect.Dial(url); err != nil {
			return nil, err
		}
	}
	if b.Own, err = b.Connect(); err != nil {
		return nil, fmt.Errorf("connect to broker: %w", err)
	}
	switch own := b.Own.(type) {
	case *natsbroker.Broker:
		b.kind = &nats{own, url}
	case *rabbitbroker.Broker:
		b.kind = &rabbit{own}
	}
	return b, nil
}

// Close closes the run's own client.
func (b *messageBus) Close() error { return b.Own.Close() }

// Cluster names the broker, for ever; with what is there under the names of a run that is not begun yet:
// nothing, or it is not ours.
func (b *messageBus) Cluster(ctx context.Context, prefix string) (string, error) {
	cluster, ids, err := b.there(ctx, event.New(prefix).Topics())
	if err == nil && len(ids) > 0 {
		found := strings.Join(slices.Sorted(maps.Keys(ids)), ", ")
		err = &cli.ForeignError{What: "there are topics that this demo did not make: " + found,
			Remedy: "choose another --prefix, or remove them"}
	}
	return cluster, err
}

// Topics finds the topics of a run, or makes them. Those that are made are to be noted.
func (b *messageBus) Topics(ctx context.Context, r busRun) (ids map[string]string, made bool, err error) {
	cluster, ids, err := b.there(ctx, r.topics())
	if err != nil {
		return nil, false, err
	}
	if r.Cluster != cluster || len(r.Topics) > 0 && !maps.Equal(r.Topics, ids) {
		return nil, false, &cli.ForeignError{
			What:   "the topics at " + b.URL + " are not those that this run has made",
			Remedy: "give the same --broker, or choose another --dir or --prefix, or remove what the run made",
		}
	}
	if len(r.Topics) > 0 {
		return ids, false, nil
	}
	if err := b.make(ctx, r); err != nil {
		return nil, false, err
	}
	_, ids, err = b.there(ctx, r.topics())
	return ids, true, err
}

func (b *messageBus) make(ctx context.Context, r busRun) error {
	ctx, cancel := context.WithTimeout(ctx, makeTimeout)
	defer cancel()
	events := event.New(r.Prefix)
	events.Style = r.Style
	if err := place.MakeTopics(ctx, b.Own, events, partitions); err != nil {
		return fmt.Errorf("make topics: %w", err)
	}
	return nil
}

func (b *messageBus) there(ctx context.Context, names []string) (cluster string, ids map[string]string,
	err error) {
	ctx, cancel := context.WithTimeout(ctx, connectTimeout)
	defer cancel()
	if cluster, ids, err = b.kind.there(ctx, names); err != nil {
		return "", nil, fmt.Errorf("look up topics at %s: %w", b.URL, err)
	}
	return cluster, ids, nil
}

// Made is which of the run's topics are still there, with their ids, or a *exit.ForeignError where one of its
// names is another's: a topic with another id, a group that reads other topics.
func (b *messageBus) Made(ctx context.Context, r busRun) (ids map[string]string, err error) {
	cluster, ids, err := b.there(ctx, r.topics())
	if err != nil {
		return nil, err
	}
	if cluster != r.Cluster {
		return nil, &cli.ForeignError{What: "the run is not on the broker " + b.URL,
			Remedy: "give its --broker"}
	}
	for name, id := range ids {
		if len(r.Topics) > 0 && r.Topics[name] != id {
			return nil, &cli.ForeignError{What: "the demo did not make the topic " + name + " at " + b.URL,
				Remedy: "remove it, or give its own --broker; nothing is removed yet"}
		}
	}
	ctx, cancel := context.WithTimeout(ctx, connectTimeout)
	defer cancel()
	return ids, b.kind.own(ctx, &r, ids)
}

// Remove deletes the run's groups and then its topics, by their ids: one that was made anew since they were
// looked at is another's. Those that are gone already are no matter.
func (b *messageBus) Remove(ctx context.Context, prefix string, ids map[string]string) error {
	ctx, cancel := context.WithTimeout(ctx, emptyWithin)
	defer cancel()
	return b.kind.remove(ctx, groups(prefix), ids)
}

// Remains says what the run leaves at the broker.
func (b *messageBus) Remains(prefix string) string {
	if b.kind == (memory{}) {
		return ""
	}
	return fmt.Sprintf("\nThe topics are %s at %s; the groups are %s",
		strings.Join(event.New(prefix).Topics(), ", "), b.URL, strings.Join(groups(prefix), ", "))
}

// groups are the names of the run's groups.
func groups(prefix string) (names []string) {
	for _, name := range service.Names() {
		names = append(names, event.New(prefix).Group(name))
	}
	return append(names, event.New(prefix).Group(event.Tracker))
}

// notRead is about a group that reads topics beside those of the demo; nil, if it reads none.
func notRead(group string, read, ours []string) error {
	for _, topic := range read {
		if !slices.Contains(ours, topic) {
			return &cli.ForeignError{What: "the group " + group + " reads " + topic +
				", which the demo does not", Remedy: "remove the group by hand; nothing is removed yet"}
		}
	}
	return nil
}

// notWritten is about a topic with messages that are not the demo's; what is what to remove for it.
func notWritten(topic, what string) error {
	return &cli.ForeignError{What: "there are messages that the demo did not write in " + topic,
		Remedy: "remove " + what + " by hand; nothing is removed yet"}
}

// memory is the broker in this process: nothing at it outlives the process.
type memory struct{}

func (memory) there(context.Context, []string) (string, map[string]string, error) {
	return "mem:", nil, nil
}
func (memory) own(context.Context, *busRun, map[string]string) error     { return nil }
func (memory) remove(context.Context, []string, map[string]string) error { return nil }
