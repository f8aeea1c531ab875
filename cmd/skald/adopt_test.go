package main_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/skald-go/skald"
	"github.com/skald-go/skald/internal/uuid7"
	"github.com/skald-go/skald/store"
	"github.com/skald-go/skald/store/pgstore"
)

// adoption is the SQL of a section of docs/adopt.md, in order.
func adoption(t *testing.T, title string, pieces int) []string {
	t.Helper()
	text, err := os.ReadFile("../../docs/adopt.md")
	if err != nil {
		t.Fatal(err)
	}
	_, section, _ := strings.Cut(string(text), "## "+title+"\n")
	section, _, _ = strings.Cut(section, "\n## ")
	var all []string
	for _, m := range regexp.MustCompile("(?s)```sql\n(.*?)```").FindAllStringSubmatch(section, -1) {
		all = append(all, m[1])
	}
	if len(all) != pieces {
		t.Fatalf("the section has %d pieces of SQL", len(all))
	}
	return all
}

// found is what the pattern's group finds in docs/adopt.md.
func found(t *testing.T, pattern string) string {
	t.Helper()
	text, err := os.ReadFile("../../docs/adopt.md")
	if err != nil {
		t.Fatal(err)
	}
	m := regexp.MustCompile(pattern).FindSubmatch(text)
	if m == nil {
		t.Fatalf("docs/adopt.md has no %s", pattern)
	}
	return string(m[1])
}

// An outbox table of one's own is moved to Skald and back, with a writer in the middle of a transaction each
// time: nothing is lost, nothing is said twice, and each key keeps its order.
func TestAdoptOutboxTable(t *testing.T) {
	t.Parallel()
	steps := adoption(t, "I have an outbox table", 4)
	at, conn := postgres(t)
	do(t, conn, steps[0])
	n := 0
	write := func(db interface {
		Exec(context.Context, string, ...any) error
	}, keys ...string) {
		t.Helper()
		for _, key := range keys {
			n++
			if err := db.Exec(t.Context(),
				"INSERT INTO outbox (order_id, event_type, payload) VALUES ($1, 'placed', jsonb_build_object('n', $2::int))", key, n); err != nil {
				t.Fatal(err)
			}
		}
	}
	write(plain{conn}, "a", "b", "a")
	do(t, conn, "UPDATE outbox SET sent_at = now() WHERE id = 1") // by the poller
	start(t, []string{"SKALD_STORE=" + at}, "migrate", "--source", "/old").expect(0)
	during(t, at, conn, steps[1], func(tx plain) { write(tx, "b") })
	write(plain{conn}, "a", "c")
	// above Skald's limit, not above the table's: the business must not notice
	large := strings.Repeat("k", 2000)
	do(t, conn, "INSERT INTO outbox (order_id, event_type, payload, sent_at) VALUES ('"+large+
		"', 'placed', '{}', now())")
	during(t, at, conn, steps[2], func(tx plain) { write(tx, "b") })
	write(plain{conn}, "b", "a")
	// as many ORMs write it
	do(t, conn,
		`INSERT INTO outbox (order_id, event_type, payload, sent_at) VALUES ('c', 'placed', '{"n": 0}', NULL)`)
	if _, err := conn.Exec(t.Context(),
		"INSERT INTO outbox (order_id, event_type, payload) VALUES ($1, 'placed', '{}')", large); err == nil {
		t.Error("nobody would send it, and nobody says so")
	}
	if left := count(conn, "SELECT count(*) FROM outbox WHERE sent_at IS NULL"); left != 0 {
		t.Errorf("%d rows are left for the poller", left)
	}
	got := carried(t, at, "orders", "placed", 9)
	if want := []string{"a 3 5 9", "b 2 4 7 8", "c 6 0"}; !slices.Equal(perKey(got), want) {
		t.Errorf("published are %q, want %q", perKey(got), want)
	}
	if got := perKey(carried(t, at, "shadow.orders", "placed", 3)); !slices.Equal(got,
		[]string{"a 5", "b 7", "c 6"}) {
		t.Errorf("beside are %q", got)
	}
	write(plain{conn}, "a", "b")
	// by a writer that has moved
	do(t, conn,
		`INSERT INTO skald_outbox (topic, key, type, data) VALUES ('orders', 'd', 'placed', '{"n": 100}')`)
	numbers := count(conn, "SELECT max(id) FROM outbox")
	during(t, at, conn, steps[3], func(tx plain) { write(tx, "a") })
	write(plain{conn}, "a")
	var back []string
	rows, err := conn.Query(t.Context(),
		"SELECT order_id || ' ' || (payload ->> 'n') FROM outbox WHERE sent_at IS NULL ORDER BY id")
	if err == nil {
		back, err = pgx.CollectRows(rows, pgx.RowTo[string])
	}
	if want := []string{"a 10", "b 11", "a 12", "d 100", "a 13"}; err != nil || !slices.Equal(back, want) {
		t.Errorf("back are %q, %v, want %q", back, err, want)
	}
	if n := count(conn, "SELECT count(*) FROM outbox WHERE sent_at IS NULL AND id <= "+
		fmt.Sprint(numbers)); n != 2 {
		t.Errorf("%d rows have their numbers again, want 2: a consumer knows a repeat by it", n)
	}
	if n := count(conn, "SELECT count(*) FROM skald_outbox_pending"); n != 0 {
		t.Errorf("%d rows would be sent by a relay, too", n)
	}
}

// A table of finished messages is imported, so that what is in it counts as done, and filled again from the
// marks.
func TestAdoptFinishedMessages(t *testing.T) {
	t.Parallel()
	steps := adoption(t, "I have consumers with a table of finished messages", 2)
	at, conn := postgres(t)
	do(t, conn, steps[0])
	start(t, []string{"SKALD_STORE=" + at}, "migrate").expect(0)
	const timed = "01890a5d-ac96-774b-bcce-b302099a8057"
	do(t, conn, "INSERT INTO processed_messages (message_id) VALUES ('7'), ('"+timed+"'), ('m-''8')")
	known := filepath.Join(t.TempDir(), "known.csv")
	file, err := os.Create(known)
	if err != nil {
		t.Fatal(err)
	}
	_, err = conn.PgConn().CopyTo(t.Context(), file, found(t, `(COPY \(SELECT message_id .*\))"`))
	if err = errors.Join(err, file.Close()); err != nil {
		t.Fatal(err)
	}
	for _, line := range []string{found(t, `skald (consumer import .* --dry-run)`),
		found(t, `skald (consumer import .* --yes)`), found(t, `skald (consumer import .* --yes)`)} {
		args := strings.Fields(strings.NewReplacer("URL", at, "known.csv", known, `"`, "").Replace(line))
		start(t, nil, args...).expect(0)
	}
	if n := count(conn,
		"SELECT count(*) FROM skald_keys WHERE consumer = 'stock' AND source = '/orders' AND status = 'done' AND fingerprint IS NULL"); n != 3 {
		t.Errorf("%d marks", n)
	}
	pool, err := pgxpool.New(t.Context(), at)
	if err != nil {
		t.Fatal(err)
	}
	defer pool.Close()
	db := pgstore.New(pool, nil)
	seen, err := db.Seen(t.Context(), "stock", []store.Identity{{Source: "/orders", ID: "7"},
		{Source: "/orders", ID: timed}, {Source: "/orders", ID: "9"}})
	if err != nil || seen[0].Outcome != store.Done || seen[1].Outcome != store.Done ||
		seen[2].Outcome != store.Fresh {
		t.Errorf("%+v, %v", seen, err)
	}
	done := store.Effect{Mark: &store.Mark{Consumer: "stock",
		Identity: store.Identity{Source: "/orders", ID: uuid7.New(time.Now())}, Outcome: store.Done}}
	if stands, err := db.Apply(t.Context(), done); err != nil || !stands[0] {
		t.Fatal(stands, err)
	}
	do(t, conn, "DELETE FROM processed_messages WHERE message_id = '7'")
	do(t, conn, steps[1])
	if n := count(conn, "SELECT count(*) FROM processed_messages"); n != 4 {
		t.Errorf("%d messages are in the table behind the way back", n)
	}
}

// plain is a connection or a transaction.
type plain struct{ db *pgx.Conn }

func (p plain) Exec(ctx context.Context, sql string, args ...any) error {
	_, err := p.db.Exec(ctx, sql, args...)
	return err
}

// during runs sql while a writer is in the middle of its transaction, which ends when sql waits for it.
func during(t *testing.T, at string, conn *pgx.Conn, sql string, write func(plain)) {
	t.Helper()
	writer, err := pgx.Connect(t.Context(), at)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = writer.Close(context.Background()) }()
	do(t, writer, "BEGIN")
	write(plain{writer})
	look, err := pgx.Connect(t.Context(), at)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = look.Close(context.Background()) }()
	ended := make(chan error, 1)
	go func() {
		_, err := conn.Exec(context.Background(), sql, pgx.QueryExecModeSimpleProtocol)
		ended <- err
	}()
	for end := time.Now().Add(5 * time.Minute); count(look,
		"SELECT count(*) FROM pg_locks WHERE NOT granted AND relation = 'outbox'::regclass") == 0; time.Sleep(
		5 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("it does not wait for the writer")
		}
	}
	do(t, writer, "COMMIT")
	if err := <-ended; err != nil {
		t.Fatal(err)
	}
}

// perKey has the numbers of each key in the order in which they were handled.
func perKey(ms []skald.Message) []string {
	by := map[string]string{}
	for _, m := range ms {
		var n int
		if _, err := fmt.Sscanf(string(m.Data), `{"n": %d}`, &n); err != nil {
			return []string{err.Error() + ": " + string(m.Data)}
		}
		by[string(m.Key)] += fmt.Sprintf(" %d", n)
	}
	var out []string
	for key, numbers := range by {
		out = append(out, key+numbers)
	}
	slices.Sort(out)
	return out
}
