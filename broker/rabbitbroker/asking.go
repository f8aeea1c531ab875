package rabbitbroker

import (
	"context"
	"fmt"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/skald-go/skald/broker"
)

// with calls f with the connection that publishes, if it works, or else with a new one.
func (b *Broker) with(ctx context.Context, do func(*amqp.Connection) error) error {
	if conn := b.publisher.working(); conn != nil {
		return do(conn)
	}
	return b.withOwn(ctx, do)
}

// withOwn calls f with a new connection.
func (b *Broker) withOwn(ctx context.Context, do func(*amqp.Connection) error) error {
	conn, err := b.open(ctx)
	if err != nil {
		return err
	}
	defer hangUp(conn)
	return do(conn)
}

// withKept is with, and keeps a new connection for the next call, because health checks ask RabbitMQ every
// few seconds.
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
	if err != nil && code(err) == 0 { // no answer
		b.forget(conn)
	}
	return err
}

// keep returns false if there is a kept connection already, or if the broker is closed.
func (b *Broker) keep(conn *amqp.Connection) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.closed || b.asks != nil && !b.asks.IsClosed() {
		return false
	}
	b.asks = conn
	return true
}

// forget closes the kept connection if it is conn, or in any case if conn is nil.
func (b *Broker) forget(conn *amqp.Connection) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.asks != nil && (conn == nil || b.asks == conn) {
		go hangUp(b.asks)
		b.asks = nil
	}
}

func hangUp(conn *amqp.Connection) { _ = conn.CloseDeadline(time.Now().Add(time.Second)) }

// open opens a connection for requests.
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
