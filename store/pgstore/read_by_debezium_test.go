package pgstore

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/skald-go/skald/internal/need"
	"github.com/skald-go/skald/store"
	"github.com/skald-go/skald/store/pgstore/internal/sqlexec"
	"github.com/skald-go/skald/store/pgstore/internal/wal"
)

// slotReader reads a slot, as Debezium does, and confirms places.
type slotReader struct {
	b    *bed
	conn *pgconn.PgConn
	s    *wal.Stream
	at   int64
}

func (b *bed) makeSlot(t testing.TB) {
	t.Helper()
	b.exec(t, `SELECT pg_create_logical_replication_slot($1, 'pgoutput')`, b.slot())
}

func (b *bed) dropSlot(t testing.TB) {
	t.Helper()
	eventually(t, "the slot can be dropped", func() bool {
		_, err := b.pool.Exec(context.Background(),
			`SELECT pg_drop_replication_slot(slot_name) FROM pg_replication_slots WHERE slot_name = $1`,
			b.slot())
		return err == nil
	})
}

func (b *bed) readsSlot(t testing.TB) *slotReader {
	t.Helper()
	config, err := pgconn.ParseConfig(b.url)
	if err != nil {
		t.Fatal(err)
	}
	config.RuntimeParams["replication"] = "database"
	r := &slotReader{b: b}
	if r.conn, err = pgconn.ConnectConfig(t.Context(), config); err != nil {
		t.Fatal(err)
	}
	hijacked, err := wal.StartStream(t.Context(), r.conn, b.slot())
	if err != nil {
		t.Fatal(err)
	}
	r.s = &wal.Stream{Conn: hijacked, At: func() int64 { return r.at }}
	t.Cleanup(r.leave)
	return r
}

func (r *slotReader) leave() { _ = r.s.Conn.Conn.Close() }

// confirm moves the slot to a place. It repeats the message, as Debezium does, because the server may be
// busy.
func (r *slotReader) confirm(t testing.TB, at int64) {
	t.Helper()
	r.at = at
	if err := r.s.Status(false); err != nil {
		t.Fatal(err)
	}
	stop, stopped := make(chan struct{}), make(chan struct{})
	defer func() { close(stop); <-stopped }()
	go func() {
		defer close(stopped)
		for tick := time.NewTicker(time.Second); ; {
			select {
			case <-tick.C:
				_ = r.s.Status(false)
			case <-stop:
				return
			}
		}
	}()
	r.b.until(t, "it is confirmed",
		`SELECT confirmed_flush_lsn >= '0/0'::pg_lsn + $2::bigint FROM pg_replication_slots WHERE slot_name = $1`, r.b.slot(), at)
}

// place returns a place of the WAL after all commits.
func (b *bed) place(t testing.TB) int64 {
	t.Helper()
	return one[int64](t, b, `SELECT pg_wal_lsn_diff(pg_current_wal_insert_lsn(), '0/0')::bigint`)
}

// readByBed is an outbox that another program reads.
type readByBed struct {
	*bed
	s    *Store
	r    *ReadBy
	base string
	old  int // a slot of the ring that Maintain may empty
}

func newReadByBed(t *testing.T, b *bed) *readByBed {
	t.Helper()
	b.exec(t, `CREATE PUBLICATION `+sqlexec.Quoted(b.slot())+
		` FOR TABLE {skald_outbox} WITH (publish = 'insert', publish_via_partition_root = true)`)
	b.makeSlot(t)
	t.Cleanup(func() {
		b.dropSlot(t)
		b.exec(t, `DROP PUBLICATION `+sqlexec.Quoted(b.slot()))
	})
	d := &readByBed{bed: b, s: b.store(t), old: b.oldSlot(t)}
	d.again(t)
	return d
}

// again starts again, as another process does.
func (d *readByBed) again(t *testing.T) {
	t.Helper()
	d.r = d.s.readBy(wal.FollowerOptions{Slot: d.slot(), Publication: d.slot(), Each: 1, CutEach: 1})
}

// look looks once and stores the progress, as a relay does. It returns true if the position moved.
func (d *readByBed) look(t *testing.T) bool {
	t.Helper()
	got, err := d.r.Lease(t.Context(), store.LeaseRequest{SnapshotBase: &d.base})
	if err != nil {
		t.Fatal(err)
	}
	if got.Tip == d.base {
		return false
	}
	d.base = got.Tip
	cover(t, d.s, d.base)
	return true
}

// moves looks until the position moves.
func (d *readByBed) moves(t *testing.T) {
	t.Helper()
	eventually(t, "the position moves", func() bool { return d.look(t) })
}

// cuts looks until a snapshot waits for the slot.
func (d *readByBed) cuts(t *testing.T) {
	t.Helper()
	eventually(t, "a snapshot is taken",
		func() bool { d.stays(t, ""); return d.newest(t) > asTick(t, d.base).ID })
}

// newest returns the number of the newest snapshot.
func (d *readByBed) newest(t *testing.T) int64 {
	t.Helper()
	return one[int64](t, d.bed, `SELECT coalesce(max(id), 0) FROM {skald_snapshot}`)
}

// passes writes a row, and lets the slot's reader confirm it when a snapshot waits for that.
func (d *readByBed) passes(t *testing.T, c *slotReader) {
	t.Helper()
	d.write(t)
	d.cuts(t)
	c.confirm(t, d.place(t))
}

// stays fails the test unless the position stays for that reason.
func (d *readByBed) stays(t *testing.T, why string) {
	t.Helper()
	if d.look(t) {
		t.Fatalf("the position moves, want it to stay: %s", why)
	}
	if why != "" {
		eventually(t, why, func() bool { d.stays(t, ""); return strings.Contains(d.r.Listening().Why, why) })
	}
}

func (d *readByBed) write(t *testing.T) { t.Helper(); d.exec(t, insertOld, d.old) }

// kept fails the test unless Maintain leaves n rows.
func (d *readByBed) kept(t *testing.T, n int) {
	t.Helper()
	did := maintain(t, d.s)
	if is := one[int](t, d.bed, `SELECT count(*) FROM {skald_outbox}`); is != n {
		t.Fatalf("%d rows are kept, want %d; %+v", is, n, did)
	}
}

// relay publishes all rows, as skald relay does.
func (d *readByBed) relay(t *testing.T) {
	t.Helper()
	f := newFollower(d.s)
	f.base = d.base
	if err := f.turn(t.Context(), 100); err != nil {
		t.Fatal(err)
	}
	d.base = f.base
	cover(t, d.s, d.base)
}

func (d *readByBed) doctor(t *testing.T, want string) {
	t.Helper()
	found, err := d.s.Examine(t.Context(), store.Exam{})
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range found {
		if f.Name == "read by" {
			if is := fmt.Sprint(f.Grade, " ", f.Observed); !strings.Contains(is, want) {
				t.Errorf("the finding is %s, want %s", is, want)
			}
			return
		}
	}
	t.Errorf("no finding, want %s", want)
}

// TestReadBy checks that the ring is emptied exactly up to the confirmed place of the slot.
func TestReadBy(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]func(*testing.T, *readByBed){
		"confirmed": readByConfirmed, "open": readByOpen, "before": readByBefore, "gone": readByGone,
		"anew":    readByAnew,
		"process": readByProcess, "publication": readByPublication, "columns": readByColumns,
		"relay": readByBesideRelay, "stands by": readByStandsBy, "late": readByLate,
		"half": readByHalf, "behind": readByBehind, "schema": readBySchema, "another": readByAnother,
		"restored": readByRestored, "rights": readByRights, "trusted": readByTrusted,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(t, newReadByBed(t, newBedAt(t, need.Postgres(t))))
		})
	}
}

func readByConfirmed(t *testing.T, d *readByBed) {
	c := d.readsSlot(t)
	d.stays(t, "")
	before := d.place(t)
	d.write(t)
	d.cuts(t)
	d.kept(t, 1)
	c.confirm(t, before)
	d.stays(t, "")
	d.kept(t, 1)
	c.confirm(t, d.place(t))
	d.moves(t)
	if why := d.r.Listening().Why; why != "" {
		t.Errorf("the reason is %q", why)
	}
	if n := one[int](t, d.bed, `SELECT pending FROM {skald_backlog}`); n != 0 {
		t.Errorf("%d rows are pending", n)
	}
	d.kept(t, 0)
	d.doctor(t, "positions follow slot")
}

// readByOpen checks that a row that commits after a snapshot is not part of it, although its number is
// smaller.
func readByOpen(t *testing.T, d *readByBed) {
	c := d.readsSlot(t)
	d.stays(t, "")
	d.write(t)
	c.confirm(t, d.place(t))
	d.cuts(t)
	c.confirm(t, d.place(t))
	d.moves(t)
	tx, err := d.pool.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := tx.Exec(t.Context(), d.q(insertOld), d.old); err != nil {
		t.Fatal(err)
	}
	d.write(t)
	d.cuts(t)
	if err := tx.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	c.confirm(t, d.place(t))
	d.moves(t)
	d.kept(t, 3)
	if n := one[int](t, d.bed, `SELECT pending FROM {skald_backlog}`); n != 1 {
		t.Errorf("%d rows are pending, want 1", n)
	}
	d.cuts(t)
	c.confirm(t, d.place(t))
	d.moves(t)
	d.kept(t, 0)
}

// readByBefore checks that rows from before the slot are not in its stream: a relay must publish them.
func readByBefore(t *testing.T, d *readByBed) {
	d.write(t)
	c := d.readsSlot(t)
	c.confirm(t, d.place(t))
	d.stays(t, "rows from before slot")
	d.kept(t, 1)
	d.relay(t)
	d.passes(t, c)
	d.moves(t)
	d.kept(t, 0)
}

func readByGone(t *testing.T, d *readByBed) {
	c := d.readsSlot(t)
	d.stays(t, "")
	d.passes(t, c)
	d.moves(t)
	d.write(t)
	d.cuts(t)
	c.leave()
	d.dropSlot(t)
	d.stays(t, "there is no slot")
	d.doctor(t, "failed there is no slot")
	d.makeSlot(t) // it does not have earlier rows
	c = d.readsSlot(t)
	c.confirm(t, d.place(t))
	d.stays(t, "rows from before slot")
	d.kept(t, 2)
	d.doctor(t, "warning there are rows above the position")
	d.relay(t)
	d.passes(t, c)
	d.moves(t)
	d.kept(t, 0)
}

// readByAnew checks that a slot of the same name, created between two looks, counts as another one.
func readByAnew(t *testing.T, d *readByBed) {
	c := d.readsSlot(t)
	d.stays(t, "")
	d.write(t)
	d.cuts(t)
	c.leave()
	d.dropSlot(t)
	d.makeSlot(t)
	c = d.readsSlot(t)
	c.confirm(t, d.place(t))
	d.stays(t, "rows from before slot")
	d.kept(t, 1)
}

// readByProcess checks that another process continues from the position, by the data stored with it, while
// the slot's reader is the same.
func readByProcess(t *testing.T, d *readByBed) {
	c := d.readsSlot(t)
	d.stays(t, "")
	d.passes(t, c)
	d.moves(t)
	d.write(t)
	d.again(t)
	d.cuts(t)
	d.kept(t, 2)
	c.confirm(t, d.place(t))
	d.moves(t)
	d.kept(t, 0)
	d.write(t)
	c.leave()
	d.dropSlot(t)
	d.makeSlot(t)
	d.readsSlot(t).confirm(t, d.place(t))
	d.again(t)
	d.stays(t, "rows from before slot")
	d.kept(t, 1)
}

// readByPublication checks a publication that lacked the outbox for a while, and may have missed rows.
func readByPublication(t *testing.T, d *readByBed) {
	c := d.readsSlot(t)
	d.stays(t, "")
	d.exec(t, `ALTER PUBLICATION `+sqlexec.Quoted(d.slot())+` DROP TABLE {skald_outbox}`)
	d.write(t)
	d.stays(t, "does not have all rows")
	d.exec(t, `ALTER PUBLICATION `+sqlexec.Quoted(d.slot())+` ADD TABLE {skald_outbox}`)
	c.confirm(t, d.place(t))
	d.stays(t, "rows from before slot")
	d.kept(t, 1)
}

// readByColumns checks a publication with a list of columns. A connector reads the others as NULL, so rows
// published so do not count as published. A list with all columns that are read is as good as none.
func readByColumns(t *testing.T, d *readByBed) {
	const read = "id, source, type, time, key, seq, content_type, subject, schema, correlation_id, causation_id, traceparent, headers"
	set := func(columns string) {
		t.Helper()
		d.exec(t, `ALTER PUBLICATION `+sqlexec.Quoted(d.slot())+` SET TABLE {skald_outbox} (`+columns+`)`)
	}
	set("topic, data_bytes, " + read)
	c := d.readsSlot(t)
	d.stays(t, "")
	d.passes(t, c)
	d.moves(t)
	d.kept(t, 0)
	set("topic, data, " + strings.ReplaceAll(strings.ReplaceAll(read, "subject, ", ""), ", headers", ""))
	d.write(t)
	d.stays(t, "leaves out the columns subject, headers")
	c.confirm(t, d.place(t))
	d.stays(t, "leaves out the columns")
	set("topic, " + read)
	d.stays(t, "leaves out the columns data")
	d.kept(t, 1)
}

// readBySchema checks the same for a publication of the schema that lacked it for a while.
func readBySchema(t *testing.T, d *readByBed) {
	name := sqlexec.Quoted(d.slot())
	d.exec(t, `ALTER PUBLICATION `+name+` SET TABLES IN SCHEMA `+sqlexec.Quoted(d.schema))
	c := d.readsSlot(t)
	d.stays(t, "")
	d.exec(t, `ALTER PUBLICATION `+name+` DROP TABLES IN SCHEMA `+sqlexec.Quoted(d.schema))
	d.write(t)
	d.exec(t, `ALTER PUBLICATION `+name+` ADD TABLES IN SCHEMA `+sqlexec.Quoted(d.schema))
	c.confirm(t, d.place(t))
	d.stays(t, "rows from before slot")
	d.kept(t, 1)
}

// readByAnother checks a connector that uses another publication, and one that sends the rows of the ring's
// slots, which a connector of the outbox does not read.
func readByAnother(t *testing.T, d *readByBed) {
	d.exec(t, `CREATE PUBLICATION `+sqlexec.Quoted(d.slot()+"_2")+
		` FOR TABLE {skald_outbox} WITH (publish_via_partition_root = true)`)
	t.Cleanup(func() { d.exec(t, `DROP PUBLICATION `+sqlexec.Quoted(d.slot()+"_2")) })
	var err error
	if d.r, err = d.s.ReadBy(&ReadByOptions{Slot: d.slot(), Publication: d.slot() + "_2"}); err != nil {
		t.Fatal(err)
	}
	d.readsSlot(t)
	d.stays(t, "is read by publication")
	d.exec(t, `ALTER PUBLICATION `+sqlexec.Quoted(d.slot()+"_2")+` SET (publish_via_partition_root = false)`)
	d.stays(t, "as rows of skald_outbox")
}

// readByRestored checks a database that went back in time, whose slot is confirmed after the end of the
// WAL: Debezium sends its earlier position, and does not read rows up to there.
func readByRestored(t *testing.T, d *readByBed) {
	c := d.readsSlot(t)
	d.stays(t, "")
	d.write(t)
	c.confirm(t, d.place(t)+1<<26)
	d.stays(t, "restored")
	for d.place(t) < c.at {
		d.exec(t,
			`SELECT pg_logical_emit_message(true, 'x', repeat('x', 1000000)) FROM generate_series(1, 8)`)
	}
	d.stays(t, "rows from before slot")
	d.kept(t, 1)
}

// readByRights checks a relay's role without pg_read_all_stats: it cannot see the slot's reader, but has
// all other rights that it needs.
func readByRights(t *testing.T, d *readByBed) {
	d.readsSlot(t)
	name := d.role(t, "relay")
	own := d.s
	d.s = d.storeAs(t, name)
	d.again(t)
	d.stays(t, "GRANT pg_read_all_stats")
	d.exec(t, `GRANT pg_read_all_stats TO `+sqlexec.Quoted(name))
	eventually(t, "it follows", func() bool { d.stays(t, ""); return d.r.Listening().Why == "" })
	d.s = own
}

// readByTrusted checks Trust: it applies to the rows that exist then, and no others.
func readByTrusted(t *testing.T, d *readByBed) {
	c := d.readsSlot(t)
	d.write(t)
	d.stays(t, "begin once with --trust-slot")
	var err error
	if d.r, err = d.s.ReadBy(&ReadByOptions{Slot: d.slot(), Publication: d.slot(), Trust: true}); err != nil {
		t.Fatal(err)
	}
	d.cuts(t)
	d.kept(t, 1)
	c.confirm(t, d.place(t))
	d.moves(t)
	d.kept(t, 0)
	c.leave()
	d.dropSlot(t)
	d.stays(t, "there is no slot")
	d.write(t)
	d.makeSlot(t)
	d.readsSlot(t).confirm(t, d.place(t))
	d.stays(t, "rows from before slot")
	d.kept(t, 1)
}

// readByStandsBy checks that next to a relay it reports whether the relay may end: not before the rows
// older than the slot are published.
func readByStandsBy(t *testing.T, d *readByBed) {
	lease := func(s store.Source, owner string, leave bool) {
		t.Helper()
		if _, err := s.Lease(t.Context(), store.LeaseRequest{Owner: owner, Session: "1", TTL: time.Hour,
			Leave: leave}); err != nil {
			t.Fatal(err)
		}
	}
	d.write(t)
	c := d.readsSlot(t)
	lease(d.s, "a", false)
	eventually(t, "the reason is reported", func() bool {
		lease(d.r, "reads", false)
		return strings.Contains(d.r.Listening().Why, "rows from before slot")
	})
	d.relay(t)
	eventually(t, "it follows", func() bool { lease(d.r, "reads", false); return d.r.Listening().Why == "" })
	d.write(t) // neither the relay nor an earlier look has seen it
	lease(d.s, "a", true)
	d.cuts(t)
	d.kept(t, 2)
	c.confirm(t, d.place(t))
	d.moves(t)
	d.kept(t, 0)
}

// readByLate checks a reader that confirms late: the position moves to the newest confirmed snapshot.
func readByLate(t *testing.T, d *readByBed) {
	c := d.readsSlot(t)
	d.stays(t, "")
	for range 48 { // more than it keeps
		d.write(t)
		n := d.newest(t)
		eventually(t, "a snapshot is taken", func() bool { d.stays(t, ""); return d.newest(t) > n })
	}
	c.confirm(t, d.place(t))
	d.moves(t)
	d.kept(t, 0)
}

// readByHalf checks windows that a killed relay left partly published: their rows are not in the slot.
func readByHalf(t *testing.T, d *readByBed) {
	d.write(t)
	tip, err := store.Snapshot(t.Context(), d.s, "")
	if err != nil {
		t.Fatal(err)
	}
	d.exec(t, `UPDATE {skald_shard} SET tip = $1, seq = 0`, tip)
	d.readsSlot(t).confirm(t, d.place(t))
	got, err := d.r.Lease(t.Context(), store.LeaseRequest{Owner: "reads", Session: "1", TTL: time.Hour})
	if err != nil || len(got.Shards) == 0 {
		t.Fatal(err, len(got.Shards))
	}
	for _, l := range got.Shards {
		if l.Cursor.Tip != l.Cursor.Base {
			t.Fatalf("a window is open: %+v", l.Cursor)
		}
	}
	d.stays(t, "rows from before slot")
	d.kept(t, 1)
}

// readByBehind checks that all positions move together: one that is behind blocks the others.
func readByBehind(t *testing.T, d *readByBed) {
	d.write(t)
	d.relay(t)
	d.exec(t, `UPDATE {skald_shard} SET base = '' WHERE id = 3`)
	c := d.readsSlot(t)
	d.write(t)
	c.confirm(t, d.place(t))
	d.stays(t, "rows from before slot")
	d.kept(t, 2)
}

// readByBesideRelay checks that it owns no shard while a relay publishes.
func readByBesideRelay(t *testing.T, d *readByBed) {
	ask := func(s interface {
		Lease(context.Context, store.LeaseRequest) (store.Leased, error)
	}, owner string) int {
		t.Helper()
		got, err := s.Lease(t.Context(), store.LeaseRequest{Owner: owner, Session: owner, TTL: time.Hour})
		if err != nil {
			t.Fatal(err)
		}
		return min(len(got.Shards), got.Share)
	}
	if n := ask(d.r, "reads"); n != 16 {
		t.Errorf("alone it holds %d shards", n)
	}
	ask(d.s, "relay")
	if n := ask(d.r, "reads"); n != 0 {
		t.Errorf("with another relay it holds %d shards", n)
	}
}
