package place_test

import (
	"errors"
	"fmt"
	"io"
	"net"
	"testing"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/skald-go/skald"
	"github.com/skald-go/skald/broker"
	"github.com/skald-go/skald/examples/shop/place"
	"github.com/skald-go/skald/store/pgstore"
)

// A service waits for servers that start, stop or are out of reach, and for nothing else.
func TestAway(t *testing.T) {
	code := func(c string) error { return &pgconn.PgError{Severity: "FATAL", Code: c} }
	for _, away := range []error{broker.ErrUnavailable, io.ErrUnexpectedEOF,
		&net.OpError{Op: "dial", Err: errors.New("refused")},
		code("57P03"), code("57P01"), code("40P01"), &pgstore.BusyError{Table: "a table"},
		skald.Outage(errors.New("503"))} {
		if !place.Away(fmt.Errorf("try: %w", away)) {
			t.Errorf("%v ends the service", away)
		}
	}
	for _, other := range []error{nil, code("28P01"), code("3D000"), code("42P01"), broker.ErrNoTopic,
		errors.New("other")} {
		if place.Away(other) {
			t.Errorf("the service waits for %v", other)
		}
	}
}
