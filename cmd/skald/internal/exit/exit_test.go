package exit_test

import (
	"errors"
	"fmt"
	"io"
	"net"
	"testing"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/skald-go/skald/broker"
	"github.com/skald-go/skald/cmd/skald/internal/exit"
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
		{broker.ErrAway, true, exit.Unreachable},
		{io.ErrUnexpectedEOF, true, exit.Unreachable},
		{&net.OpError{Op: "dial", Err: errors.New("refused")}, true, exit.Unreachable},
		{code("57P03"), true, exit.Unreachable},                  // it starts
		{code("57P01"), true, exit.Unreachable},                  // it stops
		{code("40P01"), true, exit.Other},                        // a deadlock of two services that prepare
		{&pgstore.BusyError{Table: "a table"}, true, exit.Other}, // a migration beside open transactions
		{code("28P01"), false, exit.Right},
		{code("3D000"), false, exit.None},
		{code("42P01"), false, exit.State},
		{broker.ErrNoTopic, false, exit.None},
		{&exit.PartlyError{What: "2 of 3"}, false, exit.Partly},
		{&store.RetentionError{What: "marks"}, false, exit.Usage},
		{kerr.SaslAuthenticationFailed, false, exit.Right},
		{kerr.TopicAuthorizationFailed, false, exit.Right},
		{errors.New("other"), false, exit.Other},
	} {
		err := c.err
		if err != nil {
			err = fmt.Errorf("try: %w", err)
		}
		if exit.Away(err) != c.away || exit.Code(err) != c.code {
			t.Errorf("%v: away %v, exit %d, want %d", err, exit.Away(err), exit.Code(err), c.code)
		}
	}
}
