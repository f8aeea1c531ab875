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
	"github.com/skald-go/skald/store/pgstore/internal/admin"
	"github.com/skald-go/skald/store/pgstore/internal/sqlexec"
	"github.com/skald-go/skald/store/storetest"
)

// role creates a login with the rights of that role and none of PUBLIC's.
func (b *bed) role(t testing.TB, role string) string {
	t.Helper()
	name := fmt.Sprintf(`It's a "%s" %d`, role, schemas.Add(1)+time.Now().UnixNano())
	text, err := Grants(role, &GrantOptions{Schema: b.schema, Name: name})
	if err != nil {
		t.Fatal(err)
	}
	quoted := pgx.Identifier{name}.Sanitize()
	t.Cleanup(func() { b.exec(t, "DROP OWNED BY "+quoted); b.exec(t, "DROP ROLE "+quoted) })
	if role != "migrator" { // its schema does not exist yet
		b.exec(t, "REVOKE EXECUTE ON ALL FUNCTIONS IN SCHEMA "+strings.TrimSuffix(b.prefix(), ".")+
			" FROM PUBLIC")
	}
	for range 2 { // it can run twice
		if _, err := b.pool.Exec(context.Background(), text, pgx.QueryExecModeSimpleProtocol); err != nil {
			t.Fatal(err)
		}
	}
	b.exec(t, "ALTER ROLE "+quoted+" LOGIN")
	return name
}

// as returns a pool of another user; bed.end ends those of the driver.
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

// byRole is a driver for the suite made of two processes: calls of a relay go to the relay's. The suite
// moves a shard together with other changes in one transaction, which no component does: that needs the
// rights of both.
type byRole struct {
	*Store
	relay, both, owner *Store
	members            string // the role of both; the app's login is a member without its rights
}

// Recover runs as the owner, because it writes tables that no other role may write.
func (d byRole) Recover(ctx context.Context, note *store.Audit) (store.Recovered, error) {
	return d.owner.Recover(ctx, note)
}

// Rename runs as the owner, too.
func (d byRole) Rename(ctx context.Context, r store.Rename) (store.Renamed, error) {
	return d.owner.Rename(ctx, r)
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
		if e.Shard != nil {
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
		case e.DropDeferred != nil || e.Shard != nil && (e.Mark != nil || len(e.Locks)+len(e.Rows) > 0):
			return d.both.Apply(ctx, es...)
		case e.Shard != nil:
			to = d.relay
		}
	}
	return to.Apply(ctx, es...)
}

func (d byRole) Lease(ctx context.Context, ask store.LeaseRequest) (store.Leased, error) {
	return d.relay.Lease(ctx, ask)
}

func (d byRole) Pull(ctx context.Context, w store.Window, limit int) (store.Page, error) {
	return d.relay.Pull(ctx, w, limit)
}

func (d byRole) Deferred(ctx context.Context, q store.DeferredQuery) (store.Deferred, error) {
	return d.relay.Deferred(ctx, q)
}

// List reads payloads and waiting rows as the relay, because an app may not.
func (d byRole) List(ctx context.Context, l store.List) (store.Listed, error) {
	if l.Payloads || l.Waiting > 0 {
		return d.relay.List(ctx, l)
	}
	return d.Store.List(ctx, l)
}

func (d byRole) Maintain(ctx context.Context, m store.Maintain) (store.Maintained, error) {
	return d.relay.Maintain(ctx, m)
}

// roleSeat is a seat whose users have only the rights of app and relay.
type roleSeat struct {
	seat
	app, relay, both string
	own              *pgxpool.Pool // the app's, for transactions of the caller
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
	t.Parallel()
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
		Can:    storetest.Can[pgx.Tx]{Rivals: true, StopsCommit: true, Limits: true, Setting: setting},
		Sample: eighth,
	})
}

// appDay uses the store as an app does.
func appDay(ctx context.Context, s *Store, _ string) error {
	ids := []string{"no uuid", uuid7.New(time.Now().Add(time.Hour)),
		uuid7.New(time.Now().Add(-40 * admin.Day))}
	for _, id := range ids {
		m := aMark()
		m.ID = id
		u, err := s.Begin(ctx, store.Intake{Marks: []store.Mark{m},
			Locks: []store.Lock{{Space: "a", Key: "b"}}})
		if err != nil {
			return err
		}
		if err := s.Write(ctx, u.Tx(), store.Effect{Rows: rowsOf(aMessage("a"))}); err != nil {
			return err
		}
		no := m
		no.Outcome = store.Rejected
		say := aMessage("a")
		say.Headers = []skald.Header{{Name: "a", Value: []byte("b")}}
		if _, err := u.Rollback(ctx, store.Effect{Mark: &no,
			Locks: []store.Lock{{Space: "a", Key: "b", Version: u.Found().Locks[0]}},
			Rows:  rowsOf(say)}); err != nil {
			return err
		}
		if _, err := s.Seen(ctx, m.Consumer, []store.Identity{m.Identity}); err != nil {
			return err
		}
	}
	if err := quarantineDay(ctx, s); err != nil {
		return err
	}
	if b, err := store.ReadBacklog(ctx, s); errors.Join(err, b.Uncounted) != nil {
		return errors.Join(err, b.Uncounted)
	}
	if err := stepDay(ctx, s); err != nil {
		return err
	}
	if err := keptDay(ctx, s); err != nil {
		return err
	}
	if err := errors.Join(sagaDay(ctx, s), trackedDay(ctx, s)); err != nil {
		return err
	}
	if _, err := s.PayloadSchema(ctx, "", "1"); err != nil {
		return err
	}
	if err := s.KeepPayloadSchema(ctx, "", "1", "{}"); err != nil {
		return err
	}
	return pgx.BeginFunc(ctx, s.pool, func(tx pgx.Tx) error {
		if err := s.Write(ctx, tx, store.Effect{Rows: rowsOf(aMessage("a"),
			skald.Message{Topic: "orders", Type: "x", ContentType: "application/json"})}); err != nil {
			return err
		}
		_, err := tx.Exec(ctx, "INSERT INTO "+s.pg.Prefix+"skald_outbox (topic, type) VALUES ('orders', 'x')")
		return err
	})
}

// quarantineDay uses answers, floors and the quarantine as an app does.
func quarantineDay(ctx context.Context, s *Store) error {
	old := aMark()
	old.ID = uuid7.New(time.Now().Add(-5 * admin.Day))
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
	q := store.Quarantined{Consumer: "c", Identity: aMark().Identity, Why: store.Conflict,
		Message: aMessage("a")}
	if _, err := s.Apply(ctx, store.Effect{Quarantine: &q}); err != nil {
		return err
	}
	list, err := store.ListQuarantined(ctx, s, store.QuarantineQuery{ID: q.ID})
	if err != nil {
		return err
	}
	if _, err := store.AdmitAll(ctx, s, []int64{list[0].Number}, "ann", "a test"); err != nil {
		return err
	}
	_, err = s.Apply(ctx, store.Effect{Admitted: &q})
	return err
}

// stepDay uses steps as an app does: it takes and undoes one, of a saga so old that the floor is checked.
func stepDay(ctx context.Context, s *Store) error {
	step := store.Step{Consumer: "c", Saga: uuid7.New(time.Now()), Name: "charge", State: store.StepDone,
		Identity: aMark().Identity}
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

// sagaDay uses sagas as an app does: it starts, claims, moves and ends one.
func sagaDay(ctx context.Context, s *Store) error {
	ref := store.SagaRef{Name: "order", Key: uuid7.New(time.Now())}
	hash := ref.Key
	err := pgx.BeginFunc(ctx, s.pool, func(tx pgx.Tx) error {
		start := store.Saga{Name: ref.Name, Key: ref.Key, ID: ref.Key, Hash: hash, Input: "{}", State: "{}",
			SagaStatus: store.SagaStatus{Status: "running"}}
		for _, start.Instead = range []string{"", "none"} {
			if _, _, err := s.StartSagas(ctx, tx, start); err != nil {
				return err
			}
		}
		if _, err := s.LockSagas(ctx, tx, ref); err != nil {
			return err
		}
		es := []store.Lock{{Space: "order", Key: ref.Key}}
		for _, holder := range []string{ref.Key, "other"} {
			_, err := s.HoldEntities(ctx, tx, store.EntityHold{Holder: holder, Saga: ref, Entities: es})
			if err != nil {
				return err
			}
		}
		if _, err := s.EntityHolders(ctx, tx, es...); err != nil {
			return err
		}
		return s.FreeEntities(ctx, tx, ref.Key)
	})
	if err != nil {
		return err
	}
	if _, err := s.Apply(ctx, store.Effect{Definitions: []store.SagaDefinition{{Name: ref.Name, Hash: hash,
		Written: "{}"}}}); err != nil {
		return err
	}
	c, err := s.Claim(ctx, store.ClaimRequest{Session: "a", Lease: time.Minute,
		Sagas: &store.SagaClaimRequest{Hashes: []string{hash}, Limit: 1}})
	if err != nil {
		return err
	}
	if len(c.Sagas) != 1 {
		return fmt.Errorf("%d sagas are claimed", len(c.Sagas))
	}
	ref.Version = c.Sagas[0].Version
	u, err := s.Begin(ctx, store.Intake{Sagas: []store.SagaRef{ref}})
	if err != nil {
		return err
	}
	if err := u.Commit(ctx, store.Effect{Saga: &store.SagaUpdate{SagaRef: ref, State: "{}",
		SagaStatus: c.Sagas[0].SagaStatus}}); err != nil {
		return err
	}
	ref.Version++
	end := store.SagaUpdate{SagaRef: ref, State: "{}", SagaStatus: store.SagaStatus{Status: "done"},
		Final: true}
	if _, err := s.Apply(ctx, store.Effect{Saga: &end}); err != nil {
		return err
	}
	if _, err := s.List(ctx, store.List{Sagas: &store.SagaQuery{Name: ref.Name, Limit: 1},
		Definitions: true, Holds: &store.HoldQuery{}}); err != nil {
		return err
	}
	_, err = s.Status(ctx, store.StatusQuery{Sagas: true})
	return err
}

// trackedDay uses tracked sagas as an app does.
func trackedDay(ctx context.Context, s *Store) error {
	return pgx.BeginFunc(ctx, s.pool, func(tx pgx.Tx) error {
		rows, err := s.LockTracked(ctx, tx, "order", uuid7.New(time.Now()))
		if err != nil {
			return err
		}
		t := rows[0]
		t.State, t.Due, t.Drift, t.Body = "running", time.Now(), 1, "{}"
		return s.Write(ctx, tx, store.Effect{Tracked: []store.Tracked{t}})
	})
}

// relayDay uses the store as a relay does, except for emptying leaves. With the name of a leaf it only
// empties that.
func relayDay(ctx context.Context, s *Store, leaf string) error {
	if leaf != "" {
		return emptyLeaves(ctx, s, leaf)
	}
	sessionID := fmt.Sprint(time.Now().UnixNano()) // it takes over the shards of an earlier day that failed
	got, err := s.Lease(ctx, store.LeaseRequest{Owner: "relay", Session: sessionID, TTL: time.Minute})
	if err != nil {
		return err
	}
	if b, err := store.ReadBacklog(ctx, s); errors.Join(err, b.Uncounted) != nil {
		return errors.Join(err, b.Uncounted)
	}
	tip, err := store.Snapshot(ctx, s, "")
	if err != nil {
		return err
	}
	page, err := s.Pull(ctx, store.Window{Tip: tip}, 10)
	if err != nil {
		return err
	}
	var es []store.Effect
	for _, l := range got.Shards {
		es = append(es, store.Effect{Shard: &store.Progress{Shard: l.ID, Epoch: l.Epoch, Token: l.Token,
			Cursor: &store.Cursor{Base: tip}}})
	}
	one := *es[0].Shard
	one.Deferred = []store.DeferredRow{{Row: page.Rows[0], Attempts: 1}}
	again := one
	again.Freed = []int64{page.Rows[0].Seq}
	for _, part := range [][]store.Effect{es, {{Shard: &one}}, {{Shard: &again}}} {
		if _, err := s.Apply(ctx, part...); err != nil {
			return err
		}
	}
	if _, err := store.DeferredKeys(ctx, s, []int{0}); err != nil {
		return err
	}
	if _, err := store.DueRows(ctx, s, []int{0}, 1); err != nil {
		return err
	}
	if err := s.pg.Short(ctx, "note", s.pg.Call("Looked", int64(1), int64(1), int64(1), int64(1)),
		s.pg.Call("Emptied", "skald_outbox")); err != nil {
		return err
	}
	for _, ttl := range []time.Duration{time.Minute, time.Hour, 0} {
		// a dry run: the leaves are emptied below, one by one
		if _, err := s.Maintain(ctx, store.Maintain{Owner: sessionID, Lease: ttl, Leave: ttl == 0,
			DryRun: true}); err != nil {
			return err
		}
	}
	k := &admin.Keeping{Now: time.Now(),
		Retention: store.Retention{Marks: 30 * admin.Day, Steps: 90 * admin.Day, Sagas: 30 * admin.Day}}
	if err := s.steward.Forget(ctx, k); err != nil {
		return err
	}
	_, err = s.Lease(ctx, store.LeaseRequest{Owner: "relay", Session: sessionID, Leave: true})
	return err
}

// emptyLeaves empties each leaf of that name, or all for "", as Maintain does within a month.
func emptyLeaves(ctx context.Context, s *Store, name string) error {
	var k admin.Keeping
	for i := range admin.Default().Slots() {
		if name == "" || name == sqlexec.RowLeaf(i) {
			if err := s.steward.EmptyRowLeaf(ctx, i, &k); err != nil {
				return err
			}
		}
	}
	return nil
}

// keptDay parks a message, claims it, makes it a dead letter, redrives and drops it.
func keptDay(ctx context.Context, s *Store) error {
	m := aMark()
	m.KeyOrder, m.Key = store.Arriving, []byte("k")
	was := 1
	p := store.Parked{Consumer: m.Consumer, Identity: m.Identity, Message: aMessage("k"), Attempts: was}
	dead := store.Park{Parked: p, Was: &was}
	dead.Dead = &store.Death{}
	u, err := s.Begin(ctx, store.Intake{Marks: []store.Mark{m}})
	if err != nil {
		return err
	}
	if _, err := u.Rollback(ctx, store.Effect{Park: &store.Park{Parked: p}}); err != nil {
		return err
	}
	if _, err := s.Claim(ctx, store.ClaimRequest{Consumer: m.Consumer, Session: "life",
		ClaimSize: store.ClaimSize{Keys: 1}, Lease: time.Hour}); err != nil {
		return err
	}
	if _, err := store.ListParked(ctx, s, store.ParkedQuery{Limit: 1}); err != nil {
		return err
	}
	if _, err := s.Status(ctx, store.StatusQuery{ParkedOf: m.Consumer}); err != nil {
		return err
	}
	if _, err := s.Audits(ctx, store.AuditQuery{Run: "a run", Limit: 1}); err != nil {
		return err
	}
	types := []store.Kind{{Topic: "t", Type: "x"}, {Topic: "t", Type: time.Now().String()}}
	if _, err := s.SyncConsumer(ctx, store.SyncRequest{Consumer: m.Consumer,
		Heartbeat: &store.Heartbeat{Own: types, Forget: time.Nanosecond, Progress: true}}); err != nil {
		return err
	}
	if _, err := s.SyncConsumer(ctx, store.SyncRequest{Consumer: m.Consumer,
		Heartbeat: &store.Heartbeat{Own: types[:1], Forget: time.Microsecond}}); err != nil {
		return err
	}
	shard := store.Checkpoint{Partition: "t/0", Origin: "one", Position: 3}
	stands, err := s.SyncConsumer(ctx, store.SyncRequest{Consumer: m.Consumer, Take: true, Session: "life",
		Stamp: time.Now().String(), Checkpoints: []store.Checkpoint{shard}})
	if err != nil {
		return err
	}
	if stands, err = s.SyncConsumer(ctx, store.SyncRequest{Consumer: m.Consumer}); err != nil {
		return err
	}
	if _, err := s.SyncConsumer(ctx, store.SyncRequest{Consumer: m.Consumer, Server: stands.Server, Stamp: "2",
		Checkpoints: stands.Checkpoints}); err != nil {
		return err
	}
	for _, lease := range []time.Duration{0, time.Hour} { // the second takes over from the first
		r := store.Reservation{Consumer: m.Consumer, Identity: aMark().Identity, Token: fmt.Sprint(lease),
			Lease: lease, Keep: time.Hour}
		r.ID = "reserved"
		if _, err := s.Reserve(ctx, r); err != nil {
			return err
		}
		if lease > 0 {
			if _, err := s.Apply(ctx, store.Effect{Reservation: &r}); err != nil {
				return err
			}
		}
	}
	_, err = s.Apply(ctx, store.Effect{Park: &dead},
		store.Effect{Requeue: &store.Requeue{Consumer: m.Consumer, Identity: m.Identity}},
		store.Effect{Finish: &store.Finish{Consumer: m.Consumer, Identity: m.Identity},
			Audit: &store.Audit{Action: "drop"}})
	return err
}

// fill gives each leaf exactly one row.
func (b *bed) fill(t testing.TB) {
	t.Helper()
	b.clear(t)
	b.exec(t,
		`INSERT INTO {skald_outbox} (topic, type, slot) SELECT 'orders', 'x', n FROM generate_series(0, $1) AS n`, admin.Default().Slots()-1)
	b.exec(t,
		`INSERT INTO {skald_mark} (consumer, source, id, outcome, at) VALUES ('c', 's', 'i', 1, now() - interval '40 days')`)
	b.exec(t,
		`INSERT INTO {skald_snapshot} (token, snapshot, seq, own_txid, at) SELECT 'x', pg_current_snapshot(), 0, pg_current_xact_id(), now() - interval '2 hours'`)
	b.exec(t,
		`INSERT INTO {skald_relay} (owner, session, until) VALUES ('gone', '1', now() - interval '1 hour')`)
}

// TestEachRightIsNeeded checks that a role without one of its rights gets an error with the right and the
// remedy, and that it works with all of them. It takes a quarter of the rights, each day others, unless
// need.Full requests all.
func TestEachRightIsNeeded(t *testing.T) {
	t.Parallel()
	offset := time.Now().YearDay() % 4
	for role, day := range map[store.Role]func(ctx context.Context, s *Store,
		leaf string) error{store.App: appDay, store.Relay: relayDay} {
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
				if err := s.pg.Short(ctx, "check", s.pg.Call("Version").Into(&versions,
					&builds)); err != nil {
					return err
				}
				return day(ctx, s, right.leaf)
			}
			if err := errors.Join(s.Check(ctx, role), works(grant{})); err != nil {
				t.Fatalf("with all rights: %v", err)
			}
			for i, right := range b.rights(t, role) {
				if !need.Full() && i%4 != offset {
					continue
				}
				b.exec(t, "REVOKE "+right.text+" FROM "+quoted)
				err := s.Check(ctx, role)
				var missing *store.RightError
				if !errors.As(err, &missing) || !store.Incurable(err) || s.Outage(err) {
					t.Errorf("without %s Check returned %v", right.text, err)
					continue
				}
				if err := works(right); sqlexec.SQLState(err) != "42501" {
					t.Errorf("without %s the work ends with %v: it is not needed", right.text, err)
				} else if !errors.As(err, &missing) || !strings.Contains(err.Error(), "skald roles") &&
					!strings.Contains(err.Error(), "GRANT ") {
					t.Errorf("without %s the work ends with %v, which names no remedy", right.text, err)
				}
				errors.As(s.Check(ctx, role), &missing)
				// the remedy works
				b.exec(t, strings.NewReplacer("{", "", "}", "").Replace(missing.Remedy))
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

// grant is one right, as in GRANT and REVOKE, and its leaf.
type grant struct{ text, leaf string }

// rights returns the rights of a role, one by one.
func (b *bed) rights(t testing.TB, role store.Role) (out []grant) {
	t.Helper()
	need, err := admin.Of(role)
	if err != nil {
		t.Fatal(err)
	}
	for i, right := range need.Rights {
		on := map[string]string{"TABLE": b.prefix() + need.Names[i], "SCHEMA": "SCHEMA " +
			strings.TrimSuffix(b.prefix(), ".")}
		switch kind := need.Kinds[i]; {
		case kind == "LEAF":
			leaves := one[[]string](t, b,
				`SELECT array_agg(relname::text ORDER BY relname) FROM pg_inherits JOIN pg_class AS c ON c.oid = inhrelid WHERE inhparent = $1::regclass`, b.prefix()+need.Names[i])
			for _, leaf := range leaves {
				out = append(out, grant{right + " ON " + b.prefix() + leaf, leaf})
			}
		case need.Columns[i] != "":
			for column := range strings.SplitSeq(need.Columns[i], ", ") {
				out = append(out, grant{text: right + " (" + column + ") ON " + on["TABLE"]})
			}
		case on[kind] != "":
			out = append(out, grant{text: right + " ON " + on[kind]})
		default:
			out = append(out, grant{text: right + " ON " + kind + " " + b.prefix() + need.Names[i]})
		}
	}
	if len(out) < 50 {
		t.Fatalf("the file of %s has %d rights", role, len(out))
	}
	return out
}

// TestRolesEndWhereTheyShould checks that no role has more rights than its own.
func TestRolesEndWhereTheyShould(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	ctx := context.Background()
	b.exec(t, `INSERT INTO {skald_outbox} (topic, type) VALUES ('orders', 'x')`)
	for role, refused := range map[string][]string{
		"app": {
			`SELECT FROM {skald_outbox}`, `UPDATE {skald_outbox} SET type = 'y'`,
			`DELETE FROM {skald_outbox}`, `TRUNCATE {skald_outbox_0}`,
			`INSERT INTO {skald_outbox} (topic, type, seq) OVERRIDING SYSTEM VALUE VALUES ('orders', 'x', 1)`,
			`INSERT INTO {skald_outbox_0} (topic, type) VALUES ('orders', 'x')`,
			`INSERT INTO {skald_outbox} (topic, type, txid) VALUES ('orders', 'x', '3')`,
			`INSERT INTO {skald_outbox} (topic, type, slot) VALUES ('orders', 'x', 0)`,
			`INSERT INTO {skald_outbox} (topic, type, source) VALUES ('orders', 'x', '/other')`,
			`INSERT INTO {skald_outbox} (topic, type, erased_at) VALUES ('orders', 'x', now())`,
			`INSERT INTO {skald_outbox} (topic, type) VALUES ('orders', 'x') RETURNING seq`,
			`SELECT nextval('{skald_outbox_seq_seq}')`,
			`UPDATE {skald_mark} SET outcome = 2`, `UPDATE {skald_answer} SET code = 2`,
			`UPDATE {skald_floor} SET at = now()`, `DELETE FROM {skald_step}`,
			`UPDATE {skald_step_floor} SET at = now()`, `DELETE FROM {skald_quarantine}`,
			`DELETE FROM {skald_mark}`, `DELETE FROM {skald_entity}`,
			`SELECT FROM {skald_shard}`, `SELECT FROM {skald_snapshot}`, `SELECT FROM {skald_relay}`,
			`SELECT FROM {skald_deferred}`, `UPDATE {skald_setting} SET value = 'x'`,
			`CREATE TABLE {mine} (x int)`, `DROP TABLE {skald_deferred}`,
		},
		"relay": {
			`INSERT INTO {skald_outbox} (topic, type) VALUES ('orders', 'x')`,
			`UPDATE {skald_outbox} SET type = 'y'`, `DELETE FROM {skald_outbox}`,
			`INSERT INTO {skald_mark} (consumer, source, id, outcome) VALUES ('a', 'b', 'c', 1)`,
			`UPDATE {skald_mark} SET outcome = 2`,
			`UPDATE {skald_step} SET state = 1`,
			`INSERT INTO {skald_step} (consumer, saga, step, occurrence, state) VALUES ('a', 'b', 'c', '', 1)`, `SELECT data FROM {skald_parked}`,
			`SELECT FROM {skald_entity}`, `UPDATE {skald_setting} SET name = 'x'`,
			`DELETE FROM {skald_shard}`, `UPDATE {skald_snapshot} SET seq = 0`,
			`SELECT nextval('{skald_outbox_seq_seq}')`, `SELECT FROM {kv}`, `CREATE TABLE {mine} (x int)`,
		},
		"reader": {
			`INSERT INTO {skald_outbox} (topic, type) VALUES ('orders', 'x')`,
			`UPDATE {skald_outbox} SET type = 'y'`, `DELETE FROM {skald_mark}`, `TRUNCATE {skald_outbox_0}`,
			`UPDATE {skald_shard} SET owner = 'me'`, `DELETE FROM {skald_deferred}`,
			`UPDATE {skald_setting} SET value = 'x'`, `CREATE TABLE {mine} (x int)`,
		},
	} {
		pool := b.as(t, b.role(t, role), "ends")
		for _, sql := range refused {
			if _, err := pool.Exec(ctx, b.q(sql)); sqlexec.SQLState(err) != "42501" {
				t.Errorf("%s: %s: %v", role, sql, err)
			}
		}
	}
	reader := b.as(t, b.role(t, "reader"), "looks")
	for _, table := range one[[]string](t, b,
		`SELECT array_agg(relname::text) FROM pg_class WHERE relnamespace = (SELECT oid FROM pg_namespace WHERE nspname = $1)
		AND relkind IN ('r', 'p', 'v') AND NOT relispartition AND relname LIKE 'skald%'`, b.schema) {
		if _, err := reader.Exec(ctx, b.q("SELECT * FROM {"+table+"}")); err != nil {
			t.Errorf("the reader cannot read %s: %v", table, err)
		}
	}
}

// TestMigratorRole checks that the migrator creates the tables in a given schema, and can then grant the
// others their rights.
func TestMigratorRole(t *testing.T) {
	t.Parallel()
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
	name := b.role(t, "app") // created and granted by the superuser; now by the owner
	text, err := Grants("app", &GrantOptions{Schema: b.schema, Name: name})
	if err != nil {
		t.Fatal(err)
	}
	b.exec(t, "REVOKE ALL ON ALL TABLES IN SCHEMA "+strings.TrimSuffix(b.prefix(), ".")+" FROM "+
		pgx.Identifier{name}.Sanitize())
	if _, err := pool.Exec(ctx, text, pgx.QueryExecModeSimpleProtocol); err != nil {
		t.Fatal(err)
	}
	s := b.storeAs(t, name)
	if err := errors.Join(s.Check(ctx, store.App), appDay(ctx, s, "")); err != nil {
		t.Error(err)
	}
	if _, err := Migrate(ctx, pool, &MigrateOptions{Schema: b.schema +
		" 2"}); sqlexec.SQLState(err) != "42501" {
		t.Errorf("it makes schemas: %v", err)
	}
}

func TestGrantsRefuse(t *testing.T) {
	t.Parallel()
	for _, bad := range [][2]string{{"owner", "x"}, {"app", "a$$b"},
		{"app", "a $role$; DROP ROLE b; DO $role$"}, {"../role/app", "x"}} {
		if text, err := Grants(bad[0], &GrantOptions{Name: bad[1]}); err == nil {
			t.Errorf("%q: %s", bad, text)
		}
	}
	if err := New(nil, nil).Check(context.Background(), "owner"); err == nil ||
		!strings.Contains(err.Error(), "app") {
		t.Errorf("an unknown role: %v", err)
	}
}
