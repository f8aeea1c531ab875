package place

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"

	"github.com/skald-go/skald/broker"
	"github.com/skald-go/skald/broker/kafkabroker"
	"github.com/skald-go/skald/broker/membroker"
	"github.com/skald-go/skald/broker/natsbroker"
	"github.com/skald-go/skald/broker/rabbitbroker"
	"github.com/skald-go/skald/examples/shop/event"
)

// usual is how many lanes a topic of the shop gets.
const usual = 8

// A Bus is the broker that a URL names.
type Bus struct {
	// InProcess tells that the broker ends with this process: no other one can reach it.
	InProcess bool

	connect func() (broker.Broker, error)
	mu      sync.Mutex
	clients map[string]broker.Broker
}

// OpenBus names the broker at url: mem: for one in this process, or a server as Dial has it. It touches nothing yet.
func OpenBus(url string) (b *Bus, err error) {
	b = &Bus{clients: map[string]broker.Broker{}}
	if url == "mem:" {
		cluster := membroker.New(nil)
		b.InProcess, b.connect = true, func() (broker.Broker, error) { return cluster.Client(), nil }
		return b, nil
	}
	if b.connect, err = Dial(url); err != nil {
		return nil, err
	}
	return b, nil
}

// Dial is what makes clients of the server at url: kafka://host:port[,host:port], nats://… or amqp://….
func Dial(url string) (connect func() (broker.Broker, error), err error) {
	switch {
	case strings.HasPrefix(url, "kafka:"):
		seeds, opts, err := Kafka(url)
		return func() (broker.Broker, error) { return kafkabroker.New(seeds, opts) }, err
	case strings.HasPrefix(url, "nats:"):
		servers, opts, err := NATS(url)
		return func() (broker.Broker, error) { return natsbroker.New(servers, opts) }, err
	case strings.HasPrefix(url, "amqp:"), strings.HasPrefix(url, "amqps:"):
		servers, opts, err := RabbitMQ(url)
		return func() (broker.Broker, error) { return rabbitbroker.New(servers, opts) }, err
	}
	return nil, &UsageError{What: "the broker is mem:, kafka://, nats:// or amqp://host:port[,host:port][?option=value]"}
}

// NATS is what natsbroker.New needs for the servers at url; secrets come from files or the environment.
func NATS(url string) (servers string, opts *natsbroker.Options, err error) {
	if servers, opts, err = natsbroker.ParseURL(url, os.Getenv); err != nil {
		return "", nil, &UsageError{What: err.Error()}
	}
	return servers, opts, nil
}

// RabbitMQ is what rabbitbroker.New needs for the servers at url; secrets come from files or the environment.
func RabbitMQ(url string) (servers string, opts *rabbitbroker.Options, err error) {
	if servers, opts, err = rabbitbroker.ParseURL(url, os.Getenv); err != nil {
		return "", nil, &UsageError{What: err.Error()}
	}
	return servers, opts, nil
}

// Kafka is what kafkabroker.New needs for the cluster at url; secrets come from files or the environment.
func Kafka(url string) (seeds string, opts *kafkabroker.Options, err error) {
	if seeds, opts, err = kafkabroker.ParseURL(url, os.Getenv); err != nil {
		return "", nil, &UsageError{What: err.Error()}
	}
	return seeds, opts, nil
}

// Connect is the client of a service. It is made once.
func (b *Bus) Connect(service string) (broker.Broker, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if c := b.clients[service]; c != nil {
		return c, nil
	}
	c, err := b.connect()
	if err != nil {
		return nil, fmt.Errorf("connect %s to the broker: %w", service, err)
	}
	b.clients[service] = c
	return c, nil
}

// Close closes every client.
func (b *Bus) Close() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	var errs []error
	for service, c := range b.clients {
		errs = append(errs, c.Close())
		delete(b.clients, service)
	}
	return errors.Join(errs...)
}

// MakeTopics makes those of the shop's topics that do not exist, with lanes; 0: as many as are usual.
func MakeTopics(ctx context.Context, b broker.Broker, events *event.Events, lanes int) error {
	if lanes == 0 {
		lanes = usual
	}
	maker, ok := b.(broker.TopicMaker)
	if !ok {
		return fmt.Errorf("make topics %s: this broker cannot", strings.Join(events.Topics(), ", "))
	}
	if err := maker.MakeTopics(ctx, lanes, events.Topics()...); err != nil {
		return err
	}
	return begin(ctx, b, events)
}

// begin lets the services' groups begin now, where that is not the beginning of a topic anyhow: RabbitMQ cannot rewind.
func begin(ctx context.Context, b broker.Broker, events *event.Events) error {
	d, ok := b.(interface {
		Declare(ctx context.Context, g broker.Group) error
	})
	if !ok {
		return nil
	}
	for service, topics := range events.Listens() {
		if err := d.Declare(ctx, broker.Group{Name: events.Group(service), Topics: topics}); err != nil {
			return fmt.Errorf("declare the group of %s: %w", service, err)
		}
	}
	return nil
}
