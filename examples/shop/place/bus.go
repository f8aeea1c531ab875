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

// usual is the default number of partitions of a topic.
const usual = 8

// Bus is the broker at a URL.
type Bus struct {
	// InProcess is true if the broker exists only in this process.
	InProcess bool

	connect func() (broker.Broker, error)
	mu      sync.Mutex
	clients map[string]broker.Broker
}

// OpenBus returns the broker at url: mem: for one in this process, or a server:
// kafka://host:port[,host:port], nats://… or amqp://…. It does not connect yet.
func OpenBus(url string) (b *Bus, err error) {
	b = &Bus{clients: map[string]broker.Broker{}}
	if url == "mem:" {
		cluster := membroker.New(nil)
		b.InProcess, b.connect = true, func() (broker.Broker, error) { return cluster.Client(), nil }
		return b, nil
	}
	if b.connect, err = dial(url); err != nil {
		return nil, &UsageError{What: err.Error()}
	}
	return b, nil
}

// dial returns a function that creates clients of the server at url. Passwords come from files or the
// environment.
func dial(url string) (connect func() (broker.Broker, error), err error) {
	switch kind, _, _ := strings.Cut(url, ":"); kind {
	case "kafka":
		seeds, opts, err := kafkabroker.ParseURL(url, os.Getenv)
		return func() (broker.Broker, error) { return kafkabroker.New(seeds, opts) }, err
	case "nats":
		servers, opts, err := natsbroker.ParseURL(url, os.Getenv)
		return func() (broker.Broker, error) { return natsbroker.New(servers, opts) }, err
	case "amqp", "amqps":
		servers, opts, err := rabbitbroker.ParseURL(url, os.Getenv)
		return func() (broker.Broker, error) { return rabbitbroker.New(servers, opts) }, err
	}
	return nil,
		errors.New("the broker is mem:, kafka://, nats:// or amqp://host:port[,host:port][?option=value]")
}

// Connect returns the client of a service, and creates it on the first call.
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

// MakeTopics creates missing topics of the shop, with that many partitions; 0 means the default.
func MakeTopics(ctx context.Context, b broker.Broker, events *event.Events, partitions int) error {
	if partitions == 0 {
		partitions = usual
	}
	if err := b.MakeTopics(ctx, partitions, events.Topics()...); err != nil {
		return err
	}
	return begin(ctx, b, events)
}

// begin creates the services' groups at brokers that cannot rewind (RabbitMQ), so that they miss no
// message.
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
