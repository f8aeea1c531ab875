package rabbitbroker

import (
	"net"
	"sync"
	"time"
)

// gate keeps a connection from reading far ahead of the goroutines that take deliveries: the client queues
// all that it has read, without a bound.
type gate struct {
	mu    sync.Mutex
	ahead int // bytes that were read and not taken, roughly
	moved chan struct{}
}

const (
	readAhead = 8 << 20 // bytes
	envelope  = 512     // bytes of a delivery next to its payload; too many do no harm
	// idle is how long nothing is taken if the client's queue is empty. Then other frames were read.
	idle = 50 * time.Millisecond
)

func newGate() *gate { return &gate{moved: make(chan struct{}, 1)} }

// take notes that a delivery of so many bytes has left the client's queue.
func (g *gate) take(bytes int) {
	g.mu.Lock()
	g.ahead = max(0, g.ahead-bytes-bytes>>10-envelope)
	g.mu.Unlock()
	select {
	case g.moved <- struct{}{}:
	default:
	}
}

// wait returns once there is room.
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

// gated is a connection behind a gate.
type gated struct {
	net.Conn
	*gate
}

// Read reads once the gate has room.
func (c gated) Read(p []byte) (n int, err error) {
	c.wait()
	n, err = c.Conn.Read(p)
	c.mu.Lock()
	c.ahead += n
	c.mu.Unlock()
	return n, err
}
