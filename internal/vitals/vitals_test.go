package vitals

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/skald-go/skald/broker"
	"github.com/skald-go/skald/store"
)

func TestWhyIsOneLineWithTheCauseFirst(t *testing.T) {
	gone := &pgconn.PgError{Severity: "FATAL", Message: `database "x" does not exist`, Code: "3D000"}
	refused := &net.OpError{Op: "dial", Net: "tcp", Err: syscall.ECONNREFUSED,
		Addr: &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 1}}
	for want, err := range map[string]error{
		`FATAL: database "x" does not exist (SQLSTATE 3D000) [check: connect:; `: fmt.Errorf(
			"check: connect:\n\t%w", errors.Join(refused, gone)),
		"dial tcp 127.0.0.1:1: connection refused [claim]": fmt.Errorf("claim: %w", refused),
		"dial tcp 127.0.0.1:1: connection refused [receive: " +
			broker.ErrUnavailable.Error() + "]": fmt.Errorf(
			"receive: %w: %w", broker.ErrUnavailable, refused),
		"ask: context deadline exceeded": fmt.Errorf("ask: %w", context.DeadlineExceeded),
		"short":                          errors.New("short"),
		`group "stock" belongs to two`: fmt.Errorf("subscribe stock: subscribe: %w",
			&broker.OwnerError{Group: "stock", OwnerName: "two", Owner: "2"}),
		"": nil,
	} {
		got := Why(err)
		if !strings.HasPrefix(got, want) || want == "" && got != "" || strings.ContainsAny(got, "\n\t") {
			t.Errorf("%q, want %q", got, want)
		}
	}
	if got := Why(errors.New(strings.Repeat("long ", 1000))); len(got) > mostWhy {
		t.Errorf("%d bytes", len(got))
	}
}

// TestServerThatGivesNoSignIsAsked checks that a server that answers is probed at most once per window. One
// miss may be chance; two are an outage until the server answers.
func TestServerThatGivesNoSignIsAsked(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var asked, fails atomic.Int64
		s := New("the broker", slog.New(slog.DiscardHandler), time.Now, func(ctx context.Context) error {
			if asked.Add(1); fails.Load() == 0 {
				return nil
			}
			if fails.Add(-1)%2 == 0 {
				<-ctx.Done() // swallowed
				return ctx.Err()
			}
			return errors.New("refused")
		})
		ctx, stop := context.WithCancel(t.Context())
		go s.Watch(ctx)
		away := func() bool { why, _ := s.Away(); return why != "" }
		time.Sleep(time.Minute)
		if n := asked.Load(); n > 7 || n < 6 || away() {
			t.Errorf("asked %d times in a minute, away %v", n, away())
		}
		for range 20 { // it answers other calls
			s.Answered()
			time.Sleep(quiet / 2)
		}
		if n := asked.Load(); n > 7 {
			t.Errorf("asked %d times, though it answers", n)
		}
		fails.Store(1)
		time.Sleep(2 * quiet)
		if fails.Load() != 0 || away() {
			t.Errorf("one miss: away %v", away())
		}
		fails.Store(1e6)
		time.Sleep(quiet + 2*store.ProbeWait + time.Second)
		if why, _ := s.Away(); !strings.Contains(why, "the broker has not answered since") {
			t.Errorf("it is away: %q", why)
		}
		fails.Store(0)
		time.Sleep(3 * store.ProbeWait) // one is in progress, and the next waits for up to 3 s
		if away() {
			t.Error("it answers again")
		}
		stop()
	})
}
