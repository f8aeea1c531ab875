package kafkabroker_test

import (
	"context"
	"errors"
	"net"
	"testing"
	"time"

	"github.com/skald-go/skald/broker"
	"github.com/skald-go/skald/broker/kafkabroker"
)

// TestRequestBehindASilentConnectionEnds checks that a request ends with its context, although an earlier
// request waits for the same connection. Otherwise a probe does not notice an outage.
func TestRequestBehindASilentConnectionEnds(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	accepted := make(chan net.Conn, 100)
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			accepted <- c // never answered
		}
	}()
	b, err := kafkabroker.New(l.Addr().String(), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	long, stop := context.WithCancel(t.Context())
	defer stop()
	go func() { _, _ = b.Incarnation(long) }()
	<-accepted
	for name, call := range map[string]func(ctx context.Context) error{
		"Incarnation": func(ctx context.Context) error { _, err := b.Incarnation(ctx); return err },
		"Topics":      func(ctx context.Context) error { _, err := b.Topics(ctx, "t"); return err },
		"Lag":         func(ctx context.Context) error { _, err := b.Lag(ctx, "g", "t"); return err },
		"MakeTopics":  func(ctx context.Context) error { return b.MakeTopics(ctx, 1, "t") },
	} {
		ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		begun := time.Now()
		err := call(ctx)
		cancel()
		if !errors.Is(err, broker.ErrUnavailable) {
			t.Errorf("%s returned %v", name, err)
		}
		if took := time.Since(begun); took > 4*time.Second { // franz-go waits for 10 s
			t.Errorf("%s took %v", name, took)
		}
	}
}
