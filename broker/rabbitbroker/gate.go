package rabbitbroker

import (
	"net"
	"sync"
	"time"
)

// gate limits how far a connection reads ahead of the goroutines that take deliveries. Without a limit the
// client would buffer everything that it reads.
type gate struct {
	mu    sync.Mutex
	ahead int // bytes that were read and not taken, estimated
	moved chan struct{}
}

const (
	readAhead = 8 << 20 // bytes
	envelope  = 512     // bytes of a delivery without its payload, at most
	// idle is the wait after which wait resets ahead to 0. The estimate is too high, because the connection
	// also reads frames that are not deliveries.
	idle = 50 * time.Millisecond
)

func newGate() *gate { return &gate{moved: make(chan struct{}, 1)} }

// take records that a goroutine has taken a delivery of that size.
func (g *gate) take(bytes int) {
	g.mu.Lock()
	g.ahead = max(0, g.ahead-bytes-bytes>>10-envelope)
	g.mu.Unlock()
	select {
	case g.moved <- struct{}{}:
	default:
	}
}

// wait blocks while the connection is too far ahead.
func (g *gate) wait() {
	for g.full() {
		select {
		case <-g.moved:
		case <-time.After(idle):
			g.mu.Lock()
			g.ahead = 0
			g.mu.Unlock()
		}
	}
}

func (g *gate) full() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.ahead > readAhead
}

// gated is a connection that reads through a gate.
type gated struct {
	net.Conn
	*gate
}

// Read waits for the gate, and then reads.
func (c gated) Read(p []byte) (n int, err error) {
	c.wait()
	n, err = c.Conn.Read(p)
	c.mu.Lock()
	c.ahead += n
	c.mu.Unlock()
	return n, err
}
