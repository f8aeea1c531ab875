package killtest

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/skald-go/skald/broker"
	"github.com/skald-go/skald/broker/kafkabroker"
	"github.com/skald-go/skald/broker/natsbroker"
	"github.com/skald-go/skald/broker/rabbitbroker"
)

// connect opens the broker at nats://…, at amqp://…, or Kafka at host:port.
func connect(at string) (broker.Broker, error) {
	switch scheme, rest, _ := strings.Cut(at, "://"); scheme {
	case "nats":
		return natsbroker.New(rest, nil)
	case "amqp":
		return rabbitbroker.New(rest, nil)
	}
	return kafkabroker.New(at, nil)
}

// remove deletes the topic and the group of that name.
func remove(ctx context.Context, bus broker.Broker, at, name string) error {
	ctx, stop := context.WithTimeout(ctx, time.Minute)
	defer stop()
	switch b := bus.(type) {
	case *natsbroker.Broker:
		made, err := b.Topics(ctx, name)
		return errors.Join(err, b.RemoveGroup(ctx, name), b.RemoveTopics(ctx, made))
	case *rabbitbroker.Broker:
		made, err := b.Topics(ctx, name)
		return errors.Join(err, b.RemoveGroup(ctx, name, name), b.RemoveTopics(ctx, made))
	}
	client, err := kgo.NewClient(kgo.SeedBrokers(at))
	if err != nil {
		return err
	}
	defer client.Close()
	adm := kadm.NewClient(client)
	_, gone := adm.DeleteTopics(ctx, name)
	_, forgotten := adm.DeleteGroups(ctx, name)
	return errors.Join(gone, forgotten)
}
