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

// PgBouncer has one code for all that it refuses: it is told apart all the same, and a relay does not wait
// for it to pass.
func TestWhatPgBouncerRefuses(t *testing.T) {
	t.Parallel()
	at, bus := need.PgBouncer(t), "kafka://127.0.0.1:1"
	for name, c := range map[string]struct {
		change func(u *url.URL)
		code   int
		said   string
	}{
		"no database": {func(u *url.URL) { u.Path = "/nowhere" }, 4, "createdb"},
		"no user": {func(u *url.URL) { u.User = url.UserPassword("nobody_there", "s3cr3t") }, 3,
			"PGPASSWORD"},
		"a schema of the connection": {func(u *url.URL) {
			q := u.Query()
			q.Set("search_path", "x")
			u.RawQuery = q.Encode()
		}, 1, "ignore_startup_parameters"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			u, err := url.Parse(at)
			if err != nil {
				t.Fatal(err)
			}
			c.change(u)
			start(t, nil, "migrate", "--store", u.String()).expect(c.code, c.said)
			start(t, nil, "relay", "--store", u.String(), "--broker", bus).expect(c.code, c.said)
		})
	}
}
