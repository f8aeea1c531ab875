package main_test

import (
	"net/url"
	"testing"

	"github.com/skald-go/skald/internal/need"
)

func TestRelayThroughPgBouncerToKafka(t *testing.T) {
	t.Parallel()
	pooler, err := url.Parse(need.PgBouncer(t))
	if err != nil {
		t.Fatal(err)
	}
	_, conn := postgres(t)
	pooler.Path = "/" + conn.Config().Database
	relayToKafka(t, pooler.String(), conn)
}
