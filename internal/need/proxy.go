package need

import (
	"io"
	"net"
	"sync"
	"testing"
	"time"
)

// A Way is what a Proxy does with what clients and the server send.
type Way int

const (
	Pass    Way = iota // carries it
	Swallow            // reads it and carries nothing, in either direction; connections stay open
	Refuse             // ends every connection at once
	Garble             // answers each new connection with bytes of another protocol, and ends it
)

// A Proxy stands between clients and a server, and can harm all connections at once. Safe for concurrent use.
type Proxy struct {
	l net.Listener

	mu     sync.Mutex
	way    Way
	target string
	open   map[*proxied]bool
}

// A proxied is one connection through a Proxy.
type proxied struct {
	from, to net.Conn
	dead     bool // carries nothing anymore, whatever the way
}

// NewProxy returns a proxy to the server at target, host:port, until the test ends.
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

// Addr is where clients connect to, host:port.
func (p *Proxy) Addr() string { return p.l.Addr().String() }

// Set changes the way of all connections, those that are open and new ones.
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

// Deaden makes the connections that are open now carry nothing anymore, and leaves them open. New ones work.
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

// Lead has new connections lead to another server.
func (p *Proxy) Lead(target string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.target = target
}

// Open is how many connections clients have open through the proxy.
func (p *Proxy) Open() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.open)
}

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
		_, _ = io.Copy(io.Discard, from) // so that the answer arrives before the end
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

// half is one direction of a connection.
type half struct {
	p  *Proxy
	c  *proxied
	to net.Conn
}

func (h *half) Write(b []byte) (int, error) {
	h.p.mu.Lock()
	if h.p.way == Swallow {
		h.c.dead = true // a stream with a hole carries nothing sensible
	}
	dead := h.c.dead
	h.p.mu.Unlock()
	if dead {
		return len(b), nil
	}
	return h.to.Write(b)
}
