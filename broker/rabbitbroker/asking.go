package rabbitbroker

import (
	"context"
	"fmt"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/skald-go/skald/broker"
)

// with asks on the connection that publishes, if there is one that works, else on one of its own.
func (b *Broker) with(ctx context.Context, do func(*amqp.Connection) error) error {
	if conn := b.publisher.working(); conn != nil {
		return do(conn)
	}
	return b.withOwn(ctx, do)
}

// withOwn asks on a connection of its own.
func (b *Broker) withOwn(ctx context.Context, do func(*amqp.Connection) error) error {
	conn, err := b.open(ctx)
	if err != nil {
		return err
	}
	defer hangUp(conn)
	return do(conn)
}

// withKept asks as with does, and keeps a connection of its own for the next question: health asks every few
// seconds whether RabbitMQ answers.
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

// keep returns false if there is a connection that is kept, or no more questions.
func (b *Broker) keep(conn *amqp.Connection) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.closed || b.asks != nil && !b.asks.IsClosed() {
		return false
	}
	b.asks = conn
	return true
}

// forget closes the kept connection if it is conn; nil: whichever it is.
func (b *Broker) forget(conn *amqp.Connection) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.asks != nil && (conn == nil || b.asks == conn) {
		go hangUp(b.asks)
		b.asks = nil
	}
}

func hangUp(conn *amqp.Connection) { _ = conn.CloseDeadline(time.Now().Add(time.Second)) }

// open makes a connection that asks.
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
		return nil, fmt.Errorf("%w: %w", broker.ErrAway, ctx.Err())
	}
}
