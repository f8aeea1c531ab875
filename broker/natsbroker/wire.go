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

// wire is the connection to NATS, with its last error.
type wire struct {
	nc     *nats.Conn
	js     jetstream.JetStream
	retain time.Duration
	shapes map[string]Shape
	codec  *cloudevents.Codec

	heard chan struct{} // signals the result of a connection attempt

	mu sync.Mutex
	no error // the reason why there is no connection, or the missing right; nil if unknown
}

// noteConnect records the result of an attempt to connect, or a missing right.
func (w *wire) noteConnect(err error) {
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

// orUnavailable wraps err in broker.ErrUnavailable if NATS is unreachable or not ready. It returns other
// errors unchanged, such as a missing right, because a retry does not cure them.
func (w *wire) orUnavailable(err error) error {
	var answered *jetstream.APIError
	switch {
	case err == nil, errors.Is(err, context.Canceled), errors.Is(err, broker.ErrUnavailable),
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
		return fmt.Errorf("%w: JetStream does not answer there, or is not enabled: %w", broker.ErrUnavailable,
			err)
	case no != nil:
		return fmt.Errorf("%w: %w: %w", broker.ErrUnavailable, no, err)
	}
	return fmt.Errorf("%w: %w", broker.ErrUnavailable, err)
}

// Capabilities returns the capabilities of this driver for topics of MakeTopics. Shape describes the
// differences for existing streams.
func Capabilities() broker.Capabilities {
	return broker.Capabilities{Partition: "a subject of a stream", Position: "the stream's sequence",
		Incarnation: "drawn with the bucket", LateGroup: "oldest message", Acks: "all up to it",
		LargestKiB: 1024, Rewinds: true, Checks: true, Keeps: true, Owners: true}
}
