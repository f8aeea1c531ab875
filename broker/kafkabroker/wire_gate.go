// This file stops a client from sending a part of a round before the whole round is buffered.

package kafkabroker

import (
	"context"
	"net"
	"sync"

	"github.com/twmb/franz-go/pkg/kgo"
)

// gate blocks the connections of a client while a round is buffered. Manual flushing alone does not suffice.
// When a new round begins, franz-go's loop of the last round may still be running, and may send the first
// part of the new round. If that part fails before the rest is buffered, franz-go would send the rest. The
// gate does not stop bytes that were serialized before it closed, because they belong to the last round.
type gate struct{ sync.RWMutex }

type dialer = func(ctx context.Context, network, host string) (net.Conn, error)

// Through returns options for a client with connections through g. The connections use the dialer and the TLS
// of cl.
func (g *gate) Through(cl *kgo.Client) []kgo.Opt {
	// This dialer includes TLS. franz-go accepts only one of DialTLSConfig and Dialer.
	dial := cl.OptValue(kgo.Dialer).(dialer)
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

// Write waits while the gate is closed. The wait is short, because buffering never blocks.
func (c *gated) Write(b []byte) (int, error) {
	c.gate.RLock()
	//lint:ignore SA2001 the lock is only for waiting
	c.gate.RUnlock()
	return c.Conn.Write(b)
}
