// This file connects to the broker of a run of the demo. It creates and removes the topics of the run. It
// does not use or remove a topic that another program created.

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
	// partitions is the number of partitions of each topic.
	partitions = 4
	// connectTimeout limits the wait for a server.
	connectTimeout = 10 * time.Second
	// makeTimeout limits the creation of the topics of a run, and of some fifty queues at RabbitMQ.
	makeTimeout = time.Minute
	session     = 6 * time.Second
	// emptyWithin limits the wait until a group has removed the members of a killed demo.
	emptyWithin = 10 * session
)

// messageBus is the broker of a run. Each session of a service opens a new connection, as a new process
// would.
type messageBus struct {
	Connect func() (broker.Broker, error)
	URL     string
	Own     broker.Broker // the connection of the run itself
	kind    kind
}

// busRun is the record of a run's topics in the ledger.
type busRun struct {
	Prefix  string
	Style   event.Style
	Cluster string            // the ID of the broker
	Topics  map[string]string // the IDs of created topics; empty until then
}

// topics returns the names of the run's topics.
func (r *busRun) topics() []string { return event.New(r.Prefix).Topics() }

// kind has the operations that differ between brokers.
type kind interface {
	// there returns the ID of the cluster, and the IDs of the existing topics among names.
	there(ctx context.Context, names []string) (cluster string, ids map[string]string, err error)
	// own returns a *cli.ForeignError if a group of the run's names belongs to another program. It also
	// returns a *cli.ForeignError if a topic has messages although the run had not recorded its topics.
	own(ctx context.Context, r *busRun, ids map[string]string) error
	// remove deletes these groups, and then the topics that still have these IDs.
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

// Close closes the connection of the run itself.
func (b *messageBus) Close() error { return b.Own.Close() }

// Cluster returns the permanent ID of the broker, before a run begins. It returns a *cli.ForeignError if a
// topic of the run exists.
func (b *messageBus) Cluster(ctx context.Context, prefix string) (string, error) {
	cluster, ids, err := b.there(ctx, event.New(prefix).Topics())
	if err == nil && len(ids) > 0 {
		found := strings.Join(slices.Sorted(maps.Keys(ids)), ", ")
		err = &cli.ForeignError{What: "there are topics that this demo did not create: " + found,
			Remedy: "choose another --prefix, or remove them"}
	}
	return cluster, err
}

// Topics finds the topics of a run, or creates them. The result created reports whether it created them:
// the caller must then record their IDs.
func (b *messageBus) Topics(ctx context.Context, r busRun) (ids map[string]string, created bool, err error) {
	cluster, ids, err := b.there(ctx, r.topics())
	if err != nil {
		return nil, false, err
	}
	if r.Cluster != cluster || len(r.Topics) > 0 && !maps.Equal(r.Topics, ids) {
		return nil, false, &cli.ForeignError{
			What:   "this run did not create the topics at " + b.URL,
			Remedy: "give the same --broker, or choose another --dir or --prefix, or remove the objects of the run",
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
		return fmt.Errorf("create topics: %w", err)
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

// Made returns the IDs of the run's topics that still exist. It returns a *cli.ForeignError if a topic has
// another ID, or if a group reads other topics.
func (b *messageBus) Made(ctx context.Context, r busRun) (ids map[string]string, err error) {
	cluster, ids, err := b.there(ctx, r.topics())
	if err != nil {
		return nil, err
	}
	if cluster != r.Cluster {
		return nil, &cli.ForeignError{What: "the run does not use the broker " + b.URL,
			Remedy: "give its --broker"}
	}
	for name, id := range ids {
		if len(r.Topics) > 0 && r.Topics[name] != id {
			return nil, &cli.ForeignError{What: "the demo did not create the topic " + name + " at " + b.URL,
				Remedy: "remove it, or give the broker of the run; nothing is removed yet"}
		}
	}
	ctx, cancel := context.WithTimeout(ctx, connectTimeout)
	defer cancel()
	return ids, b.kind.own(ctx, &r, ids)
}

// Remove deletes the run's groups, and then its topics. It deletes topics by their IDs, so it does not
// delete a topic of the same name that another program created later. Missing topics are no error.
func (b *messageBus) Remove(ctx context.Context, prefix string, ids map[string]string) error {
	ctx, cancel := context.WithTimeout(ctx, emptyWithin)
	defer cancel()
	return b.kind.remove(ctx, groups(prefix), ids)
}

// Remains describes the objects of the run at the broker.
func (b *messageBus) Remains(prefix string) string {
	if b.kind == (memory{}) {
		return ""
	}
	return fmt.Sprintf("\nThe topics are %s at %s; the groups are %s",
		strings.Join(event.New(prefix).Topics(), ", "), b.URL, strings.Join(groups(prefix), ", "))
}

// groups returns the names of the run's groups.
func groups(prefix string) (names []string) {
	for _, name := range service.Names() {
		names = append(names, event.New(prefix).Group(name))
	}
	return append(names, event.New(prefix).Group(event.Tracker))
}

// notRead returns an error if a group reads a topic that does not belong to the demo.
func notRead(group string, read, ours []string) error {
	for _, topic := range read {
		if !slices.Contains(ours, topic) {
			return &cli.ForeignError{What: "the group " + group + " reads " + topic +
				", which is no topic of the demo", Remedy: "remove the group by hand; nothing is removed yet"}
		}
	}
	return nil
}

// notWritten returns the error for a topic with messages of another program. The argument object names the
// object to remove.
func notWritten(topic, object string) error {
	return &cli.ForeignError{What: "there are messages that the demo did not write in " + topic,
		Remedy: "remove " + object + " by hand; nothing is removed yet"}
}

// memory is the broker in this process. Its topics end with the process.
type memory struct{}

func (memory) there(context.Context, []string) (string, map[string]string, error) {
	return "mem:", nil, nil
}
func (memory) own(context.Context, *busRun, map[string]string) error     { return nil }
func (memory) remove(context.Context, []string, map[string]string) error { return nil }
