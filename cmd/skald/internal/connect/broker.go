// Package connect opens the servers that a URL names: brokers and PostgreSQL. Secrets come from files or the
// environment.
package connect

import (
	"os"
	"strings"
	"time"

	"github.com/skald-go/skald/broker"
	"github.com/skald-go/skald/broker/kafkabroker"
	"github.com/skald-go/skald/broker/natsbroker"
	"github.com/skald-go/skald/broker/rabbitbroker"
	"github.com/skald-go/skald/cmd/skald/internal/cli"
)

// BrokerPatience limits the wait for an answer of a broker.
const BrokerPatience = 10 * time.Second

// Dial returns a function that creates clients of the server at url: kafka://host:port[,host:port],
// nats://… or amqp://…. Dial opens no connection. A wrong URL is a *cli.UsageError.
func Dial(url string) (connect func() (broker.Broker, error), err error) {
	switch {
	case strings.HasPrefix(url, "kafka:"):
		seeds, opts, err := Kafka(url)
		return func() (broker.Broker, error) { return kafkabroker.New(seeds, opts) }, err
	case strings.HasPrefix(url, "nats:"):
		servers, opts, err := natsbroker.ParseURL(url, os.Getenv)
		return func() (broker.Broker, error) { return natsbroker.New(servers, opts) }, usage(err)
	case strings.HasPrefix(url, "amqp:"), strings.HasPrefix(url, "amqps:"):
		servers, opts, err := rabbitbroker.ParseURL(url, os.Getenv)
		return func() (broker.Broker, error) { return rabbitbroker.New(servers, opts) }, usage(err)
	}
	return nil,
		&cli.UsageError{
			What: "the broker is mem:, kafka://, nats:// or amqp://host:port[,host:port][?option=value]"}
}

// Kafka returns the arguments of kafkabroker.New for the cluster at url. A wrong URL is a *cli.UsageError.
func Kafka(url string) (seeds string, opts *kafkabroker.Options, err error) {
	seeds, opts, err = kafkabroker.ParseURL(url, os.Getenv)
	return seeds, opts, usage(err)
}

func usage(err error) error {
	if err == nil {
		return nil
	}
	return &cli.UsageError{What: err.Error()}
}
