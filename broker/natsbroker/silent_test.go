package natsbroker_test

import (
	"bufio"
	"crypto/rand"
	"errors"
	"io"
	"net"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/skald-go/skald"
	"github.com/skald-go/skald/broker"
	"github.com/skald-go/skald/broker/natsbroker"
	"github.com/skald-go/skald/internal/need"
)

// silencer is a proxy of NATS that drops each message with a subject that contains a text.
type silencer struct {
	address   string
	swallows  atomic.Pointer[string]
	swallowed atomic.Int64
}

func newSilencer(t *testing.T) *silencer {
	target := strings.TrimPrefix(need.NATS(t), "nats://")
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	p := &silencer{address: l.Addr().String()}
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go p.carry(c, target)
		}
	}()
	return p
}

func (p *silencer) carry(c net.Conn, target string) {
	defer func() { _ = c.Close() }()
	s, err := net.Dial("tcp", target)
	if err != nil {
		return
	}
	defer func() { _ = s.Close() }()
	go func() { _, _ = io.Copy(c, s); _ = c.Close() }()
	for r := bufio.NewReader(c); ; {
		line, err := r.ReadString('\n')
		if err != nil {
			return
		}
		f, out := strings.Fields(line), []byte(line)
		if len(f) > 1 && (f[0] == "PUB" || f[0] == "HPUB") {
			n, _ := strconv.Atoi(f[len(f)-1])
			body := make([]byte, n+2)
			if _, err := io.ReadFull(r, body); err != nil {
				return
			}
			out = append(out, body...)
			if text := p.swallows.Load(); text != nil && strings.Contains(f[1], *text) {
				p.swallowed.Add(1)
				continue
			}
		}
		if _, err := s.Write(out); err != nil {
			return
		}
	}
}

// TestSilentStream has one stream of two not answer. Only its messages fail, and a consumer can join without
// it.
func TestSilentStream(t *testing.T) {
	p := newSilencer(t)
	b, err := natsbroker.New(p.address, &natsbroker.Options{Patience: time.Second})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = b.Close() })
	quiet, good := "quiet"+rand.Text(), "good"+rand.Text()
	if err := b.MakeTopics(t.Context(), 2, quiet, good); err != nil {
		t.Fatal(err)
	}
	publish := func(topics ...string) error {
		t.Helper()
		var msgs []skald.Message
		for _, topic := range topics {
			msgs = append(msgs, skald.Message{Topic: topic, ID: strconv.Itoa(len(msgs)), Source: "/s", Type: "t",
				Key: []byte("k")})
		}
		return b.Publish(t.Context(), msgs).Wait(t.Context())
	}
	if err := publish(quiet, good); err != nil {
		t.Fatal(err)
	}
	text := natsbroker.Stream(quiet)
	p.swallows.Store(&text)
	var part *broker.PublishError
	for range 2 { // first its publishes, then also questions about it are swallowed
		if err := publish(good, quiet, good); !errors.As(err, &part) || len(part.Failed) != 1 ||
			part.Failed[1] == nil || len(part.Refused) > 0 {
			t.Fatalf("got %v", err)
		}
	}
	swallowed := p.swallowed.Load()
	for range 20 {
		if err := publish(quiet); !errors.As(err, &part) || len(part.Failed) != 1 {
			t.Fatalf("got %v", err)
		}
	}
	if n := p.swallowed.Load() - swallowed; n > 2 {
		t.Errorf("%d of 20 messages were sent to a stream that does not answer", n)
	}
	var refused *broker.TopicError
	_, err = b.Subscribe(t.Context(), broker.Group{Name: "g" + rand.Text(), Topics: []string{good, quiet}})
	if !errors.As(err, &refused) || refused.Topic != quiet {
		t.Errorf("subscribed: %v", err)
	}
	if keeps, err := b.Keeps(t.Context(), quiet, good); err != nil || keeps[good] == 0 {
		t.Errorf("keeps %v, %v", keeps, err)
	}
	p.swallows.Store(nil)
	until(t, "the stream answers; a message published to it", func() bool { return publish(quiet) == nil })
}
