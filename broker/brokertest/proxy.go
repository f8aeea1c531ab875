package brokertest

import (
	"context"
	"errors"
	"io"
	"net"
	"sync"
	"testing"
	"time"
)

// Fault is the action of a Proxy on a connection.
type Fault int

const (
	// Cut closes the connection before the bytes are sent.
	Cut Fault = iota
	// CutAfter closes the connection after the bytes were sent. The server has received them, and its answer
	// is lost.
	CutAfter
	// HalfClose closes the direction from the client after the bytes. Answers still arrive.
	HalfClose
	// Delay delays the bytes and all later bytes by 300 ms.
	Delay
)

const delay = 300 * time.Millisecond

// Proxy forwards bytes between a client and its servers. It causes one fault at a given step, which is the
// n-th send of the client. Clients with a configurable dialer use Dial; others use Listen.
type Proxy struct {
	mu    sync.Mutex
	step  int // the number of sends until the fault; 0 if no fault is planned
	fault Fault
	sends int
	fired bool
}

// Arm plans a fault for a later send. step is the number of the send from now on, from 1.
func (p *Proxy) Arm(step int, fault Fault) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.step, p.fault, p.sends, p.fired = step, fault, 0, false
}

// Sends returns the number of sends since Arm, and whether the fault has occurred.
func (p *Proxy) Sends() (n int, fired bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.sends, p.fired
}

// Dial connects to address through the proxy.
func (p *Proxy) Dial(ctx context.Context, network, address string) (net.Conn, error) {
	c, err := new(net.Dialer).DialContext(ctx, network, address)
	if err != nil {
		return nil, err
	}
	return &proxied{Conn: c, p: p}, nil
}

// Listen returns an address from which the proxy forwards to target, until the test ends.
func (p *Proxy) Listen(t testing.TB, target string) (address string) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	wg.Go(func() {
		for {
			from, err := l.Accept()
			if err != nil {
				return
			}
			wg.Go(func() { p.carry(ctx, from, target) })
		}
	})
	t.Cleanup(func() { cancel(); l.Close(); wg.Wait() })
	return l.Addr().String()
}

func (p *Proxy) carry(ctx context.Context, from net.Conn, target string) {
	defer from.Close()
	to, err := p.Dial(ctx, "tcp", target)
	if err != nil {
		return
	}
	defer to.Close()
	defer context.AfterFunc(ctx, func() { from.Close(); to.Close() })()
	answered := make(chan struct{})
	go func() {
		defer close(answered)
		_, _ = io.Copy(from, to)
		from.Close()
	}()
	_, _ = io.Copy(to, from)
	to.Close()
	<-answered
}

// nextFault counts a send. It returns the fault of this send, if there is one.
func (p *Proxy) nextFault() (fault Fault, meets bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.sends++
	if p.step == 0 || p.sends != p.step {
		return 0, false
	}
	p.step, p.fired = 0, true
	return p.fault, true
}

var errCut = errors.New("cut by the proxy")

type proxied struct {
	net.Conn
	p *Proxy
}

func (c *proxied) Write(b []byte) (int, error) {
	fault, meets := c.p.nextFault()
	switch {
	case meets && fault == Cut:
		c.Conn.Close()
		return 0, errCut
	case meets && fault == Delay:
		<-time.After(delay)
	}
	n, err := c.Conn.Write(b)
	switch {
	case meets && fault == CutAfter:
		c.Conn.Close()
	case meets && fault == HalfClose:
		if tcp, ok := c.Conn.(*net.TCPConn); ok {
			_ = tcp.CloseWrite()
		}
	}
	return n, err
}
