package rabbitbroker

import (
	"net"
	"sync"
	"time"
)

// gate stops a connection from reading far ahead of the goroutines that take deliveries, because the client
// queues everything that it reads, without a limit.
type gate struct {
	mu    sync.Mutex
	ahead int // approximate number of bytes that were read and not taken
	moved chan struct{}
}

const (
	readAhead = 8 << 20 // bytes
	envelope  = 512     // bytes of a delivery without its payload; a high estimate is harmless
	// idle is how long the client's queue may be empty before ahead is reset, because other frames were
	// read.
	idle = 50 * time.Millisecond
)

func newGate() *gate { return &gate{moved: make(chan struct{}, 1)} }

// take records that a delivery of so many bytes has left the client's queue.
func (g *gate) take(bytes int) {
	g.mu.Lock()
	g.ahead = max(0, g.ahead-bytes-bytes>>10-envelope)
	g.mu.Unlock()
	select {
	case g.moved <- struct{}{}:
	default:
	}
}

// wait returns when there is room.
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

// gated is a connection with a gate.
type gated struct {
	net.Conn
	*gate
}

// Read reads when the gate has room.
func (c gated) Read(p []byte) (n int, err error) {
	c.wait()
	n, err = c.Conn.Read(p)
	c.mu.Lock()
	c.ahead += n
	c.mu.Unlock()
	return n, err
}
