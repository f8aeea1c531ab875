// This file has the connections of a client: a gate that stops writes while a round is buffered, and the
// last connection error.

package kafkabroker

import (
	"context"
	"net"
	"sync"

	"github.com/twmb/franz-go/pkg/kgo"
)

// gate stops the writes of a client while a round is buffered. Manual flushing alone does not: franz-go's
// loop of the last round may still be running when the next round begins, and may send its first part. If
// that part fails before the rest is buffered, the rest would be sent. Bytes that were serialised before
// the gate was closed may pass, because they are not of the new round.
type gate struct{ sync.RWMutex }

type dialer = func(ctx context.Context, network, host string) (net.Conn, error)

// Through returns options for connections through g, dialled as cl dials.
func (g *gate) Through(cl *kgo.Client) []kgo.Opt {
	dial := cl.OptValue(kgo.Dialer).(dialer) // includes its TLS, which franz-go refuses next to a Dialer
	return []kgo.Opt{kgo.DialTLSConfig(nil),
		kgo.Dialer(func(ctx context.Context, network, host string) (net.Conn, error) {
			c, err := dial(ctx, network, host)
			if err != nil {
				return nil, err
			}
			return &gated{c, g}, nil
		})}
}

type gated struct {
	net.Conn
	gate *gate
}

// Write waits while the gate is closed, which is short, because buffering never blocks.
func (c *gated) Write(b []byte) (int, error) {
	c.gate.RLock()
	//lint:ignore SA2001 the lock is only for waiting
	c.gate.RUnlock()
	return c.Conn.Write(b)
}
