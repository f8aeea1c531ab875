package rabbitbroker_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"reflect"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/skald-go/skald"
	"github.com/skald-go/skald/broker"
	"github.com/skald-go/skald/broker/rabbitbroker"
	"github.com/skald-go/skald/internal/need"
)

func message(topic, key string, n int) skald.Message {
	return skald.Message{ID: fmt.Sprintf("%s-%04d", key, n), Source: "/s", Type: "t", Topic: topic,
		Key: []byte(key), Data: []byte("d")}
}

// place is a topic of one test, with functions that create groups. All of it is removed after the test.
type place struct {
	tidied
	t     *testing.T
	topic string
}

func newPlace(t *testing.T, at string, opts *rabbitbroker.Options, partitions int) *place {
	t.Helper()
	made := &made{t: t, groups: map[string]bool{}}
	t.Cleanup(func() { made.sweep(at) })
	p := &place{tidied: tidied{open(t, at, opts), made}, t: t,
		topic: fmt.Sprintf("test.%x", time.Now().UnixNano())}
	if partitions > 0 {
		if err := p.MakeTopics(t.Context(), partitions, p.topic); err != nil {
			t.Fatal(err)
		}
	}
	return p
}

func (p *place) group(name string) broker.Group {
	return broker.Group{Name: p.topic + "." + name, Topics: []string{p.topic}}
}

func (p *place) join(name string) broker.Subscription {
	p.t.Helper()
	s, err := p.Subscribe(p.t.Context(), p.group(name))
	if err != nil {
		p.t.Fatal(err)
	}
	return s
}

func (p *place) publish(msgs ...skald.Message) {
	p.t.Helper()
	if err := p.Publish(p.t.Context(), msgs).Wait(p.t.Context()); err != nil {
		p.t.Fatal(err)
	}
}

// receive receives messages from s until done returns true.
func receive(t *testing.T, s broker.Subscription, done func([]broker.Delivery) bool) (out []broker.Delivery) {
	t.Helper()
	for deadline := time.After(5 * time.Minute); ; {
		b, err := s.Receive(t.Context(), 100)
		if err != nil {
			t.Fatal(err)
		}
		if out = append(out, b.Deliveries...); done(out) {
			return out
		}
		select {
		case <-s.Ready():
		case <-deadline:
			t.Fatalf("only %d messages came", len(out))
		}
	}
}

func take(t *testing.T, s broker.Subscription, n int) []broker.Delivery {
	t.Helper()
	return receive(t, s, func(ds []broker.Delivery) bool { return len(ds) >= n })
}

// TestSettingsThatLoseMessages: a queue with settings by which messages are dropped or come out of order is
// refused, with the setting's name.
func TestSettingsThatLoseMessages(t *testing.T) {
	at := need.RabbitMQ(t)
	ch := raw(t, at)
	p := newPlace(t, at, nil, 1)
	for i, c := range []struct {
		name  string
		value any
	}{
		{"x-message-ttl", int64(1000)}, {"x-max-length", int64(10)}, {"x-max-length-bytes", int64(1000)},
		{"x-expires", int64(60000)},
		{"x-delivery-limit", int64(20)}, {"x-overflow", "drop-head"}, {"x-dead-letter-exchange", "x"},
		{"x-queue-type", "classic"}, {"x-single-active-consumer", nil},
	} {
		g := p.group(fmt.Sprint("g", i))
		p.made.groups[g.Name] = true
		named := c.name
		args := amqp.Table{"x-queue-type": "quorum", "x-single-active-consumer": true,
			"x-overflow": "reject-publish", "x-delivery-limit": int64(2_000_000_000),
			"x-dead-letter-exchange": "skald.dropped"}
		if args[c.name] = c.value; c.value == nil {
			delete(args, c.name)
		}
		if c.value == "classic" {
			args, named = amqp.Table{}, "x-" // it names the first that differs
		}
		if _, err := ch.QueueDeclare(rabbitbroker.Queue(g.Name, p.topic, 0), true, false, false, false,
			args); err != nil {
			t.Fatal(err)
		}
		if _, err := p.Subscribe(t.Context(), g); err == nil ||
			!strings.Contains(err.Error(), "inequivalent arg '"+named) || errors.Is(err,
			broker.ErrUnavailable) {
			t.Errorf("%s: %v", c.name, err)
		}
	}
}

// TestFullQueue: a policy that bounds a queue makes it refuse, never drop; the messages go out once there is
// room.
func TestFullQueue(t *testing.T) {
	t.Parallel()
	at := need.RabbitMQ(t)
	ctl := need.RabbitMQCtl(t)
	p := newPlace(t, at, nil, 1)
	s := p.join("g")
	ctl("set_policy", "--apply-to", "queues", p.topic, "^"+p.topic, `{"max-length":3}`)
	t.Cleanup(func() { ctl("clear_policy", p.topic) })
	if err := s.Close(t.Context()); err != nil { // so that nothing is taken
		t.Fatal(err)
	}
	sent := 0
	const most = 5000 // a slow server may hear of its policies late
	for ; sent < most; sent++ {
		err := p.Publish(t.Context(), []skald.Message{message(p.topic, "k", sent)}).Wait(t.Context())
		var pe *broker.PublishError
		if errors.As(err, &pe) && pe.Failed[0] != nil {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if sent < 3 || sent == most {
		t.Fatalf("%d messages fit into a queue of 3", sent)
	}
	s = p.join("g")
	ds := take(t, s, sent)
	for i, d := range ds {
		if want := message(p.topic, "k", i).ID; d.ID != want {
			t.Fatalf("got %s, want %s", d.ID, want)
		}
	}
	if err := s.Ack(t.Context(), ds); err != nil {
		t.Fatal(err)
	}
	until(t, "room", func() bool {
		return p.Publish(t.Context(), []skald.Message{message(p.topic, "k", sent)}).Wait(t.Context()) == nil
	})
	take(t, s, 1)
}

// TestNobodyListens: what no queue takes is not lost: it is refused until the first group is there, and then
// goes out.
func TestNobodyListens(t *testing.T) {
	at := need.RabbitMQ(t)
	p := newPlace(t, at, nil, 2)
	err := p.Publish(t.Context(), []skald.Message{message(p.topic, "k", 0)}).Wait(t.Context())
	var pe *broker.PublishError
	none := (*broker.NoQueueError)(nil)
	if !errors.As(err, &pe) || !errors.Is(pe.Refused[0], broker.ErrNoTopic) ||
		!errors.As(pe.Refused[0], &none) {
		t.Fatalf("published to nobody: %v", err)
	}
	if err := p.Declare(t.Context(), p.group("g")); err != nil {
		t.Fatal(err)
	}
	p.publish(message(p.topic, "k", 0))
	take(t, p.join("g"), 1)
}

// TestCheckOnly: nothing is declared, and all that is missing is named.
func TestCheckOnly(t *testing.T) {
	at := need.RabbitMQ(t)
	p := newPlace(t, at, &rabbitbroker.Options{CheckOnly: true}, 2)
	g := p.group("g")
	_, err := p.Subscribe(t.Context(), g)
	for i := range 2 {
		if err == nil || !strings.Contains(err.Error(), rabbitbroker.Queue(g.Name, p.topic, i)) {
			t.Errorf("partition %d is missing: %v", i, err)
		}
	}
	if err := p.Declare(t.Context(), g); err != nil {
		t.Fatal(err)
	}
	if err := p.Check(t.Context(), g); err != nil {
		t.Error(err)
	}
	p.publish(message(p.topic, "k", 0))
	take(t, p.join("g"), 1)
}

// TestHeadersThatRabbitMQObeys: a header of a message never copies it elsewhere.
func TestHeadersThatRabbitMQObeys(t *testing.T) {
	at := need.RabbitMQ(t)
	ch := raw(t, at)
	p := newPlace(t, at, nil, 1)
	s := p.join("g")
	aside, err := ch.QueueDeclare("", false, true, true, false, nil)
	if err == nil {
		err = ch.QueueBind(aside.Name, "elsewhere", p.topic, false, nil)
	}
	if err != nil {
		t.Fatal(err)
	}
	m := message(p.topic, "k", 0)
	for _, name := range []string{"BCC", "CC", "x-death", "x-delay", "x-match"} {
		m.Headers = append(m.Headers, skald.Header{Name: name, Value: []byte("elsewhere")})
	}
	p.publish(m)
	if got := take(t, s, 1)[0]; len(got.Headers) != 5 || string(got.Headers[1].Value) != "elsewhere" {
		t.Errorf("got %q", got.Headers)
	}
	if _, some, err := ch.Get(aside.Name, true); some || err != nil {
		t.Errorf("copied: %v, %v", some, err)
	}
}

// TestOtherHeadersTravelUnderTheirNames: any client reads a header that begins with x-, such as those of a
// copied dead letter, unless RabbitMQ acts on it.
func TestOtherHeadersTravelUnderTheirNames(t *testing.T) {
	at := need.RabbitMQ(t)
	ch := raw(t, at)
	p := newPlace(t, at, nil, 1)
	theirs, err := ch.QueueDeclare("", false, true, true, false, nil)
	if err == nil {
		err = ch.QueueBind(theirs.Name, "#", p.topic, false, nil)
	}
	if err != nil {
		t.Fatal(err)
	}
	s, m := p.join("g"), message(p.topic, "k", 0)
	m.Headers = []skald.Header{{Name: "x-attempt", Value: []byte("3")}, {Name: "x-death", Value: []byte("d")},
		{Name: "x-failed-reason", Value: []byte("it broke")}}
	p.publish(m)
	if got := take(t, s, 1)[0]; !reflect.DeepEqual(got.Headers, m.Headers) {
		t.Errorf("Skald got %q", got.Headers)
	}
	d, some, err := ch.Get(theirs.Name, true)
	if err != nil || !some || d.Headers["x-attempt"] != "3" || d.Headers["x-failed-reason"] != "it broke" ||
		d.Headers["x-death"] != nil {
		t.Errorf("another client got %v, %v", d.Headers, err)
	}
}

// TestSilentMember: a member whose connection says nothing any longer loses its partitions within its
// session, and what it had comes again, in order.
func TestSilentMember(t *testing.T) {
	t.Parallel()
	at := need.RabbitMQ(t)
	hole := &hole{}
	p := newPlace(t, at, &rabbitbroker.Options{Session: 5 * time.Second}, 2)
	g := p.group("g")
	lost := open(t, at, &rabbitbroker.Options{Session: 5 * time.Second})
	p.made.groups[g.Name] = true
	deaf, err := rabbitbroker.New(hosts(at), &rabbitbroker.Options{Session: 5 * time.Second, Dial: hole.Dial})
	if err != nil {
		t.Fatal(err)
	}
	defer deaf.Close()
	s, err := deaf.Subscribe(t.Context(), g)
	if err != nil {
		t.Fatal(err)
	}
	for i := range 20 {
		p.publish(message(p.topic, fmt.Sprint("k", i%4), i))
	}
	take(t, s, 20)
	hole.open()
	heir, err := lost.Subscribe(t.Context(), g)
	if err != nil {
		t.Fatal(err)
	}
	last := map[string]string{}
	for _, d := range take(t, heir, 20) {
		if key := string(d.Key); d.ID < last[key] {
			t.Errorf("%s came behind %s", d.ID, last[key])
		} else {
			last[key] = d.ID
		}
	}
}

// TestRestart: RabbitMQ is killed in the middle of publishing and of a batch. Nothing is lost, and no key
// loses its order.
func TestRestart(t *testing.T) {
	t.Parallel()
	at, restart := need.OwnRabbitMQ(t)
	b := open(t, at, &rabbitbroker.Options{Patience: 2 * time.Second})
	if err := b.MakeTopics(t.Context(), 3, "t"); err != nil {
		t.Fatal(err)
	}
	s, err := b.Subscribe(t.Context(), broker.Group{Name: "g", Topics: []string{"t"}})
	if err != nil {
		t.Fatal(err)
	}
	incarnation, err := b.Incarnation(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	const keys, each = 6, 200
	published := make(chan error, 1)
	go func() {
		for n := range each {
			var msgs []skald.Message
			for k := range keys {
				msgs = append(msgs, message("t", fmt.Sprint("k", k), n))
			}
			for b.Publish(t.Context(), msgs).Wait(t.Context()) != nil {
				if t.Context().Err() != nil {
					published <- t.Context().Err()
					return
				}
			}
		}
		published <- nil
	}()
	next, restarted := map[string]int{}, false
	for deadline := time.After(5 * time.Minute); ; {
		batch, err := s.Receive(t.Context(), 50)
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range batch.Deliveries {
			key := string(d.Key)
			if want := message("t", key, next[key]).ID; d.ID > want {
				t.Fatalf("%s came before %s", d.ID, want)
			} else if d.ID == want {
				next[key]++
			}
		}
		if n := len(batch.Deliveries); n > 0 {
			if err := s.Ack(t.Context(), batch.Deliveries[:n/2+1]); err != nil {
				t.Fatal(err)
			}
		}
		if !restarted && next["k0"] > each/4 {
			restarted = true
			restart()
		}
		if len(next) == keys && slices.Min(slices.Collect(maps.Values(next))) == each {
			break
		}
		select {
		case <-s.Ready():
		case <-deadline:
			t.Fatalf("only so many came: %v", next)
		}
	}
	if err := <-published; err != nil {
		t.Fatal(err)
	}
	if again, err := b.Incarnation(t.Context()); err != nil || again != incarnation {
		t.Errorf("after the restart it is %q, was %q: %v", again, incarnation, err)
	}
}

// Health asks an idle process's broker again and again for its incarnation: on one connection, and on another
// once that is lost.
func TestQuestionsShareAConnection(t *testing.T) {
	proxy := need.NewProxy(t, hosts(need.RabbitMQ(t)))
	var dials atomic.Int64
	b := open(t, need.RabbitMQ(t), &rabbitbroker.Options{
		Dial: func(string, string) (net.Conn, error) {
			dials.Add(1)
			return net.Dial("tcp", proxy.Addr())
		}})
	dials.Store(0) // open has asked
	ask := func(wait time.Duration) error {
		ctx, cancel := context.WithTimeout(t.Context(), wait)
		defer cancel()
		_, err := b.Incarnation(ctx)
		return err
	}
	for range 5 {
		if err := ask(time.Minute); err != nil {
			t.Fatal(err)
		}
	}
	if n := dials.Load(); n != 1 {
		t.Errorf("5 questions took %d connections", n)
	}
	proxy.Deaden()
	if err := ask(100 * time.Millisecond); err == nil {
		t.Error("a dead connection answers")
	}
	if err := ask(time.Minute); err != nil {
		t.Errorf("a new connection works: %v", err)
	}
	if n := dials.Load(); n != 2 {
		t.Errorf("%d connections, want 2", n)
	}
}
