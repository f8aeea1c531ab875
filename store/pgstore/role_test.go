package pgstore

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/skald-go/skald"
	"github.com/skald-go/skald/internal/need"
	"github.com/skald-go/skald/internal/uuid7"
	"github.com/skald-go/skald/store"
	"github.com/skald-go/skald/store/storetest"
)

// role makes a login with the rights of the role of that name, and nothing of PUBLIC's.
func (b *bed) role(t testing.TB, role string) string {
	t.Helper()
	name := fmt.Sprintf(`It's a "%s" %d`, role, schemas.Add(1)+time.Now().UnixNano())
	text, err := Grants(role, &GrantOptions{Schema: b.schema, Name: name})
	if err != nil {
		t.Fatal(err)
	}
	quoted := pgx.Identifier{name}.Sanitize()
	t.Cleanup(func() { b.exec(t, "DROP OWNED BY "+quoted); b.exec(t, "DROP ROLE "+quoted) })
	if role != "migrator" { // whose schema is not there yet
		b.exec(t, "REVOKE EXECUTE ON ALL FUNCTIONS IN SCHEMA "+strings.TrimSuffix(b.prefix(), ".")+" FROM PUBLIC")
	}
	for range 2 { // it can run twice
		if _, err := b.pool.Exec(context.Background(), text, pgx.QueryExecModeSimpleProtocol); err != nil {
			t.Fatal(err)
		}
	}
	b.exec(t, "ALTER ROLE "+quoted+" LOGIN")
	return name
}

// as is a pool of somebody else's; bed.end ends those of the driver.
func (b *bed) as(t testing.TB, name, application string) *pgxpool.Pool {
	t.Helper()
	config, err := pgxpool.ParseConfig(b.url)
	if err != nil {
		t.Fatal(err)
	}
	config.ConnConfig.User, config.ConnConfig.Password = name, "sesame"
	config.ConnConfig.RuntimeParams["application_name"] = application
	pool, err := pgxpool.NewWithConfig(context.Background(), config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { go pool.Close() })
	return pool
}

func (b *bed) storeAs(t testing.TB, name string) *Store {
	t.Helper()
	return New(b.as(t, name, "one day"), &Options{Schema: b.schema})
}

// byRole is one driver of the suite's made of two processes: what a relay asks for goes to the relay's. No station
// moves a lane in one transaction with other things, but the suite does: that needs the rights of both.
type byRole struct {
	*Store
	relay, both, owner *Store
	members            string // the role of both, which the app's login is in without having its rights
}

// Reseat is the owner's: it writes what nobody else may.
func (d byRole) Reseat(ctx context.Context, note *store.Audit) (store.Reseated, error) {
	return d.owner.Reseat(ctx, note)
}

func (d byRole) Begin(ctx context.Context, in store.Intake) (store.Unit[pgx.Tx], error) {
	u, err := d.Store.Begin(ctx, in)
	if err != nil {
		return nil, err
	}
	return roleUnit{u.(*unit), d.members}, nil
}

type roleUnit struct {
	*unit
	members string
}

func (u roleUnit) Commit(ctx context.Context, es ...store.Effect) error {
	for _, e := range es {
		if e.Lane != nil {
			if _, err := u.Tx().Exec(ctx, "SET LOCAL ROLE "+u.members); err != nil {
				return err
			}
		}
	}
	return u.unit.Commit(ctx, es...)
}

func (d byRole) Check(ctx context.Context, as store.Role) error {
	if as == store.Relay {
		return d.relay.Check(ctx, as)
	}
	return d.Store.Check(ctx, as)
}

func (d byRole) Apply(ctx context.Context, es ...store.Effect) ([]bool, error) {
	to := d.Store
	for _, e := range es {
		switch {
		case e.Lane != nil && (e.Mark != nil || len(e.Locks)+len(e.Rows) > 0):
			return d.both.Apply(ctx, es...)
		case e.Lane != nil:
			to = d.relay
		}
	}
	return to.Apply(ctx, es...)
}

func (d byRole) Lease(ctx context.Context, ask store.Ask) (store.Leased, error) {
	return d.relay.Lease(ctx, ask)
}

func (d byRole) Tick(ctx context.Context, base string) (string, error) {
	return d.relay.Tick(ctx, base)
}

func (d byRole) Pull(ctx context.Context, w store.Window, limit int) (store.Page, error) {
	return d.relay.Pull(ctx, w, limit)
}

func (d byRole) Held(ctx context.Context, lanes []int) ([]store.Held, error) {
	return d.relay.Held(ctx, lanes)
}

func (d byRole) Retry(ctx context.Context, lanes []int, limit int) ([]store.Aside, error) {
	return d.relay.Retry(ctx, lanes, limit)
}

func (d byRole) Forecast(ctx context.Context, keep store.Retention) (store.Maintained, error) {
	return d.relay.Forecast(ctx, keep)
}

func (d byRole) Maintain(ctx context.Context, keep store.Retention) (store.Maintained, error) {
	return d.relay.Maintain(ctx, keep)
}

func (d byRole) Own(ctx context.Context, what, owner string, ttl time.Duration) (bool, error) {
	return d.relay.Own(ctx, what, owner, ttl)
}

// roleSeat is a seat whose users have the rights of app and relay and no more.
type roleSeat struct {
	seat
	app, relay, both string
	own              *pgxpool.Pool // the app's, for transactions of the caller's own
}

func (b roleSeat) Driver(t testing.TB) store.Driver[pgx.Tx] {
	of := func(name string) *Store { return New(b.as(t, name, b.name()), &Options{Schema: b.schema}) }
	return byRole{of(b.app), of(b.relay), of(b.both), b.storeIn(t, b.mode), pgx.Identifier{b.both}.Sanitize()}
}

func (b roleSeat) Begin(t testing.TB) pgx.Tx {
	t.Helper()
	tx, err := b.own.Begin(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	return tx
}

func TestConformanceUnderRoles(t *testing.T) {
	need.Postgres(t)
	b := newBed(t)
	app, relay, both := b.role(t, "app"), b.role(t, "relay"), b.role(t, "app")
	q := func(name string) string { return pgx.Identifier{name}.Sanitize() }
	b.exec(t, "GRANT "+q(relay)+" TO "+q(both))
	b.exec(t, "ALTER ROLE "+q(app)+" NOINHERIT")
	b.exec(t, "GRANT "+q(both)+" TO "+q(app))
	b.exec(t, "GRANT SELECT, INSERT, UPDATE ON {kv} TO "+q(app))
	own := b.as(t, app, "the caller's own")
	storetest.Run(t, storetest.Harness[pgx.Tx]{
		Open: func(t testing.TB) storetest.Database[pgx.Tx] {
			b.clear(t)
			return roleSeat{seat{b, pgx.QueryExecModeCacheStatement}, app, relay, both, own}
		},
		Can: storetest.Can[pgx.Tx]{Rivals: true, StopsCommit: true, Limits: true, Setting: setting},
	})
}

// appDay is all that an app ever asks of the store; with a leaf's name only what it asks of that.
func appDay(ctx context.Context, s *Store, leaf string) error {
	ids := []string{"no uuid", uuid7.New(time.Now().Add(time.Hour))} // the second lies in both tables
	s.stale.Store(true)                                              // as when the ring of marks was changed
	for i := range defaultMarks().slots() {
		at := time.Now().Add(-time.Duration(i) * markSlot)
		switch markLeaf(defaultMarks().leaf(at, markSlot)) {
		case leaf:
			ids = []string{uuid7.New(at)}
		default:
			ids = append(ids, uuid7.New(at))
		}
		if len(ids) == 1 {
			break
		}
	}
	for _, id := range ids {
		m := aMark()
		m.ID = id
		u, err := s.Begin(ctx, store.Intake{Marks: []store.Mark{m}, Locks: []store.Lock{{Space: "a", Key: "b"}}})
		if err != nil {
			return err
		}
		if err := s.Write(ctx, u.Tx(), store.Effect{Rows: rowsOf(aMessage("a"))}); err != nil {
			return err
		}
		no := m
		no.As = store.Rejected
		say := aMessage("a")
		say.Headers = []skald.Header{{Name: "a", Value: []byte("b")}}
		if _, err := u.Rollback(ctx, store.Effect{Mark: &no, Locks: []store.Lock{{Space: "a", Key: "b", Version: u.Found().Locks[0]}}, Rows: rowsOf(say)}); err != nil {
			return err
		}
		if _, err := s.Seen(ctx, m.Consumer, []store.Identity{m.Identity}); err != nil {
			return err
		}
	}
	if err := quarantineDay(ctx, s); err != nil {
		return err
	}
	if _, err := s.Backlog(ctx); err != nil {
		return err
	}
	if err := stepDay(ctx, s); err != nil {
		return err
	}
	if err := keptDay(ctx, s); err != nil {
		return err
	}
	return pgx.BeginFunc(ctx, s.pool, func(tx pgx.Tx) error {
		if err := s.Write(ctx, tx, store.Effect{Rows: rowsOf(aMessage("a"), skald.Message{Topic: "orders", Type: "x", ContentType: "application/json"})}); err != nil {
			return err
		}
		_, err := tx.Exec(ctx, "INSERT INTO "+s.prefix+"skald_outbox (topic, type) VALUES ('orders', 'x')")
		return err
	})
}

// quarantineDay is what an app asks of answers, floors and the quarantine.
func quarantineDay(ctx context.Context, s *Store) error {
	old := aMark()
	old.ID = uuid7.New(time.Now().Add(-5 * day))
	old.Result = "1"
	u, err := s.Begin(ctx, store.Intake{Marks: []store.Mark{old}})
	if err != nil {
		return err
	}
	if err := u.Commit(ctx, store.Effect{Answer: &old}); err != nil {
		return err
	}
	if _, err := s.Seen(ctx, old.Consumer, []store.Identity{old.Identity}); err != nil {
		return err
	}
	q := store.Quarantined{Consumer: "c", Identity: aMark().Identity, Why: store.Conflict, Message: aMessage("a")}
	if _, err := s.Apply(ctx, store.Effect{Quarantine: &q}); err != nil {
		return err
	}
	list, err := s.Quarantined(ctx, store.Query{ID: q.ID})
	if err != nil {
		return err
	}
	if _, err := s.Admit(ctx, []int64{list[0].Number}, "ann", "a test"); err != nil {
		return err
	}
	_, err = s.Apply(ctx, store.Effect{Admitted: &q})
	return err
}

// stepDay is what an app asks of steps: one is taken and undone, of a saga so old that the floor is looked at.
func stepDay(ctx context.Context, s *Store) error {
	step := store.Step{Consumer: "c", Saga: uuid7.New(time.Now()), Name: "charge", State: store.StepDone, Identity: aMark().Identity}
	for _, state := range []store.StepState{store.StepDone, store.StepUndone} {
		step.State = state
		u, err := s.Begin(ctx, store.Intake{Steps: []store.Step{step}})
		if err == nil {
			err = u.Commit(ctx)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// relayDay is all that a relay ever asks of the store, but for emptying leaves; with a leaf's name only that.
func relayDay(ctx context.Context, s *Store, leaf string) error {
	if leaf != "" {
		return emptyLeaves(ctx, s, leaf)
	}
	life := fmt.Sprint(time.Now().UnixNano()) // it takes over what a day that ended badly has left
	got, err := s.Lease(ctx, store.Ask{Owner: "relay", Life: life, TTL: time.Minute})
	if err != nil {
		return err
	}
	if _, err := s.Backlog(ctx); err != nil {
		return err
	}
	tip, err := s.Tick(ctx, "")
	if err != nil {
		return err
	}
	page, err := s.Pull(ctx, store.Window{Tip: tip}, 10)
	if err != nil {
		return err
	}
	var es []store.Effect
	for _, l := range got.Lanes {
		es = append(es, store.Effect{Lane: &store.Progress{Lane: l.ID, Epoch: l.Epoch, Token: l.Token, Cursor: &store.Cursor{Base: tip}}})
	}
	one := *es[0].Lane
	one.Aside = []store.Aside{{Row: page.Rows[0], Attempts: 1}}
	again := one
	again.Freed = []int64{page.Rows[0].Seq}
	for _, part := range [][]store.Effect{es, {{Lane: &one}}, {{Lane: &again}}} {
		if _, err := s.Apply(ctx, part...); err != nil {
			return err
		}
	}
	if _, err := s.Held(ctx, []int{0}); err != nil {
		return err
	}
	if _, err := s.Retry(ctx, []int{0}, 1); err != nil {
		return err
	}
	if err := s.short(ctx, "note", s.call("Looked", int64(1), int64(1), int64(1)), s.call("Emptied", "skald_outbox")); err != nil {
		return err
	}
	for _, ttl := range []time.Duration{time.Minute, time.Hour, 0} {
		if _, err := s.Own(ctx, "retention", life, ttl); err != nil {
			return err
		}
	}
	if err := s.deletes(ctx, 30*day, &store.Maintained{}); err != nil {
		return err
	}
	if err := s.forgetSteps(ctx, &keeping{now: time.Now(), Retention: store.Retention{Steps: 90 * day}}); err != nil {
		return err
	}
	marks := s.leafed(firstMarks, markLeaf(0), 0)
	if err := s.short(ctx, "raise floors", call{sql: marks["Meet"]}, call{sql: marks["RaiseFloors"], args: []any{int64(0)}}); err != nil {
		return err
	}
	_, err = s.Lease(ctx, store.Ask{Owner: "relay", Life: life, Leave: true})
	return err
}

// emptyLeaves empties each leaf of that name, or with "" all, as Maintain does in the course of a month.
func emptyLeaves(ctx context.Context, s *Store, name string) error {
	var k keeping
	for i := range defaultRows().slots() {
		if name == "" || name == rowLeaf(i) {
			if err := s.emptyRowLeaf(ctx, i, &k); err != nil {
				return err
			}
		}
	}
	for i := range defaultMarks().slots() {
		if name == "" || name == markLeaf(i) {
			if err := s.emptyMarkLeaf(ctx, i, &k); err != nil {
				return err
			}
		}
	}
	return nil
}

// keptDay parks a message, claims it, makes it a dead letter, redrives and drops it.
func keptDay(ctx context.Context, s *Store) error {
	m := aMark()
	m.Turn, m.Key = store.Arriving, []byte("k")
	was := 1
	p := store.Parked{Consumer: m.Consumer, Identity: m.Identity, Message: aMessage("k"), Attempts: was}
	dead := store.Keep{Parked: p, Was: &was}
	dead.Dead = &store.Death{}
	u, err := s.Begin(ctx, store.Intake{Marks: []store.Mark{m}})
	if err != nil {
		return err
	}
	if _, err := u.Rollback(ctx, store.Effect{Keep: &store.Keep{Parked: p}}); err != nil {
		return err
	}
	if _, err := s.Claim(ctx, m.Consumer, "life", store.Portion{Keys: 1}, time.Hour); err != nil {
		return err
	}
	if _, err := s.Kept(ctx, store.Sought{}, 1); err != nil {
		return err
	}
	if _, err := s.Keeping(ctx, m.Consumer); err != nil {
		return err
	}
	if _, err := s.Audited(ctx, "a run", 0, 1); err != nil {
		return err
	}
	types := []store.Kind{{Topic: "t", Type: "x"}, {Topic: "t", Type: time.Now().String()}}
	if _, err := s.Kinds(ctx, m.Consumer, types, time.Nanosecond); err != nil {
		return err
	}
	if _, err := s.Kinds(ctx, m.Consumer, types[:1], time.Microsecond); err != nil {
		return err
	}
	lane := store.Spot{Lane: "t/0", Origin: "one", Position: 3}
	stands, err := s.Occupy(ctx, m.Consumer, "life", time.Now().String(), []store.Spot{lane})
	if err != nil {
		return err
	}
	if stands, err = s.Spots(ctx, m.Consumer); err != nil {
		return err
	}
	if _, err := s.Advance(ctx, m.Consumer, stands.Server, "2", stands.Spots); err != nil {
		return err
	}
	_, err = s.Apply(ctx, store.Effect{Keep: &dead}, store.Effect{Release: &store.Release{Consumer: m.Consumer, Identity: m.Identity}},
		store.Effect{Free: &store.Free{Consumer: m.Consumer, Identity: m.Identity}, Audit: &store.Audit{What: "drop"}})
	return err
}

// fill gives each leaf a row, and only that.
func (b *bed) fill(t testing.TB) {
	t.Helper()
	b.clear(t)
	b.exec(t, `INSERT INTO {skald_outbox} (topic, type, slot) SELECT 'orders', 'x', n FROM generate_series(0, $1) AS n`, defaultRows().slots()-1)
	b.exec(t, `INSERT INTO {skald_mark} (consumer, source, id, outcome, slot) SELECT 'c', 's', gen_random_uuid(), 1, n FROM generate_series(0, $1) AS n`, defaultMarks().slots()-1)
	b.Known(t)
	b.exec(t, `INSERT INTO {skald_tick} (token, snapshot, seq, own, at) SELECT 'x', pg_current_snapshot(), 0, pg_current_xact_id(), now() - interval '2 hours'`)
	b.exec(t, `INSERT INTO {skald_relay} (owner, life, until) VALUES ('gone', '1', now() - interval '1 hour')`)
}

// Without one of its rights a role is told which and what gives it, and cannot work; with all of them it can.
func TestEachRightIsNeeded(t *testing.T) {
	for role, day := range map[store.Role]func(ctx context.Context, s *Store, leaf string) error{store.App: appDay, store.Relay: relayDay} {
		t.Run(string(role), func(t *testing.T) {
			b := newBed(t)
			ctx := context.Background()
			name := b.role(t, string(role))
			quoted := pgx.Identifier{name}.Sanitize()
			s := b.storeAs(t, name)
			b.fill(t)
			works := func(right grant) error {
				var versions string
				var builds int
				if err := s.short(ctx, "check", s.call("Version").into(&versions, &builds)); err != nil {
					return err
				}
				return day(ctx, s, right.leaf)
			}
			if err := errors.Join(s.Check(ctx, role), works(grant{})); err != nil {
				t.Fatalf("with all rights: %v", err)
			}
			for _, right := range b.rights(t, role) {
				b.exec(t, "REVOKE "+right.text+" FROM "+quoted)
				err := s.Check(ctx, role)
				var missing *store.RightError
				if !errors.As(err, &missing) || !store.Incurable(err) || s.Outage(err) {
					t.Errorf("without %s check says %v", right.text, err)
					continue
				}
				if err := works(right); state(err) != "42501" {
					t.Errorf("without %s the work ends with %v: it is not needed", right.text, err)
				} else if !errors.As(err, &missing) || !strings.Contains(err.Error(), "skald roles") && !strings.Contains(err.Error(), "GRANT ") {
					t.Errorf("without %s the work ends with %v, which names no remedy", right.text, err)
				}
				errors.As(s.Check(ctx, role), &missing)
				b.exec(t, strings.NewReplacer("{", "", "}", "").Replace(missing.Remedy)) // the remedy cures what it names
				if err := s.Check(ctx, role); err != nil {
					t.Fatalf("behind %s: %v", missing.Remedy, err)
				}
			}
			if role == store.Relay {
				if err := emptyLeaves(ctx, s, ""); err != nil {
					t.Errorf("with all rights: %v", err)
				}
			}
		})
	}
}

// A grant is one right, as GRANT and REVOKE name it, and the leaf that it is about.
type grant struct{ text, leaf string }

// rights are those of a role, one by one.
func (b *bed) rights(t testing.TB, role store.Role) (out []grant) {
	t.Helper()
	need, err := needsOf(role)
	if err != nil {
		t.Fatal(err)
	}
	for i, right := range need.rights {
		on := map[string]string{"TABLE": b.prefix() + need.names[i], "SCHEMA": "SCHEMA " + strings.TrimSuffix(b.prefix(), ".")}
		switch kind := need.kinds[i]; {
		case kind == "LEAF":
			leaves := one[[]string](t, b, `SELECT array_agg(relname::text ORDER BY relname) FROM pg_inherits JOIN pg_class AS c ON c.oid = inhrelid WHERE inhparent = $1::regclass`, b.prefix()+need.names[i])
			for _, leaf := range leaves {
				out = append(out, grant{right + " ON " + b.prefix() + leaf, leaf})
			}
		case need.columns[i] != "":
			for column := range strings.SplitSeq(need.columns[i], ", ") {
				out = append(out, grant{text: right + " (" + column + ") ON " + on["TABLE"]})
			}
		case on[kind] != "":
			out = append(out, grant{text: right + " ON " + on[kind]})
		default:
			out = append(out, grant{text: right + " ON " + kind + " " + b.prefix() + need.names[i]})
		}
	}
	if len(out) < 50 {
		t.Fatalf("the file of %s has %d rights", role, len(out))
	}
	return out
}

// Nobody can do what is not theirs.
func TestRolesEndWhereTheyShould(t *testing.T) {
	b := newBed(t)
	ctx := context.Background()
	b.exec(t, `INSERT INTO {skald_outbox} (topic, type) VALUES ('orders', 'x')`)
	for role, refused := range map[string][]string{
		"app": {
			`SELECT FROM {skald_outbox}`, `UPDATE {skald_outbox} SET type = 'y'`, `DELETE FROM {skald_outbox}`, `TRUNCATE {skald_outbox_0}`,
			`INSERT INTO {skald_outbox} (topic, type, seq) OVERRIDING SYSTEM VALUE VALUES ('orders', 'x', 1)`, `INSERT INTO {skald_outbox_0} (topic, type) VALUES ('orders', 'x')`,
			`INSERT INTO {skald_outbox} (topic, type, txid) VALUES ('orders', 'x', '3')`, `INSERT INTO {skald_outbox} (topic, type, slot) VALUES ('orders', 'x', 0)`,
			`INSERT INTO {skald_outbox} (topic, type, source) VALUES ('orders', 'x', '/other')`, `INSERT INTO {skald_outbox} (topic, type, erased_at) VALUES ('orders', 'x', now())`,
			`INSERT INTO {skald_outbox} (topic, type) VALUES ('orders', 'x') RETURNING seq`, `SELECT nextval('{skald_outbox_seq_seq}')`,
			`UPDATE {skald_mark} SET outcome = 2`, `DELETE FROM {skald_mark_timeless}`, `UPDATE {skald_answer} SET code = 2`, `UPDATE {skald_floor} SET at = NULL`, `DELETE FROM {skald_step}`, `UPDATE {skald_step_floor} SET at = now()`, `DELETE FROM {skald_quarantine}`, `TRUNCATE {skald_mark_00}`, `DELETE FROM {skald_entity}`,
			`SELECT FROM {skald_lane}`, `SELECT FROM {skald_tick}`, `SELECT FROM {skald_relay}`, `SELECT FROM {skald_aside}`, `UPDATE {skald_setting} SET value = 'x'`,
			`CREATE TABLE {mine} (x int)`, `DROP TABLE {skald_aside}`,
		},
		"relay": {
			`INSERT INTO {skald_outbox} (topic, type) VALUES ('orders', 'x')`, `UPDATE {skald_outbox} SET type = 'y'`, `DELETE FROM {skald_outbox}`,
			`INSERT INTO {skald_mark_timeless} (consumer, source, id, outcome) VALUES ('a', 'b', 'c', 1)`, `DELETE FROM {skald_mark}`,
			`UPDATE {skald_step} SET state = 1`, `INSERT INTO {skald_step} (consumer, saga, step, occurrence, state) VALUES ('a', 'b', 'c', '', 1)`, `SELECT data FROM {skald_parked}`,
			`SELECT FROM {skald_entity}`, `UPDATE {skald_setting} SET name = 'x'`, `DELETE FROM {skald_lane}`, `UPDATE {skald_tick} SET seq = 0`,
			`SELECT nextval('{skald_outbox_seq_seq}')`, `SELECT FROM {kv}`, `CREATE TABLE {mine} (x int)`,
		},
		"reader": {
			`INSERT INTO {skald_outbox} (topic, type) VALUES ('orders', 'x')`, `UPDATE {skald_outbox} SET type = 'y'`, `DELETE FROM {skald_mark}`, `TRUNCATE {skald_outbox_0}`,
			`UPDATE {skald_lane} SET owner = 'me'`, `DELETE FROM {skald_aside}`, `UPDATE {skald_setting} SET value = 'x'`, `CREATE TABLE {mine} (x int)`,
		},
	} {
		pool := b.as(t, b.role(t, role), "ends")
		for _, sql := range refused {
			if _, err := pool.Exec(ctx, b.q(sql)); state(err) != "42501" {
				t.Errorf("%s: %s: %v", role, sql, err)
			}
		}
	}
	reader := b.as(t, b.role(t, "reader"), "looks")
	for _, table := range one[[]string](t, b, `SELECT array_agg(relname::text) FROM pg_class WHERE relnamespace = (SELECT oid FROM pg_namespace WHERE nspname = $1)
		AND relkind IN ('r', 'p', 'v') AND NOT relispartition AND relname LIKE 'skald%'`, b.schema) {
		if _, err := reader.Exec(ctx, b.q("SELECT * FROM {"+table+"}")); err != nil {
			t.Errorf("the reader cannot read %s: %v", table, err)
		}
	}
}

// The migrator makes the tables in a schema that it was given, and can then give the others their rights.
func TestMigratorRole(t *testing.T) {
	b := bare(t)
	ctx := context.Background()
	pool := b.as(t, b.role(t, "migrator"), "migrates")
	o := &MigrateOptions{Schema: b.schema}
	if _, err := Migrate(ctx, pool, o); err != nil {
		t.Fatal(err)
	}
	if todo, err := Pending(ctx, pool, o); err != nil || len(todo) != 0 {
		t.Errorf("pending: %v, %v", todo, err)
	}
	name := b.role(t, "app") // made, and given its rights, by the superuser; now by the owner
	text, err := Grants("app", &GrantOptions{Schema: b.schema, Name: name})
	if err != nil {
		t.Fatal(err)
	}
	b.exec(t, "REVOKE ALL ON ALL TABLES IN SCHEMA "+strings.TrimSuffix(b.prefix(), ".")+" FROM "+pgx.Identifier{name}.Sanitize())
	if _, err := pool.Exec(ctx, text, pgx.QueryExecModeSimpleProtocol); err != nil {
		t.Fatal(err)
	}
	s := b.storeAs(t, name)
	if err := errors.Join(s.Check(ctx, store.App), appDay(ctx, s, "")); err != nil {
		t.Error(err)
	}
	if _, err := Migrate(ctx, pool, &MigrateOptions{Schema: b.schema + " 2"}); state(err) != "42501" {
		t.Errorf("it makes schemas: %v", err)
	}
}

func TestGrantsRefuse(t *testing.T) {
	for _, bad := range [][2]string{{"owner", "x"}, {"app", "a$$b"}, {"../role/app", "x"}} {
		if text, err := Grants(bad[0], &GrantOptions{Name: bad[1]}); err == nil {
			t.Errorf("%q: %s", bad, text)
		}
	}
	if err := New(nil, nil).Check(context.Background(), "owner"); err == nil || !strings.Contains(err.Error(), "app") {
		t.Errorf("an unknown role: %v", err)
	}
}
