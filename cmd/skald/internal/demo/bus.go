package demo

import (
	"context"
	"fmt"

	"github.com/skald-go/skald/broker"
	"github.com/skald-go/skald/broker/membroker"
	"github.com/skald-go/skald/examples/shop/event"
	"github.com/skald-go/skald/examples/shop/place"
)

// lanes is how many lanes each topic of a run gets.
const lanes = 4

// A bus is the broker of a run. Each life of a service connects anew, as a process would.
type bus struct {
	connect func() (broker.Broker, error)
	url     string
	own     broker.Broker // for what the run itself asks
	server  bool          // it is a server, which keeps what the run makes
}

func openBus(url string) (*bus, error) {
	if url != "mem:" {
		return nil, &place.UsageError{What: "the broker is mem: or kafka://host:port[,host:port]"}
	}
	own := membroker.New(nil)
	return &bus{url: url, own: own, connect: func() (broker.Broker, error) { return own.Client(), nil }}, nil
}

// Close closes the run's own client.
func (b *bus) Close() error { return b.own.Close() }

// topics makes the topics, or finds those that e has made.
func (b *bus) topics(ctx context.Context, book *ledger, e *entry) error {
	names := event.New(e.prefix).Topics()
	maker, ok := b.own.(broker.TopicMaker)
	if !ok {
		return fmt.Errorf("make topics: %T cannot", b.own)
	}
	if err := maker.MakeTopics(ctx, lanes, names...); err != nil {
		return fmt.Errorf("make topics: %w", err)
	}
	return nil
}
