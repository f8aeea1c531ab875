package demo

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"

	"github.com/skald-go/skald/broker"
	"github.com/skald-go/skald/broker/kafkabroker"
	"github.com/skald-go/skald/broker/membroker"
	"github.com/skald-go/skald/broker/natsbroker"
	"github.com/skald-go/skald/broker/rabbitbroker"
	"github.com/skald-go/skald/cmd/skald/internal/connect"
	"github.com/skald-go/skald/cmd/skald/internal/exit"
	"github.com/skald-go/skald/examples/shop/event"
	"github.com/skald-go/skald/examples/shop/place"
)

const (
	// partitions is how many partitions each topic of a run gets.
	partitions = 4
	// connectTimeout is how long a server may take to answer.
	connectTimeout = 10 * time.Second
	// makeTimeout is how long it may take to make the topics of a run, and RabbitMQ's queues, some fifty.
	makeTimeout = time.Minute
	session     = 6 * time.Second
)

// A bus is the broker of a run. Each life of a service connects anew, as a process would.
type bus struct {
	connect func() (broker.Broker, error)
	url     string
	own     broker.Broker // for what the run itself asks
	kafka   string        // its seeds; "": it is no Kafka
	opts    *kafkabroker.Options
	nats    *natsbroker.Broker   // own, if it is a NATS
	rabbit  *rabbitbroker.Broker // own, if it is a RabbitMQ
}

func openBus(o *Options) (b *bus, err error) {
	url := o.Broker
	b = &bus{url: url}
	switch {
	case url == "mem:":
		cluster := membroker.New(nil)
		b.connect = func() (broker.Broker, error) { return cluster.Client(), nil }
	case strings.HasPrefix(url, "kafka:"):
		if b.kafka, b.opts, err = connect.Kafka(url); err != nil {
			return nil, err
		}
		b.opts.Session = session
		b.connect = func() (broker.Broker, error) { return kafkabroker.New(b.kafka, b.opts) }
	default:
		if b.connect, err = connect.Dial(url); err != nil {
			return nil, err
		}
	}
	if b.own, err = b.connect(); err != nil {
		return nil, fmt.Errorf("connect to broker: %w", err)
	}
	b.nats, _ = b.own.(*natsbroker.Broker)
	b.rabbit, _ = b.own.(*rabbitbroker.Broker)
	return b, nil
}

// forgetful: nothing of this broker outlives the process.
func (b *bus) forgetful() bool { return b.url == "mem:" }

// Close closes the run's own client.
func (b *bus) Close() error { return b.own.Close() }

// cluster names the broker, for ever; with what is there under the names of a run that is not begun yet:
// nothing, or it is not ours.
func (b *bus) cluster(ctx context.Context, prefix string) (string, error) {
	if b.forgetful() {
		return b.url, nil
	}
	cluster, ids, err := b.there(ctx, event.New(prefix).Topics())
	if err == nil && len(ids) > 0 {
		found := strings.Join(slices.Sorted(maps.Keys(ids)), ", ")
		err = &exit.ForeignError{What: "there are topics that this demo did not make: " + found,
			Remedy: "choose another --prefix, or remove them"}
	}
	return cluster, err
}

// topics makes the topics of a run, or finds those that it has made.
func (b *bus) topics(ctx context.Context, book *ledger, e *entry) error {
	names := event.New(e.prefix).Topics()
	cluster, ids, err := b.there(ctx, names)
	if err != nil {
		return err
	}
	if e.cluster != cluster || len(e.topics) > 0 && !maps.Equal(e.topics, ids) {
		return &exit.ForeignError{
			What:   "the topics at " + b.url + " are not those that this run has made",
			Remedy: "give the same --broker, or choose another --dir or --prefix, or remove what the run made",
		}
	}
	if len(e.topics) > 0 && !b.forgetful() {
		return nil
	}
	if err := b.make(ctx, e); err != nil {
		return err
	}
	if _, e.topics, err = b.there(ctx, names); err != nil {
		return err
	}
	return book.made(ctx, e)
}

func (b *bus) make(ctx context.Context, e *entry) error {
	ctx, cancel := context.WithTimeout(ctx, makeTimeout)
	defer cancel()
	events := event.New(e.prefix)
	events.Style = styleOf(e.style)
	if err := place.MakeTopics(ctx, b.own, events, partitions); err != nil {
		return fmt.Errorf("make topics: %w", err)
	}
	return nil
}

// there are the cluster's id and the ids of those of names that exist. The broker in this process has none of
// either that outlive it.
func (b *bus) there(ctx context.Context, names []string) (cluster string, ids map[string]string, err error) {
	if b.forgetful() {
		return b.url, nil, nil
	}
	ctx, cancel := context.WithTimeout(ctx, connectTimeout)
	defer cancel()
	if k, ok := b.own.(keeper); ok {
		return b.kept(ctx, k, names)
	}
	ids = map[string]string{}
	err = b.admin(ctx, func(ctx context.Context, adm *kadm.Client) error {
		found, err := adm.Metadata(ctx, names...)
		if err != nil {
			return fmt.Errorf("look up topics at %s: %w", b.url, err)
		}
		cluster = found.Cluster
		for _, t := range found.Topics {
			if t.Err == nil {
				ids[t.Topic] = t.ID.String()
			}
		}
		return nil
	})
	return cluster, ids, err
}

// A keeper is a broker that tells by itself which it is and which its topics are: NATS, RabbitMQ.
type keeper interface {
	broker.TopicMaker
	Incarnation(ctx context.Context) (string, error)
	Topics(ctx context.Context, names ...string) (broker.Topics, error)
	RemoveTopics(ctx context.Context, made map[string]string) error
}

// kept is there, at a keeper; its name is made with its first topics.
func (b *bus) kept(ctx context.Context, k keeper,
	names []string) (cluster string, ids map[string]string, err error) {
	if err := k.MakeTopics(ctx, partitions); err != nil {
		return "", nil, fmt.Errorf("look up topics at %s: %w", b.url, err)
	}
	if cluster, err = k.Incarnation(ctx); err != nil {
		return "", nil, fmt.Errorf("look up topics at %s: %w", b.url, err)
	}
	if ids, err = k.Topics(ctx, names...); err != nil {
		return "", nil, fmt.Errorf("look up topics at %s: %w", b.url, err)
	}
	return cluster, ids, nil
}

// remains says what the run leaves at the broker.
func (b *bus) remains(prefix string) string {
	if b.forgetful() {
		return ""
	}
	return fmt.Sprintf("\nThe topics are %s at %s; the groups are %s",
		strings.Join(event.New(prefix).Topics(), ", "), b.url, strings.Join(groups(prefix), ", "))
}
