// This file is the connections of a client of Kafka: a gate that keeps it from writing while a round is
// buffered, and why Kafka cannot be reached.

package kafkabroker

import (
	"context"
	"net"
	"sync"

	"github.com/twmb/franz-go/pkg/kgo"
)

// A gate keeps a client from writing while a round is buffered. Manual flushing alone does not: the loop of
// franz-go that sent the last round may still be on its way out when the next is begun, and takes what it
// finds, the first part of a round. If that part fails before the rest is buffered, the rest goes out. What
// was serialised before the gate was shut may pass at any time, as it has nothing of the round.
type gate struct{ sync.RWMutex }

type dialer = func(ctx context.Context, network, host string) (net.Conn, error)

// Through are options of a client whose connections, made as cl makes its own, go through g.
func (g *gate) Through(cl *kgo.Client) []kgo.Opt {
	dial := cl.OptValue(kgo.Dialer).(dialer) // with its TLS, which franz-go does not take beside a Dialer
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

// Write waits while the gate is shut, which is never for long: to buffer a round waits for nobody.
func (c *gated) Write(b []byte) (int, error) {
	c.gate.RLock()
	//lint:ignore SA2001 only to have waited
	c.gate.RUnlock()
	return c.Conn.Write(b)
}
