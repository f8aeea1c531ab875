package natsbroker

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/skald-go/skald/broker"
	"github.com/skald-go/skald/broker/internal/cloudevents"
)

// wire is the connection, and what NATS has said on it.
type wire struct {
	nc     *nats.Conn
	js     jetstream.JetStream
	retain time.Duration
	shapes map[string]Shape
	codec  *cloudevents.Codec

	heard chan struct{} // has a value once NATS, or the lack of it, was heard of

	mu sync.Mutex
	no error // why there is no connection, or what this connection has no right to; nil: nothing is known
}

// hear is told why a connection was not made, or nil when one is.
func (w *wire) hear(err error) {
	w.mu.Lock()
	w.no = err
	w.mu.Unlock()
	select {
	case w.heard <- struct{}{}:
	default:
	}
}

func (w *wire) said() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.no
}

// orAway marks an error that says that NATS cannot be reached or is not ready yet. What NATS refuses for want
// of a right is none: waiting does not cure it.
func (w *wire) orAway(err error) error {
	var answered *jetstream.APIError
	switch {
	case err == nil, errors.Is(err, context.Canceled), errors.Is(err, broker.ErrAway),
		errors.Is(err, broker.ErrClosed):
		return err
	case errors.Is(err, nats.ErrConnectionClosed):
		return fmt.Errorf("%w: %w", broker.ErrClosed, err)
	case errors.As(err, &answered) && answered.Code < 500:
		return err
	}
	no := w.said()
	switch {
	case refused(err):
		return err
	case refused(no):
		return fmt.Errorf(
			"%w: check user, password or credentials, and the rights that docs/brokers.md lists: %w", no, err)
	case errors.Is(err, nats.ErrNoResponders):
		return fmt.Errorf("%w: JetStream does not answer there, or is not enabled: %w", broker.ErrAway, err)
	case no != nil:
		return fmt.Errorf("%w: %w: %w", broker.ErrAway, no, err)
	}
	return fmt.Errorf("%w: %w", broker.ErrAway, err)
}

// Capabilities of this driver, on streams that it has made; Shape tells of others'.
func Capabilities() broker.Capabilities {
	return broker.Capabilities{Partition: "a subject of a stream", Position: "the stream's sequence",
		Incarnation: "drawn with the bucket", LateGroup: "oldest message", Acks: "up to here",
		LargestKiB: 1024, Rewinds: true, Checks: true, Keeps: true, Owners: true}
}
