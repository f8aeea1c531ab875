package vitals

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"testing"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/skald-go/skald/broker"
)

// TestLevelOfRetriedErrors checks that an error that only other settings cure is an ERROR, and one that may
// pass a WARN.
func TestLevelOfRetriedErrors(t *testing.T) {
	code := func(code, text string) error {
		return fmt.Errorf("check: %w", &pgconn.PgError{Code: code, Message: text})
	}
	for _, c := range []struct {
		err  error
		want slog.Level
	}{
		{code("28P01", "password authentication failed"), slog.LevelError},
		{code("28000", "no pg_hba.conf entry"), slog.LevelError},
		{code("3D000", `database "x" does not exist`), slog.LevelError},
		{code("42501", "permission denied"), slog.LevelError},
		{code("08P01", "no such database: x"), slog.LevelError},
		{code("08P01", "server_login_retry"), slog.LevelWarn},
		{code("57P01", "terminating connection"), slog.LevelWarn},
		{io.EOF, slog.LevelWarn},
		{&net.OpError{Op: "dial", Err: io.EOF}, slog.LevelWarn},
	} {
		if got := Level(c.err); got != c.want {
			t.Errorf("%v: %v", c.err, got)
		}
	}
	for _, c := range []struct {
		err  error
		want slog.Level
	}{
		{fmt.Errorf("subscribe: %w", &broker.OwnerError{Group: "mail"}), slog.LevelError},
		{errors.New("stream orders has MaxAge 1h: skald cannot keep its promises on it"), slog.LevelError},
		{fmt.Errorf("%w: refused", broker.ErrUnavailable), slog.LevelWarn},
		{fmt.Errorf("subscribe: %w", broker.ErrNoTopic), slog.LevelWarn},
		{context.DeadlineExceeded, slog.LevelWarn},
		{&net.OpError{Op: "dial", Err: io.EOF}, slog.LevelWarn},
	} {
		if got := BrokerLevel(c.err); got != c.want {
			t.Errorf("%v: %v", c.err, got)
		}
	}
}
