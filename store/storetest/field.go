package storetest

import (
	"reflect"
	"slices"

	"github.com/skald-go/skald"
	"github.com/skald-go/skald/store"
)

func fieldTests[TTx any]() map[string]func(*suite[TTx]) {
	return map[string]func(*suite[TTx]){
		"NewOnes":  (*suite[TTx]).fieldNewOnes,
		"Cursor":   (*suite[TTx]).fieldCursor,
		"Deferred": (*suite[TTx]).fieldAside,
	}
}

// fieldNewOnes fails if a driver ignores a field for which the suite has no test. The driver must either
// refuse such a field, or store it; then the suite needs a test of the field.
func (s *suite[TTx]) fieldNewOnes() {
	apply, begin := s.tryApply, s.tryBegin
	lease := func(ask store.LeaseRequest) error {
		_, err := s.d.Lease(s.Context(), ask)
		return err
	}
	l := progressOf(s.lease(s.d, "one", "1")[0])
	wantRefused(s, store.Intake{}, begin, "Marks", "Steps", "Locks", "Sagas", "Settings", "Server",
		"Isolation", "Wait", "Handle")
	wantRefused(s, store.Setting{Name: "app.tenant"},
		func(set store.Setting) error { return begin(store.Intake{Settings: []store.Setting{set}}) },
		"Name", "Value")
	wantRefused(s, store.Effect{}, apply, "Mark", "Step", "Locks", "Rows", "Shard", "Answer", "Quarantine",
		"Admitted", "Admit", "Park", "Requeue", "Finish", "Rewind", "Control", "DropDeferred", "Audit",
		"Reservation", "Saga", "Tracked", "Definitions")
	apart := quarantined(message("a", 1), store.Conflict)
	wantRefused(s, apart, func(q store.Quarantined) error { return apply(store.Effect{Quarantine: &q}) },
		"Consumer", "Identity", "Fingerprint", "Why", "Message", "Bytes", "Number", "At", "Admitted", "By",
		"Reason", "Taken", "Fault")
	wantRefused(s, store.ClaimRequest{Consumer: consumer}, func(w store.ClaimRequest) error {
		_, err := s.d.Claim(s.Context(), w)
		return err
	}, "Consumer", "Session", "ClaimSize", "Lease", "Not",
		"Sync", "Sagas")
	wantRefused(s, store.Admit{Number: 1},
		func(a store.Admit) error { return apply(store.Effect{Admit: &a}) },
		"Number", "By", "Reason", "Back")
	wantRefused(s, store.QuarantineQuery{}, func(q store.QuarantineQuery) error {
		_, err := store.ListQuarantined(s.Context(), s.d, q)
		return err
	}, "Consumer", "ID", "Topic", "Type", "Why", "Admitted", "Taken", "Bare", "After", "Limit")
	wantRefused(s, mark(), func(m store.Mark) error { return begin(intake(m)) }, "Consumer", "Identity",
		"Outcome", "Reason", "Fingerprint", "Code", "Result", "Emitted", "Keep", "Held",
		"Headers", "KeyOrder", "Key", "Attempts")
	wantRefused(s, mark().Identity, func(id store.Identity) error {
		m := mark()
		m.Identity = id
		return begin(intake(m))
	}, "Source", "ID")
	wantRefused(s, store.Lock{Space: "a", Key: "b"},
		func(l store.Lock) error { return begin(store.Intake{Locks: []store.Lock{l}}) }, "Space",
		"Key", "Version")
	wantRefused(s, l, func(p store.Progress) error { return apply(progress(p)) },
		"Shard", "Epoch", "Token", "Cursor", "Incarnation", "Deferred", "Freed")
	wantRefused(s, store.LeaseRequest{Owner: "one", Session: "1"}, lease, "Owner", "Session", "TTL", "Wait",
		"Release", "Leave", "BrokerAway", "Yield", "SnapshotBase", "LastKnown")
	wantRefused(s, store.Window{}, func(w store.Window) error {
		_, err := s.d.Pull(s.Context(), w, 1)
		return err
	}, "Base", "Tip", "After", "Buckets")
	wantRefused(s, store.Retention{}, func(r store.Retention) error {
		_, err := s.d.Maintain(s.Context(), store.Maintain{Keep: r})
		return err
	}, "Outbox", "Marks", "Steps", "Sagas")
	wantRefused(s, taking("a"),
		func(step store.Step) error { return begin(store.Intake{Steps: []store.Step{step}}) },
		"Consumer", "Saga", "Name", "Occurrence", "State", "Identity", "Begun", "Held", "Code", "Result",
		"OutsideKey", "Outcome", "From")
	wantRefused(s, store.Park{Parked: parked("k", 1)},
		func(k store.Park) error { return apply(store.Effect{Park: &k}) },
		"Parked", "Was", "WasCall", "WasClaim", "Step", "Server", "MostRows", "MostBytes", "Marked",
		"Instead")
	wantRefused(s, *freed(parked("k", 1), nil).Finish,
		func(f store.Finish) error { return apply(store.Effect{Finish: &f}) }, "Consumer", "Identity",
		"Attempts", "WasCall", "DeadAt", "Place")
	wantRefused(s, skald.Header{Name: "x"}, func(h skald.Header) error {
		return apply(rows(changed(func(m *skald.Message) { m.Headers = []skald.Header{h} })))
	}, "Name", "Value")
}

func (s *suite[TTx]) tryApply(e store.Effect) error {
	_, err := s.d.Apply(s.Context(), e)
	return err
}

// tryBegin begins a unit and rolls it back.
func (s *suite[TTx]) tryBegin(in store.Intake) error {
	u, err := s.d.Begin(s.Context(), in)
	if err == nil {
		_, err = u.Rollback(s.Context())
	}
	return err
}

// wantRefused sets one field of a value, for each field that is not in known. It fails the test unless the
// function send returns an error for this value.
func wantRefused[TTx, T any](s *suite[TTx], like T, send func(T) error, known ...string) {
	s.Helper()
	for f := range reflect.TypeFor[T]().Fields() {
		if slices.Contains(known, f.Name) {
			continue
		}
		v := like
		fill(reflect.ValueOf(&v).Elem().FieldByIndex(f.Index), f.Name)
		if send(v) == nil {
			s.Errorf("%T.%s: no test of the suite shows that it is stored, and the driver does not refuse it",
				like, f.Name)
		}
	}
}

// fieldCursor checks that every field of a cursor is stored, including future ones.
func (s *suite[TTx]) fieldCursor() {
	s.insert(message("a", 1))
	base := s.tick("")
	s.insert(message("a", 2))
	var c store.Cursor
	fill(reflect.ValueOf(&c).Elem(), "")
	c.Base, c.Tip = base, s.tick(base)
	p := progressOf(s.lease(s.d, "one", "1")[0])
	p.Cursor = &c
	s.apply(progress(p))
	if got := s.lease(s.d, "one", "1")[0].Cursor; got != c {
		s.Errorf("the cursor %+v is stored as %+v", c, got)
	}
}

// fieldAside checks that every field of a deferred row is stored, including future ones, except Due.
func (s *suite[TTx]) fieldAside() {
	var a store.DeferredRow
	fill(reflect.ValueOf(&a).Elem(), "")
	a.Row = s.insertOne(filled())
	a.Due = 0
	s.setAside(a)
	got := s.readDue(1)
	if len(got) != 1 {
		s.Fatalf("%d rows are deferred, want 1", len(got))
	}
	s.wantSame(got[0].Row, a.Message)
	got[0].Row = a.Row
	if !reflect.DeepEqual(got[0], a) {
		s.Errorf("%+v is deferred as %+v", a, got[0])
	}
}
