package place_test

import (
	"errors"
	"fmt"
	"io"
	"net"
	"testing"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/skald-go/skald/broker"
	"github.com/skald-go/skald/examples/shop/place"
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
		{broker.ErrAway, true, place.ExitUnreachable},
		{io.ErrUnexpectedEOF, true, place.ExitUnreachable},
		{&net.OpError{Op: "dial", Err: errors.New("refused")}, true, place.ExitUnreachable},
		{code("57P03"), true, place.ExitUnreachable},                  // it starts
		{code("57P01"), true, place.ExitUnreachable},                  // it stops
		{code("40P01"), true, place.ExitOther},                        // a deadlock of two services that prepare
		{&pgstore.BusyError{Table: "a table"}, true, place.ExitOther}, // a migration beside open transactions
		{code("28P01"), false, place.ExitRight},
		{code("3D000"), false, place.ExitNone},
		{code("42P01"), false, place.ExitState},
		{broker.ErrNoTopic, false, place.ExitNone},
		{&place.PartlyError{What: "2 of 3"}, false, place.ExitPartly},
		{&store.RetentionError{What: "marks"}, false, place.ExitUsage},
		{kerr.SaslAuthenticationFailed, false, place.ExitRight},
		{kerr.TopicAuthorizationFailed, false, place.ExitRight},
		{errors.New("other"), false, place.ExitOther},
	} {
		err := c.err
		if err != nil {
			err = fmt.Errorf("try: %w", err)
		}
		if place.Away(err) != c.away || place.ExitCode(err) != c.code {
			t.Errorf("%v: away %v, exit %d, want %d", err, place.Away(err), place.ExitCode(err), c.code)
		}
	}
}
