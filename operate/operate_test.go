package operate_test

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"testing"

	"github.com/skald-go/skald"
	"github.com/skald-go/skald/broker"
	"github.com/skald-go/skald/operate"
	"github.com/skald-go/skald/store"
	"github.com/skald-go/skald/store/memstore"
	"github.com/skald-go/skald/store/sqlitestore"
)

// A base is a database of each kind that needs no server.
type base interface {
	store.Store
}

func onEach(t *testing.T, try func(t *testing.T, db base)) {
	t.Parallel()
	t.Run("memory", func(t *testing.T) {
		t.Parallel()
		try(t, memstore.New(nil))
	})
	t.Run("sqlite", func(t *testing.T) {
		t.Parallel()
		db, err := sqlitestore.Open(filepath.Join(t.TempDir(), "o.db"))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = db.Close() })
		if _, err := sqlitestore.Migrate(t.Context(), db, nil); err != nil {
			t.Fatal(err)
		}
		try(t, sqlitestore.New(db, nil))
	})
}

func do(t *testing.T, db operate.Applier, e store.Effect) {
	t.Helper()
	if stood, err := db.Apply(t.Context(), e); err != nil || !stood[0] {
		t.Fatalf("%+v: %v, %v", e, stood, err)
	}
}

// keep parks messages of these ids or, with a kind, makes dead letters of them.
func keep(t *testing.T, db operate.Applier, kind string, ids ...string) {
	t.Helper()
	for _, id := range ids {
		p := store.Parked{Consumer: "stock", Identity: store.Identity{Source: "/o", ID: id}, Attempts: 1,
			Message: skald.Message{ID: id, Source: "/o", Topic: "t", Type: "x", Data: []byte(`{}`),
				ContentType: "application/json"}}
		if kind != "" {
			p.Dead = &store.Death{Kind: kind, Fingerprint: "0123456789ab"}
		}
		do(t, db, store.Effect{Park: &store.Park{Parked: p, Marked: kind == "rejected"}})
	}
}

// kept are the ids of dead letters, or of parked messages, in order.
func kept(t *testing.T, db operate.MessageStore, dead bool) (ids []string) {
	t.Helper()
	for p, err := range operate.List(t.Context(), db, operate.Selection{Dead: dead}, true) {
		if err != nil {
			t.Fatal(err)
		}
		ids = append(ids, p.ID)
	}
	return ids
}

// audited are the notes of what was done, in order.
func audited(t *testing.T, db operate.HistoryStore) []store.Audit {
	t.Helper()
	list, err := db.Audits(t.Context(), store.AuditQuery{Limit: 100})
	if err != nil {
		t.Fatal(err)
	}
	slices.Reverse(list)
	return list
}

func byAnn() operate.Order { return operate.Order{Author: "ann", Reason: "mended"} }

// A dry run of each verb on dead letters reports what it would do, and changes nothing: no message, no mark,
// no note.
func TestDryRunChangesNothing(t *testing.T) {
	onEach(t, func(t *testing.T, db base) {
		ctx, dry := t.Context(), operate.Order{DryRun: true}
		keep(t, db, "attempts", "1", "2")
		if r, err := operate.Drop(ctx, db, operate.Selection{}, "", dry); err != nil || r.Done != 2 {
			t.Errorf("drop: %+v, %v", r, err)
		}
		if r, err := operate.Redrive(ctx, db, operate.Selection{}, operate.Pace{Run: "r", Canary: true},
			dry); err != nil || len(r.Planned) != 2 {
			t.Errorf("redrive: %+v, %v", r, err)
		}
		if r, err := operate.Edit(ctx, db, operate.Selection{ID: "1"}, []byte(`{"n": 1}`), dry); err != nil ||
			r.InsteadOf != "1" {
			t.Errorf("edit: %+v, %v", r, err)
		}
		if r, err := operate.Write(ctx, db, operate.Draft{Topic: "t", Type: "x", Data: []byte(`{}`),
			ContentType: "application/json"}, dry); err != nil || r.Message.ID == "" {
			t.Errorf("write: %+v, %v", r, err)
		}
		seen, err := db.Seen(ctx, "stock", []store.Identity{{Source: "/o", ID: "1"}, {Source: "/o", ID: "2"}})
		if err != nil || seen[0].Outcome != store.Fresh || seen[1].Outcome != store.Fresh {
			t.Errorf("marks: %+v, %v", seen, err)
		}
		b, err := store.ReadBacklog(ctx, db)
		if dead := kept(t, db, true); err != nil || len(dead) != 2 || len(audited(t, db)) != 0 ||
			b.Pending != 0 {
			t.Errorf("dead letters %v, notes %+v, backlog %+v, %v", dead, audited(t, db), b, err)
		}
	})
}

// What is done to each message is noted with author and reason; progress and confirmation are told how many
// there are.
func TestOrderIsKept(t *testing.T) {
	onEach(t, func(t *testing.T, db base) {
		keep(t, db, "attempts", "1", "2", "3")
		o, asked, steps := byAnn(), 0, []int(nil)
		o.Confirm = func(_ context.Context, n int) error { asked = n; return nil }
		o.Progress = func(done, of int) { steps = append(steps, done, of) }
		r, err := operate.Redrive(t.Context(), db, operate.Selection{Consumer: "stock"}, operate.Pace{}, o)
		if err != nil || r.Done != 3 || asked != 3 || !slices.Equal(steps, []int{1, 3, 2, 3, 3, 3}) {
			t.Errorf("%+v, %v: asked of %d, progress %v", r, err, asked, steps)
		}
		if dead, parked := kept(t, db, true), kept(t, db, false); len(dead) != 0 ||
			!slices.Equal(parked, []string{"1", "2", "3"}) {
			t.Errorf("dead letters %v, parked %v", dead, parked)
		}
		for i, a := range audited(t, db) {
			if a.Author != "ann" || a.Reason != "mended" || a.Action != "redrive" || a.Consumer != "stock" ||
				a.ID != []string{"1", "2", "3"}[i] {
				t.Errorf("noted %+v", a)
			}
		}
	})
}

// A run that goes on releases nothing again that it has released, and that failed again.
func TestReleaseGoesOn(t *testing.T) {
	onEach(t, func(t *testing.T, db base) {
		keep(t, db, "", "1", "2", "3")
		o := byAnn()
		o.Run = "r"
		if r, err := operate.Release(t.Context(), db, operate.Selection{ID: "2"}, o); err != nil ||
			r.Done != 1 {
			t.Fatalf("%+v, %v", r, err)
		}
		if r, err := operate.Release(t.Context(), db, operate.Selection{All: true}, o); err != nil ||
			r.Selected != 2 || r.Done != 2 {
			t.Errorf("%+v, %v", r, err)
		}
		if _, err := operate.Release(t.Context(), db, operate.Selection{All: true}, o); !errors.As(err,
			new(*operate.NoMatchError)) {
			t.Errorf("all are released: %v", err)
		}
		if acts := audited(t, db); len(acts) != 3 {
			t.Errorf("%d acts", len(acts))
		}
	})
}

// Nothing is done without an author and a reason, to all because nothing was selected, or against a no.
func TestOrderIsRefused(t *testing.T) {
	onEach(t, func(t *testing.T, db base) {
		keep(t, db, "", "1")
		no := errors.New("no")
		refuses := byAnn()
		refuses.Confirm = func(context.Context, int) error { return no }
		for name, c := range map[string]struct {
			s operate.Selection
			o operate.Order
		}{"no reason": {operate.Selection{All: true}, operate.Order{Author: "ann"}},
			"no author":    {operate.Selection{All: true}, operate.Order{Reason: "x"}},
			"no selection": {operate.Selection{}, byAnn()}, "a no": {operate.Selection{All: true}, refuses}} {
			var usage *operate.UsageError
			if _, err := operate.Release(t.Context(), db, c.s, c.o); !errors.As(err, &usage) &&
				!errors.Is(err, no) {
				t.Errorf("%s: %v", name, err)
			}
		}
		if n := len(audited(t, db)); n != 0 {
			t.Errorf("%d notes", n)
		}
	})
}

// A watched redrive that was interrupted goes on under its name, redrives none twice, and leaves rejections.
func TestRedriveGoesOn(t *testing.T) {
	onEach(t, func(t *testing.T, db base) {
		keep(t, db, "attempts", "1", "2")
		keep(t, db, "rejected", "3")
		ctx, cancel := context.WithCancel(t.Context())
		o := byAnn()
		o.Progress = func(int, int) { cancel() }
		pace := operate.Pace{Run: "r", MaxErrors: 1, Wait: 1}
		if _, err := operate.Redrive(ctx, db, operate.Selection{All: true}, pace, o); !errors.Is(err,
			context.Canceled) {
			t.Fatal(err)
		}
		o.Progress = nil
		r, err := operate.Redrive(t.Context(), db, operate.Selection{All: true}, pace, o)
		if err != nil || r.Done != 2 || r.Open != 2 || r.Rejections != 1 || r.Begun.IsZero() {
			t.Errorf("%+v, %v", r, err)
		}
		var redrives int
		for _, a := range audited(t, db) {
			if a.Action == "redrive" {
				redrives++
			}
		}
		if dead := kept(t, db, true); redrives != 2 || !slices.Equal(dead, []string{"3"}) {
			t.Errorf("%d redrives, dead letters %v", redrives, dead)
		}
	})
}

// rivalled is a database in which somebody else is first with one of what is to be changed.
type rivalled struct{ base }

func (r rivalled) Apply(ctx context.Context, es ...store.Effect) ([]bool, error) {
	if e := es[0].Requeue; e != nil && e.ID == "2" {
		if _, err := r.base.Apply(ctx, store.Effect{Finish: &store.Finish{Consumer: e.Consumer,
			Identity: e.Identity}}); err != nil {
			return nil, err
		}
	}
	if a := es[0].Admit; a != nil {
		if n, err := store.AdmitAll(ctx, r.base, []int64{a.Number}, "rival", "first"); n != 1 || err != nil {
			return nil, errors.Join(errors.New("no rival"), err)
		}
	}
	return r.base.Apply(ctx, es...)
}

func (r rivalled) SyncConsumer(context.Context, store.SyncRequest) (store.SyncResult, error) {
	// it is gone by now
	return store.SyncResult{Checkpoints: []store.Checkpoint{{Partition: "t/0", Origin: "here", Position: 9}}},
		nil
}

// A verb that many messages could be selected for says so where there are none, also in a dry run.
func TestNoneOfMany(t *testing.T) {
	onEach(t, func(t *testing.T, db base) {
		for _, o := range []operate.Order{byAnn(), {DryRun: true}} {
			_, released := operate.Release(t.Context(), db, operate.Selection{All: true}, o)
			_, admitted := operate.Admit(t.Context(), db, operate.Admission{All: true}, o)
			_, filtered := operate.Admit(t.Context(), db, operate.Admission{Consumer: "stock"}, o)
			for verb, err := range map[string]error{"release": released, "admit all": admitted,
				"admit": filtered} {
				if none := new(operate.NoMatchError); !errors.As(err, &none) {
					t.Errorf("%s, dry run %t: %v", verb, o.DryRun, err)
				}
			}
		}
	})
}

// Where somebody else is first with one of many, the others are done, and the error tells.
func TestPartOfMany(t *testing.T) {
	onEach(t, func(t *testing.T, db base) {
		keep(t, db, "", "1", "2", "3")
		for _, id := range []string{"1", "2", "3"} {
			do(t, db, store.Effect{Quarantine: &store.Quarantined{Consumer: "stock",
				Identity: store.Identity{Source: "/o", ID: id}, Why: store.TooOld,
				Message: skald.Message{ID: id, Source: "/o", Topic: "t", Type: "x"}}})
		}
		var partly *operate.PartialError
		if r, err := operate.Release(t.Context(), rivalled{db}, operate.Selection{All: true},
			byAnn()); !errors.As(err, &partly) || r.Done != 2 {
			t.Errorf("release: %+v, %v", r, err)
		}
		if r, err := operate.Admit(t.Context(), rivalled{db}, operate.Admission{Consumer: "stock"},
			byAnn()); !errors.As(err, &partly) || r.Done != 2 {
			t.Errorf("admit: %+v, %v", r, err)
		}
		acts, err := db.Audits(t.Context(), store.AuditQuery{Limit: 2})
		if err != nil || len(acts) != 2 || acts[0].Action != "admit" || acts[0].Author != "ann" ||
			acts[0].ID == acts[1].ID {
			t.Errorf("acts: %+v, %v", acts, err)
		}
		shards, err := operate.Rewind(t.Context(), rivalled{db}, "stock",
			[]broker.Place{{Partition: broker.Partition{Name: "t/0", Origin: "here"}, Position: 5}}, byAnn())
		if !errors.As(err, &partly) || shards[0].Rewound {
			t.Errorf("rewind: %+v, %v", shards, err)
		}
	})
}

// sized notes the most bytes of payload that one list of kept messages had.
type sized struct {
	*memstore.Store
	most int
}

func (s *sized) List(ctx context.Context, what store.List) (store.Listed, error) {
	l, err := s.Store.List(ctx, what)
	n := 0
	for i := range l.Parked {
		n += len(l.Parked[i].Message.Data)
	}
	s.most = max(s.most, n)
	return l, err
}

// A list with payloads reads pages of bounded size: of small messages many, of large ones few.
func TestListReadsPagesOfBoundedSize(t *testing.T) {
	db := &sized{Store: memstore.New(nil)}
	const all = 300
	for i := range all {
		p := store.Parked{Consumer: "stock", Identity: store.Identity{Source: "/o", ID: fmt.Sprint(i)},
			Dead: &store.Death{Kind: "attempts"}, Message: skald.Message{ID: fmt.Sprint(i), Source: "/o",
				Topic: "t", Type: "x", Data: make([]byte, 10+i/200*200_000)}}
		do(t, db, store.Effect{Park: &store.Park{Parked: p}})
	}
	n := 0
	for p, err := range operate.List(t.Context(), db, operate.Selection{Dead: true}, false) {
		if err != nil || p.ID != fmt.Sprint(n) {
			t.Fatal(p.ID, err)
		}
		n++
	}
	if n != all || db.most > 2*store.PageBytes {
		t.Errorf("%d of %d letters, the largest page has %d bytes", n, all, db.most)
	}
}
