// This file selects a connection for requests, such as the check of a topic.

package rabbitbroker

import (
	"context"
	"fmt"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/skald-go/skald/broker"
)

// withConn calls the function do with the publisher's connection, or with a new connection if that one does
// not work.
func (b *Broker) withConn(ctx context.Context, do func(*amqp.Connection) error) error {
	if conn := b.publisher.working(); conn != nil {
		return do(conn)
	}
	return b.withOwn(ctx, do)
}

// withOwn calls the function do with a new connection, and closes the connection.
func (b *Broker) withOwn(ctx context.Context, do func(*amqp.Connection) error) error {
	conn, err := b.open(ctx)
	if err != nil {
		return err
	}
	defer hangUp(conn)
	return do(conn)
}

// withKept works like with, but keeps a new connection for the next call. It is for health checks, which run
// every few seconds.
func (b *Broker) withKept(ctx context.Context, do func(*amqp.Connection) error) error {
	if conn := b.publisher.working(); conn != nil {
		b.forget(nil)
		return do(conn)
	}
	b.mu.Lock()
	conn := b.asks
	b.mu.Unlock()
	if conn == nil || conn.IsClosed() {
		var err error
		if conn, err = b.open(ctx); err != nil {
			return err
		}
		if !b.keep(conn) {
			defer hangUp(conn)
		}
	}
	err := do(conn)
	if err != nil && code(err) == 0 { // RabbitMQ did not answer
		b.forget(conn)
	}
	return err
}

// keep stores conn as the connection for requests. It returns false if there is one already, or if the broker
// is closed.
func (b *Broker) keep(conn *amqp.Connection) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.closed || b.asks != nil && !b.asks.IsClosed() {
		return false
	}
	b.asks = conn
	return true
}

// forget closes the connection for requests if it is conn, or if conn is nil.
func (b *Broker) forget(conn *amqp.Connection) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.asks != nil && (conn == nil || b.asks == conn) {
		go hangUp(b.asks)
		b.asks = nil
	}
}

func hangUp(conn *amqp.Connection) { _ = conn.CloseDeadline(time.Now().Add(time.Second)) }

// open opens a connection for requests. When ctx ends, it returns an error.
func (b *Broker) open(ctx context.Context) (*amqp.Connection, error) {
	b.mu.Lock()
	closed := b.closed
	b.mu.Unlock()
	if closed {
		return nil, broker.ErrClosed
	}
	type made struct {
		conn *amqp.Connection
		err  error
	}
	got := make(chan made, 1)
	go func() {
		conn, _, err := b.connect("asks", nil)
		got <- made{conn, err}
	}()
	select {
	case m := <-got:
		return m.conn, m.err
	case <-ctx.Done():
		go func() {
			if m := <-got; m.err == nil {
				_ = m.conn.Close()
			}
		}()
		return nil, fmt.Errorf("%w: %w", broker.ErrUnavailable, ctx.Err())
	}
}
