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

// Fault is what a Proxy does to a connection.
type Fault int

const (
	// Cut ends the connection before the bytes go on.
	Cut Fault = iota
	// CutAfter ends it behind them: the server has what the client sent, and its answer is lost.
	CutAfter
	// HalfClose ends one way behind them: no more is sent, while answers still come.
	HalfClose
	// Delay lets them, and all behind them, wait for a while.
	Delay
)

// delay is how long Delay lets bytes wait.
const delay = 300 * time.Millisecond

// Proxy stands between a client and its servers, and harms one of its connections once, at a step that it
// is told: the n-th time that the client sends something. Clients that can be given a dialer take Dial; for
// others it listens.
type Proxy struct {
	mu    sync.Mutex
	step  int // sends to go until the fault; 0: there is none to come
	fault Fault
	sends int
	fired bool
}

// Arm lets the step-th send from now on, counted from 1, meet a fault.
func (p *Proxy) Arm(step int, fault Fault) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.step, p.fault, p.sends, p.fired = step, fault, 0, false
}

// Sends is how often clients have sent something since Arm; fired, whether the fault has happened.
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

// Listen is the address of a way through the proxy to the server at target, until the test ends.
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

// next is the fault that this send meets, if it meets one.
func (p *Proxy) next() (fault Fault, meets bool) {
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
	fault, meets := c.p.next()
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
