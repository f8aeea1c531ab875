package rabbitbroker

import (
	"strings"
	"testing"

	"github.com/skald-go/skald"
	"github.com/skald-go/skald/internal/need"
)

// RabbitMQ closes a channel for one message, and the publisher launches the next one before it handles that.
// Nothing was sent: the caller has no outage, and the message goes by the next channel.
func TestLaunchOnAClosedChannel(t *testing.T) {
	at := need.RabbitMQ(t)
	b, err := New(strings.TrimPrefix(at, "amqp://"), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	topic := "launch." + strings.ToLower(t.Name())
	if err := b.MakeTopics(t.Context(), 1, topic); err != nil {
		t.Fatal(err)
	}
	defer func() {
		made, err := b.Topics(t.Context(), topic)
		if err == nil {
			err = b.RemoveTopics(t.Context(), made)
		}
		if err != nil {
			t.Error(err)
		}
	}()
	p := &publisher{b: b, opts: b.opts, denied: map[string]denial{}} // whose messages the test sends
	p.opts.DropUnrouted = true
	p.Init("RabbitMQ", p.opts.Patience)
	w, err := p.open(nil)
	if err != nil {
		t.Fatal(err)
	}
	defer w.cut()
	if _, err := w.ch.QueueDeclarePassive("there is none", true, false, false, false, nil); err == nil {
		t.Fatal("the channel is not closed")
	}
	<-w.closed
	known, err := b.look(t.Context(), w.conn, topic)
	if err != nil {
		t.Fatal(err)
	}
	p.Topics[topic] = known
	msgs := []skald.Message{{ID: "1", Topic: topic, Type: "t", Key: []byte("k")}}
	call := p.Publish(t.Context(), msgs, nil, func(m *skald.Message) (parcel, error) {
		msg, err := encode(b.codec, m)
		return parcel{msg: msg}, err
	})
	it := p.Lines.Next(1)
	if err := p.launch(w, it); err == nil {
		t.Fatal("a closed channel sends")
	}
	select {
	case <-call.Done():
		t.Fatalf("the caller has its answer: %v", call.Wait(t.Context()))
	default:
	}
	again, err := p.open(w)
	if err != nil {
		t.Fatal(err)
	}
	if err := p.launch(again, it); err != nil {
		t.Fatal(err)
	}
	if err := call.Wait(t.Context()); err != nil {
		t.Errorf("by another channel: %v", err)
	}
}
