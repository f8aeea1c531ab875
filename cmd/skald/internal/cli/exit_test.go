package cli

import (
	"errors"
	"fmt"
	"io"
	"net"
	"testing"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/skald-go/skald/broker"
	"github.com/skald-go/skald/store"
	"github.com/skald-go/skald/store/pgstore"
)

// TestAway: a service waits for servers that start, stop or are out of reach, and for nothing else.
func TestAway(t *testing.T) {
	code := func(c string) error { return &pgconn.PgError{Severity: "FATAL", Code: c} }
	for _, c := range []struct {
		err  error
		away bool
		code int
	}{
		{nil, false, 0},
		{broker.ErrUnavailable, true, unreachable},
		{io.ErrUnexpectedEOF, true, unreachable},
		{&net.OpError{Op: "dial", Err: errors.New("refused")}, true, unreachable},
		{code("57P03"), true, unreachable},                  // it starts
		{code("57P01"), true, unreachable},                  // it stops
		{code("40P01"), true, other},                        // a deadlock of two services that prepare
		{&pgstore.BusyError{Table: "a table"}, true, other}, // a migration beside open transactions
		{code("28P01"), false, exitRight},
		{code("3D000"), false, exitNone},
		{code("42P01"), false, exitState},
		{broker.ErrNoTopic, false, exitNone},
		{&partlyError{What: "2 of 3"}, false, exitPartly},
		{&store.RetentionError{What: "marks"}, false, exitUsage},
		{kerr.SaslAuthenticationFailed, false, exitRight},
		{kerr.TopicAuthorizationFailed, false, exitRight},
		{errors.New("other"), false, other},
	} {
		err := c.err
		if err != nil {
			err = fmt.Errorf("try: %w", err)
		}
		if Away(err) != c.away || Code(err) != c.code {
			t.Errorf("%v: away %v, exit %d, want %d", err, Away(err), Code(err), c.code)
		}
	}
}

// Attempts to connect that fail in the same way are one.
func TestOneLine(t *testing.T) {
	err := errors.New("failed to connect:\n\ta: refused\n\ta: refused\n\tb: refused")
	if got := OneLine(err); got != "failed to connect: a: refused; b: refused" {
		t.Error(got)
	}
}
