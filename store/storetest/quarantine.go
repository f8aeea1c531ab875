package storetest

import (
	"fmt"
	"reflect"
	"strings"
	"time"

	"github.com/skald-go/skald"
	"github.com/skald-go/skald/store"
)

func quarantineTests[TTx any]() map[string]func(*suite[TTx]) {
	return map[string]func(*suite[TTx]){
		"Kept":    (*suite[TTx]).quarantineKept,
		"Queries": (*suite[TTx]).quarantineQueries,
		"Page":    (*suite[TTx]).quarantinePage,
		"Bounded": (*suite[TTx]).quarantineBounded,
		"Act":     (*suite[TTx]).quarantineAct,
		"Admit":   (*suite[TTx]).quarantineAdmit,
		"Back":    (*suite[TTx]).quarantineBack,
		"Seen":    (*suite[TTx]).quarantineSeen,
		"Rivals":  (*suite[TTx]).quarantineRivals,
		"Prune":   (*suite[TTx]).quarantinePrune,
	}
}

func floorTests[TTx any]() map[string]func(*suite[TTx]) {
	return map[string]func(*suite[TTx]){
		"Rises":       (*suite[TTx]).floorRises,
		"NewConsumer": (*suite[TTx]).floorNewConsumer,
		"Held":        (*suite[TTx]).floorHeld,
	}
}

func quarantined(m skald.Message, why store.Outcome) store.Quarantined {
	return store.Quarantined{Consumer: consumer, Identity: store.Identity{Source: m.Source, ID: m.ID},
		Fingerprint: 7, Why: why, Message: m}
}

func (s *suite[TTx]) inQuarantine(q store.QuarantineQuery) []store.Quarantined {
	s.Helper()
	out, err := store.ListQuarantined(s.Context(), s.d, q)
	s.ok(err, "list quarantine")
	return out
}

// quarantinePage checks that a page of admitted messages is full while there are more messages, and that
// every field of the query has an effect.
func (s *suite[TTx]) quarantinePage() {
	var numbers []int64
	for n := range 4 {
		q := quarantined(message("a", n), []store.Outcome{store.TooOld, store.Conflict}[n%2])
		q.ID = fmt.Sprint(n)
		s.apply(store.Effect{Quarantine: &q})
		numbers = append(numbers, s.inQuarantine(store.QuarantineQuery{ID: q.ID})[0].Number)
	}
	if n, err := store.AdmitAll(s.Context(), s.d, numbers[2:], "who", "why"); err != nil || n != 2 {
		s.Fatalf("%d are admitted: %v", n, err)
	}
	for _, of := range []string{"", consumer} {
		for name, q := range map[string]store.QuarantineQuery{"23": {}, "2": {Limit: 1}, "3": {ID: "3"},
			" 2": {Why: store.TooOld}, "": {Type: "other"}, " ": {Topic: "other"}} {
			q.Consumer, q.Admitted = of, true
			got := ""
			for _, one := range s.inQuarantine(q) {
				got += one.ID
			}
			if got != strings.TrimSpace(name) {
				s.Errorf("%+v lists %q", q, got)
			}
		}
	}
}

// quarantineKept checks that every field of the message is returned. A repeat changes nothing; another
// payload is another message.
func (s *suite[TTx]) quarantineKept() {
	m := filled()
	m.Source = "/other"
	first := quarantined(m, store.Conflict)
	odd := quarantined(skald.Message{ID: "größe/\xff", Source: "\xfe", Type: "t\n", Topic: "orders",
		Key: []byte{}, Data: []byte{}}, store.TooOld)
	other := first
	other.Fingerprint, other.Message.Data = -8, nil
	for range 2 {
		s.apply(store.Effect{Quarantine: &first}, store.Effect{Quarantine: &odd},
			store.Effect{Quarantine: &other})
	}
	got := s.inQuarantine(store.QuarantineQuery{})
	if len(got) != 3 {
		s.Fatalf("%d messages are in quarantine, want 3: %+v", len(got), got)
	}
	for i, want := range []store.Quarantined{first, odd, other} {
		g := got[i]
		if g.Why != want.Why || g.Fingerprint != want.Fingerprint || g.Consumer != consumer ||
			g.Number <= 0 || time.Since(g.At).Abs() > time.Hour ||
			!g.Admitted.IsZero() || !g.Taken.IsZero() || i > 0 && g.Number <= got[i-1].Number {
			s.Errorf("%+v is kept as %+v", want, g)
		}
		g.Message.Time, want.Message.Time = g.Message.Time.UTC(), want.Message.Time.UTC()
		if !reflect.DeepEqual(g.Message, want.Message) {
			s.Errorf("the message %+v is kept as %+v", want.Message, g.Message)
		}
	}
	for i, one := range s.inQuarantine(store.QuarantineQuery{Bare: true}) {
		want := got[i].Message
		if want.Data = nil; !reflect.DeepEqual(one.Message, want) || one.Bytes != len(got[i].Message.Data) ||
			one.Bytes != got[i].Bytes {
			s.Errorf("without payloads the message is %+v of %d bytes, want %+v", one.Message,
				one.Bytes, got[i])
		}
	}
	s.wantCounts(0, 0, 0)
}

func (s *suite[TTx]) quarantineQueries() {
	var all []store.Quarantined
	for i := range 6 {
		m := message("a", i)
		m.Topic, m.Type = []string{"orders", "stock"}[i%2], []string{"x", "y", "z"}[i%3]
		q := quarantined(m, []store.Outcome{store.Conflict, store.TooOld}[i/3])
		q.Consumer = []string{"stock", "mail"}[i/5]
		all = append(all, q)
		s.apply(store.Effect{Quarantine: &q})
	}
	got := s.inQuarantine(store.QuarantineQuery{})
	for name, c := range map[string]struct {
		q    store.QuarantineQuery
		want []int
	}{
		"consumer": {store.QuarantineQuery{Consumer: "mail"}, []int{5}},
		"id":       {store.QuarantineQuery{ID: all[2].ID}, []int{2}},
		"topic":    {store.QuarantineQuery{Topic: "stock"}, []int{1, 3, 5}},
		"type":     {store.QuarantineQuery{Type: "y"}, []int{1, 4}},
		"why":      {store.QuarantineQuery{Why: store.TooOld}, []int{3, 4, 5}},
		"after":    {store.QuarantineQuery{After: got[3].Number}, []int{4, 5}},
		"limit":    {store.QuarantineQuery{Limit: 2}, []int{0, 1}},
		"several": {store.QuarantineQuery{Topic: "orders", Why: store.Conflict, After: got[0].Number},
			[]int{2}},
		"admitted": {store.QuarantineQuery{Admitted: true}, nil},
	} {
		var ids []string
		for _, i := range c.want {
			ids = append(ids, all[i].ID)
		}
		var have []string
		for _, one := range s.inQuarantine(c.q) {
			have = append(have, one.ID)
		}
		if !reflect.DeepEqual(have, ids) {
			s.Errorf("by %s: %v, want %v", name, have, ids)
		}
	}
}

// quarantineAct checks that the first admit stores an audit, and that the second admit stores none.
func (s *suite[TTx]) quarantineAct() {
	q := quarantined(message("a", 1), store.TooOld)
	s.apply(store.Effect{Quarantine: &q})
	number := s.inQuarantine(store.QuarantineQuery{})[0].Number
	for i, author := range []string{"ann", "carl"} {
		act := &store.Audit{Author: author, Reason: "looked at it", Action: "admit", Consumer: q.Consumer,
			Identity: q.Identity}
		s.applied([]bool{i == 0}, store.Effect{Admit: &store.Admit{Number: number, By: author,
			Reason: "looked at it"}, Audit: act})
		acts, err := s.d.Audits(s.Context(), store.AuditQuery{Limit: 10})
		if s.ok(err, "list acts"); len(acts) != 1 || acts[0].Author != "ann" ||
			acts[0].Identity != q.Identity {
			s.Fatalf("acts: %+v", acts)
		}
	}
}

// quarantineBack checks that an admitted message that cannot be taken returns to quarantine with its
// reason, and can be admitted again.
func (s *suite[TTx]) quarantineBack() {
	q := quarantined(message("a", 1), store.TooOld)
	s.apply(store.Effect{Quarantine: &q})
	number := s.inQuarantine(store.QuarantineQuery{})[0].Number
	back := store.Effect{Admit: &store.Admit{Number: number, By: "stock", Reason: "unreadable", Back: true}}
	s.applied([]bool{false}, back) // it is not admitted
	for range 2 {
		if n, err := store.AdmitAll(s.Context(), s.d, []int64{number}, "ann", "look"); err != nil || n != 1 {
			s.Fatalf("admit: %d, %v", n, err)
		}
		s.applied([]bool{true}, back)
		s.applied([]bool{false}, back)
		if due := s.inQuarantine(store.QuarantineQuery{Consumer: consumer, Admitted: true}); len(due) != 0 {
			s.Fatalf("still admitted: %+v", due)
		}
		left := s.inQuarantine(store.QuarantineQuery{})
		if len(left) != 1 || left[0].By != "stock" || left[0].Reason != "unreadable" ||
			!left[0].Admitted.IsZero() {
			s.Fatalf("put back: %+v", left)
		}
	}
}

// quarantineSeen checks that a claim reports whether a message of its consumer is admitted and not taken,
// and that ClaimRequest.Sync reads the same as SyncConsumer.
func (s *suite[TTx]) quarantineSeen() {
	seen := func(consumer string, attend bool) store.Claimed {
		s.Helper()
		c, err := s.d.Claim(s.Context(), store.ClaimRequest{Consumer: consumer, Session: "life",
			ClaimSize: store.ClaimSize{Keys: 1}, Lease: time.Minute, Sync: attend})
		s.ok(err, "claim")
		return c
	}
	q := quarantined(message("a", 1), store.TooOld)
	s.apply(store.Effect{Quarantine: &q})
	if seen(consumer, false).Admitted {
		s.Error("a claim reports a message as admitted that was not")
	}
	number := s.inQuarantine(store.QuarantineQuery{})[0].Number
	if n, err := store.AdmitAll(s.Context(), s.d, []int64{number}, "ann", "look"); err != nil || n != 1 {
		s.Fatalf("admit: %d, %v", n, err)
	}
	if !seen(consumer, false).Admitted || seen("mail", false).Admitted {
		s.Error("a claim does not report the message that was admitted, or another consumer's does")
	}
	due := s.inQuarantine(store.QuarantineQuery{Consumer: consumer, Admitted: true})
	s.apply(store.Effect{Admitted: &due[0]})
	if seen(consumer, false).Admitted {
		s.Error("a claim reports a message that was taken")
	}
	_, err := s.d.SyncConsumer(s.Context(), store.SyncRequest{Consumer: consumer, Take: true, Session: "life",
		Stamp:       "1",
		Checkpoints: []store.Checkpoint{{Partition: "p", Origin: "o", Position: 3}}})
	s.ok(err, "sync the consumer")
	want, err := s.d.SyncConsumer(s.Context(), store.SyncRequest{Consumer: consumer})
	s.ok(err, "sync the consumer")
	if got := seen(consumer, true).Sync; !reflect.DeepEqual(got, want) || len(got.Checkpoints) != 1 {
		s.Errorf("a claim reads %+v, and SyncConsumer %+v", got, want)
	}
	if got := seen(consumer, false).Sync; len(got.Checkpoints) > 0 {
		s.Errorf("a claim reads %+v unasked", got)
	}
}

// quarantineAdmit checks that an admitted message is taken once, together with the effect, and that a
// repeat does not bring it back.
func (s *suite[TTx]) quarantineAdmit() {
	q, said := quarantined(message("a", 1), store.TooOld), rows(message("b", 1)).Rows
	s.apply(store.Effect{Quarantine: &q})
	s.applied([]bool{false}, store.Effect{Admitted: &q, Rows: said})
	number := s.inQuarantine(store.QuarantineQuery{})[0].Number
	for i := range 2 {
		n, err := store.AdmitAll(s.Context(), s.d, []int64{number, number + 1},
			"ann", "the topic was replayed")
		if s.ok(err, "admit"); n != 1-i {
			s.Fatalf("admit %d changes %d", i, n)
		}
	}
	due := s.inQuarantine(store.QuarantineQuery{Consumer: consumer, Admitted: true})
	if len(due) != 1 || due[0].By != "ann" || due[0].Reason != "the topic was replayed" ||
		due[0].Admitted.IsZero() {
		s.Fatalf("admitted %+v", due)
	}
	if other := s.inQuarantine(store.QuarantineQuery{Consumer: "mail", Admitted: true}); len(other) != 0 {
		s.Errorf("another consumer has %+v", other)
	}
	u := s.begin(s.d, store.Intake{})
	s.put(u.Tx(), "k", "v")
	s.commit(u, store.Effect{Admitted: &due[0], Rows: said})
	s.wantUser("k", "v")
	s.wantCounts(1, 0, 0)
	u = s.begin(s.d, store.Intake{})
	s.put(u.Tx(), "k", "twice")
	s.wantError(u.Commit(s.Context(), store.Effect{Admitted: &due[0], Rows: said}), store.ErrLost,
		"a second taking")
	s.apply(store.Effect{Quarantine: &q})
	s.wantUser("k", "v")
	s.wantCounts(1, 0, 0)
	if left := s.inQuarantine(store.QuarantineQuery{}); len(left) != 0 {
		s.Errorf("left in quarantine: %+v", left)
	}
	if all := s.inQuarantine(store.QuarantineQuery{Taken: true}); len(all) != 1 || all[0].Taken.IsZero() {
		s.Errorf("with what was taken: %+v", all)
	}
}

func (s *suite[TTx]) quarantineRivals() {
	if !s.can.Rivals {
		s.Skip("a second transaction waits, whatever it touches")
	}
	q := quarantined(message("a", 1), store.Conflict)
	s.apply(store.Effect{Quarantine: &q})
	_, err := store.AdmitAll(s.Context(), s.d, []int64{s.inQuarantine(store.QuarantineQuery{})[0].Number},
		"ann", "")
	s.ok(err, "admit")
	one, two := s.begin(s.d, store.Intake{Wait: patience}),
		s.begin(s.db.Driver(s), store.Intake{Wait: patience})
	s.put(one.Tx(), "one", "1")
	s.put(two.Tx(), "two", "1")
	errs := make(chan error, 2)
	for _, u := range []store.Unit[TTx]{one, two} {
		go func() { errs <- u.Commit(s.Context(), store.Effect{Admitted: &q}) }()
	}
	a, b := <-errs, <-errs
	if (a == nil) == (b == nil) {
		s.Fatalf("two that took one message: %v, %v", a, b)
	}
	if a != nil {
		b = a
	}
	s.wantError(b, store.ErrLost, "the loser")
	_, has1 := s.db.Get(s, "one")
	if _, has2 := s.db.Get(s, "two"); has1 == has2 {
		s.Errorf("the effects of both, or of none: %v %v", has1, has2)
	}
}

// quarantinePrune checks that only taken messages are deleted, by the retention of marks.
func (s *suite[TTx]) quarantinePrune() {
	taken, waits := quarantined(message("a", 1), store.Conflict), quarantined(message("a", 2), store.Conflict)
	s.apply(store.Effect{Quarantine: &taken}, store.Effect{Quarantine: &waits})
	_, err := store.AdmitAll(s.Context(), s.d, []int64{s.inQuarantine(store.QuarantineQuery{})[0].Number},
		"ann", "")
	s.ok(err, "admit")
	s.apply(store.Effect{Admitted: &taken})
	s.maintain()
	if n := len(s.inQuarantine(store.QuarantineQuery{Taken: true})); n != 2 {
		s.Errorf("of two young messages %d are left", n)
	}
	s.db.Age(s, 40*day)
	s.waitUntil("what was taken goes", func() bool {
		s.maintain()
		return len(s.inQuarantine(store.QuarantineQuery{Taken: true})) == 1
	})
	if left := s.inQuarantine(store.QuarantineQuery{}); len(left) != 1 || left[0].ID != waits.ID {
		s.Errorf("left: %+v", left)
	}
}

// floorRises checks that a message without a mark below the floor is too old, that a remaining mark is
// still known, and that consumers have separate floors.
func (s *suite[TTx]) floorRises() {
	old, other := aged(tooOld), mark()
	other.Consumer = "mail"
	s.commit(s.begin(s.d, intake(old)))
	s.db.Age(s, 31*day)
	s.commit(s.begin(s.d, intake(other)))
	s.waitUntil("the old mark goes", func() bool {
		s.maintain()
		return s.db.Count(s).Marks == 1
	})
	newer := func() store.Mark { m := mark(); m.ID = recentID(); return m }
	never := aged(tooOld)
	for _, m := range []store.Mark{old, never} {
		u := s.begin(s.d, intake(m, newer()))
		s.found(u, store.TooOld, store.Fresh)
		s.rollback(u)
		s.applied([]bool{false}, store.Effect{Mark: &m, Rows: rows(message("a", 1)).Rows})
		m.Consumer = "mail"
		s.commit(s.begin(s.d, intake(m)))
		s.seen(m, store.Done)
	}
	s.wantCounts(0, 3, 0)
	if s.haveSettings() {
		u := s.begin(s.d, settings(intake(aged(tooOld), newer()), "app.tenant", "42"))
		s.found(u, store.TooOld, store.Fresh)
		s.rollback(u)
	}
	for _, young := range []store.Mark{newer(), aged(-30 * day)} {
		u := s.begin(s.d, intake(young))
		s.found(u, store.Fresh)
		s.rollback(u)
	}
	timeless := mark()
	timeless.ID = "7"
	s.commit(s.begin(s.d, intake(timeless)))
}

// floorNewConsumer checks a new consumer that begins with messages older than the retention of marks. It
// takes each message once, even while the retention runs.
func (s *suite[TTx]) floorNewConsumer() {
	var all []store.Mark
	for ago := 80; ago >= 0; ago -= 4 {
		m := aged(time.Duration(ago) * day)
		all = append(all, m)
		u := s.begin(s.d, intake(m))
		s.found(u, store.Fresh)
		s.commit(u)
		s.maintain()
	}
	for _, m := range all {
		s.verdict(m, store.Verdict{Outcome: store.Done})
	}
	s.wantCounts(0, len(all), 0)
}

// floorHeld checks that the floor does not apply to messages that Skald itself stored.
func (s *suite[TTx]) floorHeld() {
	old := aged(tooOld)
	s.commit(s.begin(s.d, intake(old)))
	s.db.Age(s, 31*day)
	s.waitUntil("the old mark goes", func() bool {
		s.maintain()
		return s.db.Count(s).Marks == 0
	})
	held, guarded := aged(tooOld), aged(tooOld)
	held.Held, guarded.Held = true, true
	u := s.begin(s.d, intake(held))
	s.found(u, store.Fresh)
	s.commit(u)
	s.apply(store.Effect{Mark: &guarded})
	s.seen(held, store.Done)
	s.wantCounts(0, 2, 0)
}

// quarantineBounded checks that one identity with many payloads does not fill the quarantine, so that another
// identity has room.
func (s *suite[TTx]) quarantineBounded() {
	for i := range 2 * store.QuarantineOfOne {
		q := quarantined(message("k", 1), store.Conflict)
		q.ID, q.Fingerprint = "one", int64(i+1)
		s.apply(store.Effect{Quarantine: &q})
	}
	q := quarantined(message("k", 1), store.Conflict)
	q.ID = "two"
	s.apply(store.Effect{Quarantine: &q})
	if one, two := s.inQuarantine(store.QuarantineQuery{ID: "one"}), s.inQuarantine(store.QuarantineQuery{ID: "two"}); len(
		one) != store.QuarantineOfOne || len(two) != 1 {
		s.Errorf("%d and %d are in quarantine", len(one), len(two))
	}
}
