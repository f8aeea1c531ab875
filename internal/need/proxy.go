package need

import (
	"io"
	"net"
	"sync"
	"testing"
	"time"
)

// Way is the behaviour of a Proxy.
type Way int

// Ways of a Proxy.
const (
	Pass    Way = iota // forwards all bytes
	Swallow            // discards all bytes in both directions; connections stay open
	Refuse             // closes every connection
	Garble             // answers each new connection with bytes of another protocol, and closes it
)

// Proxy forwards between clients and a server, and can disturb all connections together. It is safe for
// concurrent use.
type Proxy struct {
	l net.Listener

	mu     sync.Mutex
	way    Way
	target string
	open   map[*proxied]bool
}

// proxied is one connection through a Proxy.
type proxied struct {
	from, to net.Conn
	dead     bool // the connection discards all bytes, whatever the Way is
}

// NewProxy returns a proxy to the server at target, host:port. The end of the test stops it.
func NewProxy(t testing.TB, target string) *Proxy {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p := &Proxy{l: l, target: target, open: map[*proxied]bool{}}
	var all sync.WaitGroup
	all.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			all.Go(func() { p.carry(c) })
		}
	})
	t.Cleanup(func() {
		_ = l.Close()
		p.Set(Refuse)
		all.Wait()
	})
	return p
}

// Addr returns the address for clients, host:port.
func (p *Proxy) Addr() string { return p.l.Addr().String() }

// Set changes the behaviour for all open and new connections.
func (p *Proxy) Set(w Way) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.way = w
	if w != Refuse && w != Garble {
		return
	}
	for c := range p.open {
		_, _ = c.from.Close(), c.to.Close()
	}
}

// Deaden makes all open connections discard all bytes. New connections work. It returns the number of
// connections that it changed.
func (p *Proxy) Deaden() (n int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for c := range p.open {
		if !c.dead {
			n++
		}
		c.dead = true
	}
	return n
}

// Lead changes the server for new connections.
func (p *Proxy) Lead(target string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.target = target
}

// Open returns the number of open connections.
func (p *Proxy) Open() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.open)
}

// carry forwards one connection until its end.
func (p *Proxy) carry(from net.Conn) {
	defer func() { _ = from.Close() }()
	p.mu.Lock()
	way, target := p.way, p.target
	p.mu.Unlock()
	switch way {
	case Refuse:
		return
	case Garble:
		_, _ = io.WriteString(from, "HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n")
		_ = from.SetReadDeadline(time.Now().Add(100 * time.Millisecond))
		_, _ = io.Copy(io.Discard, from) // closing with unread bytes could destroy the answer
		return
	}
	to, err := net.Dial("tcp", target)
	if err != nil {
		return
	}
	defer func() { _ = to.Close() }()
	c := &proxied{from: from, to: to}
	p.mu.Lock()
	if p.open[c] = true; p.way == Refuse || p.way == Garble {
		_, _ = from.Close(), to.Close()
	}
	p.mu.Unlock()
	defer func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		delete(p.open, c)
	}()
	answered := make(chan struct{})
	go func() {
		defer close(answered)
		_, _ = io.Copy(&half{p, c, from}, to)
		_ = from.Close()
	}()
	_, _ = io.Copy(&half{p, c, to}, from)
	_ = to.Close()
	<-answered
}

// half is one direction of a connection. Its Write forwards or discards bytes.
type half struct {
	p  *Proxy
	c  *proxied
	to net.Conn
}

func (h *half) Write(b []byte) (int, error) {
	h.p.mu.Lock()
	if h.p.way == Swallow {
		h.c.dead = true // also after the next Set, because a stream with a gap is useless
	}
	dead := h.c.dead
	h.p.mu.Unlock()
	if dead {
		return len(b), nil
	}
	return h.to.Write(b)
}
