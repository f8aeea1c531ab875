package rabbitbroker_test

import (
	"context"
	"errors"
	"net"
	"strconv"
	"strings"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/skald-go/skald"
	"github.com/skald-go/skald/broker"
	"github.com/skald-go/skald/broker/rabbitbroker"
	"github.com/skald-go/skald/internal/need"
)

// TestLeastRights: a relay, an inbox and one whose queues others made need no right but those that the docs
// name; one that is missing is told with its name, and is no outage.
func TestLeastRights(t *testing.T) {
	t.Parallel()
	at := need.RabbitMQ(t)
	name, ctl := vhost(t, at)
	do := need.RabbitMQCtl(t)
	admin := open(t, at, &rabbitbroker.Options{VHost: name})
	if err := admin.MakeTopics(t.Context(), 2, "t"); err != nil {
		t.Fatal(err)
	}
	g := broker.Group{Name: "g", Topics: []string{"t"}}
	as := func(role, configure, write, read string, check bool) *rabbitbroker.Broker {
		t.Helper()
		user := name + "." + role
		do("add_user", user, "secret")
		t.Cleanup(func() { do("delete_user", user) })
		ctl("set_permissions", user, configure, write, read)
		b, err := rabbitbroker.New(hosts(at), &rabbitbroker.Options{VHost: name, User: user, CheckOnly: check,
			Password: func() (string, error) { return "secret", nil }})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { b.Close() })
		return b
	}
	refused := func(what string, err error) {
		t.Helper()
		var said *amqp.Error
		if !errors.As(err, &said) || said.Code != amqp.AccessRefused || errors.Is(err,
			broker.ErrUnavailable) || !strings.Contains(err.Error(), what) || strings.Contains(err.Error(),
			"secret") {
			t.Errorf("without the right to %s: %v", what, err)
		}
	}
	const configure, write = `^(amq\.gen.*|g/.*)$`,
		`^(amq\.gen.*|g/.*|skald\.members|skald\.dropped|amq\.default)$`
	const checkWrite, read = `^(amq\.gen.*|skald\.members|amq\.default)$`,
		`^(amq\.gen.*|g/.*|skald\.members|skald/t|t)$`
	relay := as("relay", "^$", "^t$", "^(skald|skald/t)$", false)
	inbox := as("inbox", configure, write, read, false)
	checker := as("checker", `^amq\.gen.*$`, checkWrite, read, true)

	refused("skald.making", relay.MakeTopics(t.Context(), 1, "u"))
	if _, err := relay.Incarnation(t.Context()); err != nil {
		t.Error(err)
	}
	for n, b := range []*rabbitbroker.Broker{inbox, checker} {
		s, err := b.Subscribe(t.Context(), g)
		if err != nil {
			t.Fatal(err)
		}
		if err := relay.Publish(t.Context(),
			[]skald.Message{message("t", "k", n)}).Wait(t.Context()); err != nil {
			t.Fatal(err)
		}
		ds := take(t, s, 1)
		if err := errors.Join(s.Ack(t.Context(), ds), s.Close(t.Context())); err != nil ||
			ds[0].ID != message("t", "k", n).ID {
			t.Errorf("%s: %v", ds[0].ID, err)
		}
	}

	var pe *broker.PublishError
	err := inbox.Publish(t.Context(), []skald.Message{message("t", "k", 9)}).Wait(t.Context())
	if refused("exchange 't'", err); !errors.As(err, &pe) || pe.Refused[0] == nil {
		t.Errorf("published without the right to: %v", err)
	}
	_, err = relay.Subscribe(t.Context(), g)
	refused("g/t/0", err)
	mute := as("mute", `^amq\.gen.*$`, `^(amq\.gen.*|amq\.default)$`, read, true)
	s, err := mute.Subscribe(t.Context(), g)
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		defer cancel()
		_ = s.Close(ctx)
	}()
	until(t, "word of the missing right to write", func() bool {
		_, err = s.Receive(t.Context(), 1)
		return err != nil
	})
	refused("skald.members", err)
}

// TestDeniedTopicRefusesNoOther publishes to a topic without the right to, together with messages to another
// topic. RabbitMQ closes the channel for the first topic; each message to the other one is durable.
func TestDeniedTopicRefusesNoOther(t *testing.T) {
	t.Parallel()
	at := need.RabbitMQ(t)
	name, ctl := vhost(t, at)
	do := need.RabbitMQCtl(t)
	admin := open(t, at, &rabbitbroker.Options{VHost: name})
	for _, topic := range []string{"a", "b"} {
		err := admin.MakeTopics(t.Context(), 2, topic)
		if err == nil {
			err = admin.Declare(t.Context(), broker.Group{Name: "g", Topics: []string{topic}})
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	do("add_user", name, "secret")
	t.Cleanup(func() { do("delete_user", name) })
	ctl("set_permissions", name, "^$", "^a$", ".*")
	b, err := rabbitbroker.New(hosts(at), &rabbitbroker.Options{VHost: name, User: name,
		Password: func() (string, error) { return "secret", nil }})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { b.Close() })
	var msgs []skald.Message
	for n := range 200 {
		topic := "a"
		if n%5 == 2 {
			topic = "b"
		}
		msgs = append(msgs, message(topic, "k"+strconv.Itoa(n%50), n))
	}
	for range 3 {
		var pe *broker.PublishError
		if err := b.Publish(t.Context(), msgs).Wait(t.Context()); !errors.As(err, &pe) {
			t.Fatalf("published to b without the right to: %v", err)
		}
		for i := range msgs {
			switch failed, refused := pe.Failed[i], pe.Refused[i]; {
			case msgs[i].Topic == "a" && (failed != nil || refused != nil):
				t.Fatalf("message %d to a: failed: %v, refused: %v", i, failed, refused)
			case msgs[i].Topic == "b" && failed == nil && refused == nil:
				t.Fatalf("message %d to b is durable", i)
			}
		}
	}
}

// TestUnreadableTopicDoesNotStopTheOthers joins with two topics, without the right to read the queues of one.
// The member keeps the partitions of the other, and reports the refusal.
func TestUnreadableTopicDoesNotStopTheOthers(t *testing.T) {
	t.Parallel()
	at := need.RabbitMQ(t)
	name, ctl := vhost(t, at)
	do := need.RabbitMQCtl(t)
	admin := open(t, at, &rabbitbroker.Options{VHost: name})
	g := broker.Group{Name: "g", Topics: []string{"a", "b"}}
	if err := admin.MakeTopics(t.Context(), 3, g.Topics...); err != nil {
		t.Fatal(err)
	}
	if err := admin.Declare(t.Context(), g); err != nil {
		t.Fatal(err)
	}
	do("add_user", name, "secret")
	t.Cleanup(func() { do("delete_user", name) })
	ctl("set_permissions", name, ".*", ".*", `^(amq\.gen.*|g/a/.*|skald.*|a|b)$`)
	b, err := rabbitbroker.New(hosts(at), &rabbitbroker.Options{VHost: name, User: name, CheckOnly: true,
		Password: func() (string, error) { return "secret", nil }})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { b.Close() })
	s, err := b.Subscribe(t.Context(), g)
	if err != nil {
		t.Fatal(err)
	}
	faults, got, published := 0, 0, 0
	until(t, "messages of a, and two reports about b", func() bool {
		if published < 30 {
			m := message("a", "k"+strconv.Itoa(published), published)
			if err := admin.Publish(t.Context(), []skald.Message{m}).Wait(t.Context()); err != nil {
				t.Fatal(err)
			}
			published++
		}
		batch, err := s.Receive(t.Context(), 100)
		if err != nil {
			if !strings.Contains(err.Error(), "g/b/") {
				t.Fatal(err)
			}
			faults++
		}
		if len(batch.Lost) > 0 {
			t.Fatalf("lost: %v", batch.Lost)
		}
		got += len(batch.Deliveries)
		return got == 30 && faults >= 2
	})
	ctl("set_permissions", name, ".*", ".*", ".*")
	err = admin.Publish(t.Context(), []skald.Message{message("b", "k", 1)}).Wait(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	until(t, "the message of b", func() bool {
		batch, _ := s.Receive(t.Context(), 100)
		return len(batch.Deliveries) == 1 && batch.Deliveries[0].Topic == "b"
	})
	if err := s.Close(t.Context()); err != nil {
		t.Error(err)
	}
}

// TestServerThatNeverAnswers: one that takes connections and says nothing is an outage in good time, whoever
// dials.
func TestServerThatNeverAnswers(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	b, err := rabbitbroker.New(l.Addr().String(), &rabbitbroker.Options{Patience: 200 * time.Millisecond,
		Dial: net.Dial})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	if err := b.Publish(t.Context(), []skald.Message{message("t", "k", 0)}).Wait(ctx); !errors.Is(err,
		broker.ErrUnavailable) {
		t.Errorf("published to nobody: %v", err)
	}
	closed := make(chan error, 1)
	go func() { closed <- b.Close() }()
	select {
	case <-closed:
	case <-ctx.Done():
		t.Error("it does not close")
	}
}
