package perkey_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/skald-go/skald"
	"github.com/skald-go/skald/broker"
	"github.com/skald-go/skald/broker/internal/perkey"
)

type sender struct {
	*testing.T
	mu    sync.Mutex
	lines *perkey.Lines[string]
}

func newSender(t *testing.T) *sender {
	s := &sender{T: t}
	s.lines = perkey.New[string]("a broker", &s.mu, func() {})
	return s
}

// publish queues messages by name: "k1" is message 1 of key k; "-1" has no key; "!…" cannot be encoded.
func (s *sender) publish(ctx context.Context, names ...string) broker.Pending {
	var msgs []skald.Message
	for _, n := range names {
		m := skald.Message{Topic: "t", ID: n, Key: []byte(n[:1])}
		if n[0] == '-' {
			m.Key = nil
		}
		msgs = append(msgs, m)
	}
	return s.lines.Publish(ctx, msgs, nil, func(m *skald.Message) (string, error) { return m.ID, nil })
}

// sent launches all messages that may be sent, and returns them by name.
func (s *sender) sent(most int) map[string]*perkey.Item[string] {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := map[string]*perkey.Item[string]{}
	for it := s.lines.Next(most); it != nil; it = s.lines.Next(most) {
		s.lines.Launch(it, 1, time.Unix(0, 0))
		out[it.Out] = it
	}
	return out
}

func (s *sender) expect(got map[string]*perkey.Item[string], names ...string) {
	s.Helper()
	if len(got) != len(names) {
		s.Errorf("%d were sent, want %v", len(got), names)
	}
	for _, n := range names {
		if got[n] == nil {
			s.Errorf("%s was not sent", n)
		}
	}
}

func (s *sender) do(f func(ls *perkey.Lines[string])) {
	s.mu.Lock()
	defer s.mu.Unlock()
	f(s.lines)
}

func answered(p broker.Pending) bool {
	select {
	case <-p.Done():
		return true
	default:
		return false
	}
}

// One message of a key is sent at a time; messages of other keys and without a key are sent concurrently.
func TestSendsOneMessageOfAKey(t *testing.T) {
	s := newSender(t)
	p := s.publish(t.Context(), "a1", "a2", "b1", "-1", "-2")
	q := s.publish(t.Context(), "a3")
	first := s.sent(10)
	s.expect(first, "a1", "b1", "-1", "-2")
	s.do(func(ls *perkey.Lines[string]) {
		for _, n := range []string{"a1", "b1", "-1", "-2"} {
			ls.Land(first[n])
			ls.Done(first[n])
		}
	})
	second := s.sent(10)
	s.expect(second, "a2")
	if answered(p) {
		t.Error("answered before its last message was")
	}
	s.do(func(ls *perkey.Lines[string]) { ls.Land(second["a2"]); ls.Done(second["a2"]) })
	if !answered(p) || p.Wait(t.Context()) != nil || answered(q) {
		t.Error("two calls are answered each by its own messages")
	}
	s.expect(s.sent(10), "a3")
}

// A failed message holds back later ones of its key, in its call and in later calls, until its caller has
// the error.
func TestHoldsBackUntilItsCallerKnows(t *testing.T) {
	s := newSender(t)
	p := s.publish(t.Context(), "a1", "a2")
	q := s.publish(t.Context(), "a3", "b1")
	away := errors.New("no room")
	first := s.sent(10)
	s.expect(first, "a1", "b1")
	s.do(func(ls *perkey.Lines[string]) {
		ls.Down(first["a1"], perkey.Refused, away)
		ls.Land(first["b1"])
		ls.Done(first["b1"])
	})
	r := s.publish(t.Context(), "a4")
	s.expect(s.sent(10))
	var pe *broker.PublishError
	if err := p.Wait(t.Context()); !errors.As(err, &pe) || !errors.Is(pe.Refused[0], away) ||
		pe.Failed[1] == nil {
		t.Errorf("the first call: %v", err)
	}
	s.publish(t.Context(), "a5")
	s.expect(s.sent(10)) // the second call's caller does not have the error yet
	for what, c := range map[string]broker.Pending{"second": q, "third": r} {
		if err := c.Wait(t.Context()); !errors.As(err, &pe) || pe.Failed[0] == nil {
			t.Errorf("the %s call: %v", what, err)
		}
	}
	s.publish(t.Context(), "a6")
	if got := s.sent(10); got["a6"] != nil {
		t.Error("a message overtook one whose caller does not have the error") // a5's
	}
}

// A caller whose context ended releases its keys.
func TestCallerThatGaveUp(t *testing.T) {
	s := newSender(t)
	ctx, cancel := context.WithCancel(t.Context())
	s.publish(ctx, "a1")
	s.do(func(*perkey.Lines[string]) {})
	first := s.sent(10)
	s.do(func(ls *perkey.Lines[string]) { ls.Down(first["a1"], perkey.Failed, errors.New("no")) })
	cancel()
	for deadline := time.Now().Add(5 * time.Minute); ; {
		p := s.publish(t.Context(), "a2")
		if len(s.sent(10)) == 1 {
			break
		}
		_ = p.Wait(t.Context())
		if time.Now().After(deadline) {
			t.Fatal("the key stands still")
		}
	}
}

// A message without an answer until its deadline or End is an outage. A later answer has no effect.
func TestOutages(t *testing.T) {
	s := newSender(t)
	p, q := s.publish(t.Context(), "a1"), s.publish(t.Context(), "b1", "b2")
	first := s.sent(1)
	silent, token := errors.New("silent"), uint64(1)
	s.do(func(ls *perkey.Lines[string]) {
		if ls.Aloft(token) != first["a1"] {
			t.Error("the first token is not the first message's")
		}
		ls.Overdue(time.Unix(1, 0), func(*perkey.Item[string]) error { return silent })
		if ls.Aloft(token) != nil {
			t.Error("it flies, though its caller was told")
		}
		ls.Down(first["a1"], perkey.Failed, errors.New("late")) // has no effect
	})
	if err := p.Wait(t.Context()); !errors.Is(err, silent) {
		t.Error(err)
	}
	s.do(func(ls *perkey.Lines[string]) {
		if !ls.Shut() || ls.Shut() || !ls.Closed() {
			t.Error("it is shut once")
		}
		ls.End()
	})
	for what, c := range map[string]broker.Pending{"what waits": q,
		"what comes later": s.publish(t.Context(), "c1")} {
		if err := c.Wait(t.Context()); !errors.Is(err, broker.ErrClosed) {
			t.Errorf("%s: %v", what, err)
		}
	}
}

// First and Again put a message back at the front or the end.
func TestPutBack(t *testing.T) {
	s := newSender(t)
	s.publish(t.Context(), "a1", "b1")
	s.do(func(ls *perkey.Lines[string]) {
		ls.First(ls.Next(10))
		if it := ls.Next(10); it.Out != "a1" {
			t.Errorf("%s is first", it.Out)
		} else {
			ls.Launch(it, 1, time.Now())
			ls.Land(it)
			ls.SendLast(it)
		}
		if it := ls.Next(10); it.Out != "b1" {
			t.Errorf("%s comes before the others that wait", it.Out)
		}
	})
}
