// This file opens the channel that publishes, and handles its end.

package rabbitbroker

import (
	"cmp"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/skald-go/skald/broker"
	"github.com/skald-go/skald/broker/internal/cloudevents"
	"github.com/skald-go/skald/broker/internal/perkey"
)

// connected returns the channel that publishes. It opens a new one if the last one was lost.
func (p *publisher) connected() (*wire, error) {
	p.Mu.Lock()
	w, down, closed := p.wire, p.Down, p.Lines.Closed()
	why := p.reason()
	p.Mu.Unlock()
	switch {
	case closed:
		return nil, broker.ErrClosed
	case w != nil && down.IsZero():
		return w, nil
	case w != nil && !w.conn.IsClosed() && !w.ch.IsClosed(): // RabbitMQ blocks publishers
		return nil, why
	}
	fresh, err := p.open(w)
	p.Mu.Lock()
	defer p.Mu.Unlock()
	if err != nil {
		p.why = err
		return nil, err
	}
	if p.Lines.Closed() {
		_ = fresh.conn.Close()
		return nil, broker.ErrClosed
	}
	p.wire, p.Down, p.why = fresh, time.Time{}, nil
	p.Go(func() { p.follow(fresh) })
	return fresh, nil
}

// working returns the connection that publishes, or nil if it is lost or blocked.
func (p *publisher) working() *amqp.Connection {
	p.Mu.Lock()
	defer p.Mu.Unlock()
	if p.wire == nil || p.Lines.Closed() || !p.Down.IsZero() || p.wire.conn.IsClosed() {
		return nil
	}
	return p.wire.conn
}

// open opens a channel in confirm mode. It uses the connection of the wire old if that connection still
// works.
func (p *publisher) open(old *wire) (*wire, error) {
	w := &wire{}
	if old != nil && !old.conn.IsClosed() {
		w.conn, w.cut, w.blocked = old.conn, old.cut, old.blocked
	} else {
		conn, cut, err := p.b.connect("publishes", nil)
		if err != nil {
			return nil, err
		}
		w.conn, w.cut, w.blocked = conn, cut, conn.NotifyBlocked(make(chan amqp.Blocking, 8))
	}
	defer time.AfterFunc(p.opts.Patience, w.cut).Stop() // if RabbitMQ does not answer
	var err error
	if w.ch, err = w.conn.Channel(); err == nil {
		w.closed = w.ch.NotifyClose(make(chan *amqp.Error, 1))
		w.returns = w.ch.NotifyReturn(make(chan amqp.Return, p.opts.Flying+1))
		err = w.ch.Confirm(false)
	}
	if err != nil {
		_ = w.conn.Close()
		return nil, fmt.Errorf("open a channel: %w", orUnavailable(err))
	}
	return w, nil
}

// follow handles the events of a channel until the channel is closed.
func (p *publisher) follow(w *wire) {
	blocked := w.blocked
	for {
		select {
		case b, ok := <-blocked:
			if !ok {
				blocked = nil
				continue
			}
			p.block(w, b)
		case err := <-w.closed:
			p.lost(w, err)
			return
		}
	}
}

// block records whether RabbitMQ blocks publishers, because it is short of memory or disk.
func (p *publisher) block(w *wire, b amqp.Blocking) {
	p.Mu.Lock()
	defer p.Mu.Unlock()
	if p.wire != w {
		return
	}
	p.Down, p.why = time.Time{}, nil
	if b.Active {
		p.Down, p.why = time.Now(), fmt.Errorf("RabbitMQ blocks publishers because it is short of resources: %s",
			b.Reason)
	}
	p.Rouse()
}

// lost handles the unconfirmed messages of a closed channel. If the connection has ended, it reports an
// outage. Otherwise RabbitMQ closed the channel because of a message: lost refuses this message, and sends
// the others again. If lost cannot tell which message it was, all are sent again one by one.
func (p *publisher) lost(w *wire, err *amqp.Error) {
	p.Mu.Lock()
	defer p.Mu.Unlock()
	if p.wire != w {
		return
	}
	p.Down = time.Now()
	p.why = errors.New("the connection was lost")
	if err != nil {
		p.why = err
	}
	clear(p.Topics)
	soft := err != nil && !w.conn.IsClosed()
	var mine []*item
	for it := range p.Lines.Flying() {
		if it.Out.wire == w {
			mine = append(mine, it)
		}
	}
	known := false
	for _, it := range mine {
		switch why := p.blame(it, err); {
		case !soft:
			p.Lines.Down(it, perkey.Outage, fmt.Errorf("publish to %q: %w: before the confirmation: %w",
				it.Topic, broker.ErrUnavailable, p.why))
		case why != nil || len(mine) == 1:
			known = true
			p.Lines.Down(it, perkey.Refused, fmt.Errorf("publish to %q: %w", it.Topic,
				cmp.Or[error](why, err)))
		default:
			p.Lines.Land(it)
			p.Lines.SendLast(it)
		}
	}
	if soft && !known {
		p.oneByOne = len(mine)
	}
	p.Rouse()
}

// blame returns the error if RabbitMQ closed the channel because of this message. It returns nil if the cause
// is another message, or unknown. The caller holds Mu.
func (p *publisher) blame(it *item, err *amqp.Error) error {
	if err == nil {
		return nil
	}
	named := strings.Contains(err.Reason, "exchange '"+it.Topic+"'")
	switch {
	case err.Code == amqp.NotFound && named:
		return fmt.Errorf("%w: %w", broker.ErrNoTopic, err)
	case err.Code == amqp.AccessRefused && named:
		p.denied[it.Topic] = denial{why: err, until: time.Now().Add(deniedFor)}
		return err
	case err.Code == amqp.PreconditionFailed:
		// "message size 100000 is larger than configured max size 20000"
		if _, after, found := strings.Cut(err.Reason, "larger than configured max size "); found {
			p.most, _ = strconv.Atoi(strings.TrimSpace(after))
			p.mostAt = time.Now()
			if len(it.Out.msg.Body) > p.most {
				return err
			}
		}
	}
	return nil
}

// refusal returns an error if RabbitMQ would close the channel because of this message, as it did recently
// for the same reason.
func (p *publisher) refusal(it *item) error {
	p.Mu.Lock()
	defer p.Mu.Unlock()
	if d, ok := p.denied[it.Topic]; ok {
		if time.Now().Before(d.until) {
			return fmt.Errorf("publish to %q: %w", it.Topic, d.why)
		}
		delete(p.denied, it.Topic)
	}
	if p.most > 0 && time.Since(p.mostAt) < p.opts.Patience && len(it.Out.msg.Body) > p.most {
		return fmt.Errorf("publish to %q: %d bytes are more than RabbitMQ's max_message_size, %d: %w",
			it.Topic, len(it.Out.msg.Body), p.most, cloudevents.ErrCannotCarry)
	}
	return nil
}
