package pgbed

import (
	"errors"
	"net"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgproto3"
)

// IdleProxy forwards connections to a PostgreSQL server. It finds statements after which a paused client
// could hold its transaction forever. To find these, it reads idle_in_transaction_session_timeout of the
// session after each answer within a transaction.
type IdleProxy struct {
	Listener net.Listener // clients connect to its address
	to       string       // address of the server

	mu        sync.Mutex
	asked     int      // number of reads since the last Unbounded
	unbounded []string // statements after which the timeout was 0
}

// NewIdleProxy returns a proxy to the server at url. It listens until t ends. The server must accept the
// clients without a password.
func NewIdleProxy(t testing.TB, url string) *IdleProxy {
	t.Helper()
	config, err := pgx.ParseConfig(url)
	if err != nil {
		t.Fatal(err)
	}
	p := &IdleProxy{to: net.JoinHostPort(config.Host, strconv.Itoa(int(config.Port)))}
	if p.Listener, err = net.Listen("tcp", "127.0.0.1:0"); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = p.Listener.Close() })
	go p.serve()
	return p
}

// Unbounded returns the statements after which a transaction could be idle forever. The result asked is the
// number of times that the proxy read the timeout. Both results count from the last call.
func (p *IdleProxy) Unbounded() (statements []string, asked int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	statements, asked = p.unbounded, p.asked
	p.unbounded, p.asked = nil, 0
	return statements, asked
}

func (p *IdleProxy) serve() {
	for {
		client, err := p.Listener.Accept()
		if err != nil {
			return
		}
		server, err := net.Dial("tcp", p.to)
		if err != nil {
			_ = client.Close()
			continue
		}
		s := &idleSession{p: p, client: pgproto3.NewBackend(client, client),
			server: pgproto3.NewFrontend(server, server), texts: map[string]string{}}
		go func() {
			defer server.Close()
			_ = s.forward()
		}()
		go func() {
			defer client.Close()
			_ = s.toClient()
		}()
	}
}

// idleSession is one connection through an IdleProxy.
type idleSession struct {
	p      *IdleProxy
	client *pgproto3.Backend
	server *pgproto3.Frontend

	mu    sync.Mutex        // locked while the proxy sends to the server; guards the fields below
	waits int               // number of answers that the client waits for
	sent  []string          // statements since the client last waited for no answer
	texts map[string]string // texts of prepared statements, by name
}

// forward sends the client's messages to the server.
func (s *idleSession) forward() error {
	start, err := s.client.ReceiveStartupMessage()
	for err == nil {
		s.mu.Lock()
		s.note(start)
		s.server.Send(start)
		err = s.server.Flush()
		s.mu.Unlock()
		if err == nil {
			start, err = s.client.Receive()
		}
	}
	return err
}

// note records a message of the client: the number of answers to expect, and the text of a statement.
func (s *idleSession) note(m pgproto3.FrontendMessage) {
	switch m := m.(type) {
	case *pgproto3.Query:
		s.sent = append(s.sent, m.String)
		s.waits++
	case *pgproto3.Parse:
		s.texts[m.Name] = m.Query
		s.sent = append(s.sent, "prepare: "+m.Query)
	case *pgproto3.Bind:
		s.sent = append(s.sent, s.texts[m.PreparedStatement])
	case *pgproto3.Sync:
		s.waits++
	}
}

// toClient sends the server's messages to the client.
func (s *idleSession) toClient() error {
	for {
		m, err := s.server.Receive()
		if err != nil {
			return err
		}
		if ready, ok := m.(*pgproto3.ReadyForQuery); ok {
			if err := s.ready(ready.TxStatus); err != nil {
				return err
			}
			m = &pgproto3.ReadyForQuery{TxStatus: ready.TxStatus}
		}
		s.client.Send(m)
		if err := s.client.Flush(); err != nil {
			return err
		}
	}
}

// ready handles ReadyForQuery. It reads the timeout if the client has all its answers and a transaction is
// open.
func (s *idleSession) ready(status byte) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.waits = max(s.waits-1, 0) // max, because the first ReadyForQuery follows the startup message
	if s.waits > 0 {
		return nil
	}
	after := strings.Join(s.sent, "; ")
	s.sent = nil
	if status != 'T' {
		return nil
	}
	bound, err := s.bound()
	if err != nil {
		return err
	}
	s.p.mu.Lock()
	defer s.p.mu.Unlock()
	if s.p.asked++; bound == "0" {
		s.p.unbounded = append(s.p.unbounded, after)
	}
	return nil
}

// bound reads the timeout of the session. It uses SHOW, because SHOW takes no snapshot.
func (s *idleSession) bound() (bound string, err error) {
	s.server.Send(&pgproto3.Query{String: "SHOW idle_in_transaction_session_timeout"})
	if err := s.server.Flush(); err != nil {
		return "", err
	}
	for {
		m, err := s.server.Receive()
		if err != nil {
			return "", err
		}
		switch m := m.(type) {
		case *pgproto3.DataRow:
			bound = string(m.Values[0])
		case *pgproto3.ErrorResponse:
			return "", errors.New(m.Message)
		case *pgproto3.ReadyForQuery:
			return bound, nil
		}
	}
}
