package inbox_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/skald-go/skald"
	"github.com/skald-go/skald/broker"
	"github.com/skald-go/skald/broker/membroker"
	"github.com/skald-go/skald/broker/rabbitbroker"
	"github.com/skald-go/skald/inbox"
	"github.com/skald-go/skald/internal/need"
)

// A topic that does not exist does not stop the others: the consumer reads those, is not ready and names the
// topic. Once the topic exists, the consumer reads it, too.
func TestMissingTopicDoesNotStopTheOthers(t *testing.T) {
	w := newWorld(t, 1)
	in := w.stepper(keep)
	late := skald.Event[string]{Topic: "late", Type: "said"}
	inbox.On(in, late, keep)
	w.publish(w.message("a", "1"))
	w.quiet(in)
	w.expect("a", "1")
	if h := in.Health(); h.Ready || !strings.Contains(h.Why, "no such topic: late;") {
		t.Errorf("health %+v", h)
	}
	if err := w.bus.MakeTopics(t.Context(), 1, "late"); err != nil {
		t.Fatal(err)
	}
	m := w.message("b", "2")
	m.Topic = "late"
	w.publish(m, w.message("a", "3"))
	w.pass(10 * time.Second)
	w.quiet(in)
	w.expect("a", "1 3")
	w.expect("b", "2")
	if h := in.Health(); !h.Ready || h.Handled != 3 {
		t.Errorf("health %+v", h)
	}
}

// Run does the same while handlers run.
func TestMissingTopicUnderRun(t *testing.T) {
	w := newWorld(t, 4)
	in := w.inbox(&inbox.Options{Now: w.clock, Logger: slog.New(slog.DiscardHandler)}, keep)
	inbox.On(in, skald.Event[string]{Topic: "late", Type: "said"},
		func(ctx context.Context, tx tx, m skald.Received[string]) error { return keep(ctx, tx, m) })
	stop := run(t, in)
	for n := range 100 {
		w.publish(w.message(fmt.Sprint("k", n), "1"))
	}
	until(t, "the topic that exists is read", func() bool { return in.Health().Handled == 100 })
	if err := w.bus.MakeTopics(t.Context(), 1, "late"); err != nil {
		t.Fatal(err)
	}
	m := w.message("late", "1")
	m.Topic = "late"
	w.publish(m)
	until(t, "the other one is read", func() bool {
		w.pass(time.Second)
		return in.Health().Handled == 101 && in.Health().Ready
	})
	if err := stop(); err != nil {
		t.Fatal(err)
	}
}

// choosy is a broker that refuses one topic, when a consumer joins and when it receives.
type choosy struct {
	*membroker.Broker
	topic string
	now   bool // of a consumer that has joined
	joins int
}

var errSettings = errors.New("the queue of it has other settings")

func (r *choosy) Subscribe(ctx context.Context, g broker.Group) (broker.Subscription, error) {
	r.joins++
	if r.topic != "" && slices.Contains(g.Topics, r.topic) {
		return nil, &broker.TopicError{Topic: r.topic, Err: errSettings}
	}
	s, err := r.Broker.Subscribe(ctx, g)
	return choosySubscription{s, r}, err
}

type choosySubscription struct {
	broker.Subscription
	of *choosy
}

func (s choosySubscription) Receive(ctx context.Context, most int) (broker.Batch, error) {
	if s.of.now {
		s.of.now = false
		return broker.Batch{}, &broker.TopicError{Topic: s.of.topic, Err: errSettings}
	}
	return s.Subscription.Receive(ctx, most)
}

// A topic that the broker refuses for its settings does not stop the others, at the start of the consumer and
// later. The consumer asks for it again, and joins rarely if that brings nothing.
func TestRefusedTopicDoesNotStopTheOthers(t *testing.T) {
	w := newWorld(t, 1)
	bus := &choosy{Broker: w.bus, topic: "bad"}
	if err := w.bus.MakeTopics(t.Context(), 1, "bad"); err != nil {
		t.Fatal(err)
	}
	in := inbox.New(w.db, bus, "refused", &inbox.Options{Now: w.clock,
		Logger: slog.New(slog.DiscardHandler)})
	inbox.On(in, said, keep)
	inbox.On(in, skald.Event[string]{Topic: "bad", Type: "said"}, keep)
	refused := func(is bool) {
		t.Helper()
		h := in.Health()
		if is != strings.Contains(h.Why, "refuses the topic: bad;") || is == h.Ready {
			t.Errorf("health %+v", h)
		}
	}
	w.publish(w.message("a", "1"))
	w.quiet(in)
	w.expect("a", "1")
	refused(true)
	before := bus.joins
	for range 600 {
		w.pass(time.Second)
		w.quiet(in)
	}
	if joins := bus.joins - before; joins < 2 || joins > 20 {
		t.Errorf("the consumer joined %d times in 10 minutes", joins)
	}
	bus.topic = ""
	for range 360 {
		w.pass(time.Second)
		w.quiet(in)
	}
	refused(false)
	bus.topic, bus.now = "bad", true
	w.publish(w.message("a", "2"))
	if _, err := in.Step(t.Context()); !errors.Is(err, errSettings) {
		t.Fatal(err)
	}
	w.quiet(in)
	w.expect("a", "1 2")
	refused(true)
}

// unreadable is a broker that reports why a topic cannot be read.
type unreadable struct{ *choosy }

func (u unreadable) CheckReading(_ context.Context, topic string) error {
	if topic == u.topic {
		return errSettings
	}
	return nil
}

// A consumer without the right to read a topic does not disturb its group: it joins again once it has the
// right, and not before.
func TestUnreadableTopicDoesNotDisturbTheGroup(t *testing.T) {
	w := newWorld(t, 1)
	bus := &choosy{Broker: w.bus, topic: "bad"}
	if err := w.bus.MakeTopics(t.Context(), 1, "bad"); err != nil {
		t.Fatal(err)
	}
	in := inbox.New(w.db, unreadable{bus}, "unreadable", &inbox.Options{Now: w.clock,
		Logger: slog.New(slog.DiscardHandler)})
	inbox.On(in, said, keep)
	inbox.On(in, skald.Event[string]{Topic: "bad", Type: "said"}, keep)
	w.publish(w.message("a", "1"))
	w.quiet(in)
	w.expect("a", "1")
	before := bus.joins
	for range 60 {
		w.pass(10 * time.Second)
		w.quiet(in)
	}
	if bus.joins != before {
		t.Errorf("the consumer joined %d times without the right", bus.joins-before)
	}
	if h := in.Health(); h.Ready || !strings.Contains(h.Why, errSettings.Error()) {
		t.Errorf("health %+v", h)
	}
	bus.topic = ""
	m := w.message("b", "2")
	m.Topic = "bad"
	w.publish(m)
	w.pass(10 * time.Second)
	w.quiet(in)
	w.expect("b", "2")
	if h := in.Health(); !h.Ready {
		t.Errorf("health %+v", h)
	}
}

// A topic that is deleted at RabbitMQ while its consumer runs does not stop the others.
func TestDeletedRabbitMQTopicDoesNotStopTheOthers(t *testing.T) {
	t.Parallel()
	r := newRestart(t, onRabbitMQ, "")
	stays, goes := r.name+".stays", r.name+".goes"
	r.make(stays, goes)
	in := r.consumer(stays, goes)
	stop := run(t, in)
	until(t, "the consumer has joined", func() bool { return in.Health().Ready })
	r.publish(goes, 0, 10)
	r.publish(stays, 0, 10)
	until(t, "both are read", func() bool { return r.effects() == 20 })
	fatal(t, r.drop(goes))
	r.publish(stays, 10, 60)
	until(t, "the other is read meanwhile", func() bool { return r.effects() == 70 })
	until(t, "the consumer names the topic", func() bool {
		h := in.Health()
		return !h.Ready && strings.Contains(h.Why, "no such topic: "+goes+";")
	})
	r.publish(stays, 60, 100)
	until(t, "the other is read without it", func() bool { return r.effects() == 110 })
	r.make(goes)
	until(t, "the consumer reads it again", func() bool { return in.Health().Ready })
	r.publish(goes, 10, 20)
	until(t, "what came after it was made again", func() bool { return r.effects() == 120 })
	fatal(t, stop())
}

func onRabbitMQ(r *restart, _ string) {
	url := need.RabbitMQ(r.T)
	b, err := rabbitbroker.New(strings.TrimPrefix(url, "amqp://"), nil)
	fatal(r.T, err)
	conn, err := amqp.Dial(url)
	fatal(r.T, err)
	r.Cleanup(func() { _ = conn.Close() })
	r.bus, r.drop = b, func(topic string) error {
		ch, err := conn.Channel()
		if err == nil {
			err = ch.ExchangeDelete(topic, false, false)
		}
		queues := []string{rabbitbroker.Record(topic)}
		for i := range 2 {
			queues = append(queues, rabbitbroker.Queue(r.group, topic, i))
		}
		for _, q := range queues {
			if err == nil {
				_, err = ch.QueueDelete(q, false, false, false)
			}
		}
		return err
	}
}

// A topic that is deleted, while its consumer runs or is stopped, does not stop the others.
func TestDeletedTopicDoesNotStopTheOthers(t *testing.T) {
	t.Parallel()
	for broker, on := range rewindable() {
		t.Run(broker, func(t *testing.T) {
			t.Parallel()
			r := newRestart(t, on, "")
			stays, goes := r.name+".stays", r.name+".goes"
			r.make(stays, goes)
			r.publish(goes, 0, 10)
			r.publish(stays, 0, 10)
			in := r.consumer(stays, goes)
			stop := run(t, in)
			until(t, "both are read", func() bool { return r.effects() == 20 })
			fatal(t, r.drop(goes))
			r.publish(stays, 10, 60)
			until(t, "the other is read meanwhile", func() bool { return r.effects() == 70 })
			until(t, "health names the topic", func() bool {
				h := in.Health()
				return !h.Ready && strings.Contains(h.Why, "no such topic: "+goes)
			})
			fatal(t, stop())

			in = r.consumer(stays, goes)
			stop = run(t, in)
			r.publish(stays, 60, 100)
			until(t, "the other is read after a restart", func() bool { return r.effects() == 110 })
			if h := in.Health(); h.Ready || !strings.Contains(h.Why, goes) {
				t.Errorf("health %+v", h)
			}
			fatal(t, stop())
		})
	}
}
