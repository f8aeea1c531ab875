package storetest

import (
	"fmt"
	"strings"
	"time"

	"github.com/skald-go/skald/store"
)

// oddNameTests are for IDs and consumers that a store may be unable to store unchanged. The name that the
// store returns instead works for all operations on a message.
func oddNameTests[TTx any]() map[string]func(*suite[TTx]) {
	return map[string]func(*suite[TTx]){
		"Claimed":     (*suite[TTx]).oddNameClaimed,
		"Listed":      (*suite[TTx]).oddNameListed,
		"Quarantined": (*suite[TTx]).oddNameQuarantined,
		"Step":        (*suite[TTx]).oddNameStep,
	}
}

// oddNames returns names that differ only in their last characters.
func oddNames() []string {
	long := strings.Repeat("n", 2000)
	return []string{long, long + "m", "nul\x00x", "bytes\xff\xfe", "sha256:abc", hashOf([]byte(long))}
}

// oddlyNamed returns a message of each odd ID, each with its own key.
func oddlyNamed(dead bool) (out []store.Parked) {
	for i, id := range oddNames() {
		p := parked(fmt.Sprint("key", i), i)
		p.ID, p.Message.ID = id, id
		p.Source, p.Message.Source = oddNames()[len(oddNames())-1-i], p.Source
		if dead {
			p.Dead = &store.Death{At: time.Now(), Kind: "permanent", BlocksKey: true}
		}
		out = append(out, p)
	}
	return out
}

// oddNameClaimed checks that a claimed message can be handled by the returned name, alone and with others,
// and that the consumer still recognizes it by its own name.
func (s *suite[TTx]) oddNameClaimed() {
	all := oddlyNamed(false)
	s.apply(keeping(all...)...)
	claimed := s.claim(0, "0", "1", "2", "3", "4", "5")
	for _, p := range claimed {
		s.wantOutcome(retrying(p), store.Fresh)
	}
	s.commit(s.begin(s.d, intake(retrying(claimed[0]))), freed(claimed[0], &claimed[0].Attempts))
	p := claimed[1]
	s.apply(parkAgain(p, func(p *store.Parked) { p.Attempts, p.Claims, p.Session = 2, 0, "" }))
	claimed[1].Attempts, claimed[1].Claims = 2, 0
	var marks []store.Mark
	var frees []store.Effect
	for _, p := range claimed[1:] {
		marks, frees = append(marks, retrying(p)), append(frees, freed(p, &p.Attempts))
	}
	s.commit(s.begin(s.d, intake(marks...)), frees...)
	s.claim(0)
	for _, p := range all {
		s.seen(arriving(p), store.Done)
	}
}

// oddNameListed checks that a listed message can be released, dropped and audited by the returned name, and
// that a query finds it by its own name.
func (s *suite[TTx]) oddNameListed() {
	all := oddlyNamed(true)
	for i := range all {
		if i%2 == 1 {
			all[i].Consumer = all[i].ID
		}
	}
	s.apply(keeping(all...)...)
	for i, p := range s.kept(store.ParkedQuery{}) {
		own := all[i]
		for _, what := range []store.ParkedQuery{
			{Consumer: own.Consumer, Identity: &own.Identity}, {Consumer: p.Consumer, Identity: &p.Identity},
			{About: own.ID}, {Consumer: p.Consumer, About: p.ID}} {
			if got := s.kept(what); len(got) != 1 || got[0].Place != p.Place {
				s.Fatalf("message %d: %d are found by %.80q", i, len(got), fmt.Sprint(what))
			}
		}
		s.applied([]bool{true}, store.Effect{Requeue: &store.Requeue{Consumer: p.Consumer,
			Identity: p.Identity},
			Audit: &store.Audit{Author: "ann", Reason: "odd", Action: "redrive", Consumer: p.Consumer,
				Identity: p.Identity, Run: "run"}})
		if got := s.kept(store.ParkedQuery{Consumer: own.Consumer, Identity: &own.Identity}); len(got) != 1 ||
			got[0].Dead != nil {
			s.Fatalf("message %d: released are %d", i, len(got))
		}
		s.apply(store.Effect{Finish: &store.Finish{Consumer: p.Consumer, Identity: p.Identity},
			Mark: &store.Mark{
				Consumer: p.Consumer, Identity: p.Identity, Outcome: store.Rejected, Held: true}})
		s.seen(arriving(own), store.Rejected)
	}
	acts, err := s.d.Audits(s.Context(), store.AuditQuery{Run: "run"})
	s.ok(err, "list audits")
	if left := s.kept(store.ParkedQuery{}); len(left) != 0 || len(acts) != len(all) {
		s.Fatalf("%d are left, %d audits", len(left), len(acts))
	}
	for i, a := range acts {
		m := arriving(all[i])
		m.Consumer, m.Identity = a.Consumer, a.Identity
		s.seen(m, store.Rejected)
	}
}

// oddNameQuarantined checks that an admitted message can be taken by the returned name, and that the consumer
// still recognizes it by its own name.
func (s *suite[TTx]) oddNameQuarantined() {
	for _, p := range oddlyNamed(false) {
		q := quarantined(p.Message, store.TooOld)
		q.Identity = p.Identity
		s.apply(store.Effect{Quarantine: &q})
		if got := s.inQuarantine(store.QuarantineQuery{ID: p.ID}); len(got) != 1 {
			s.Fatalf("%d are found by %.40q", len(got), p.ID)
		}
	}
	for _, q := range s.inQuarantine(store.QuarantineQuery{}) {
		n, err := store.AdmitAll(s.Context(), s.d, []int64{q.Number}, "ann", "odd")
		if s.ok(err, "admit"); n != 1 || len(s.inQuarantine(store.QuarantineQuery{ID: q.ID})) != 1 {
			s.Fatalf("%d are admitted of %.80q", n, q.ID)
		}
	}
	for _, q := range s.inQuarantine(store.QuarantineQuery{Consumer: consumer, Admitted: true}) {
		p := parked(string(q.Message.Key), 1)
		p.Message, p.Identity = q.Message, q.Identity
		s.apply(store.Effect{Admitted: &q, Park: &store.Park{Parked: p}})
	}
	if left, kept := s.inQuarantine(store.QuarantineQuery{}), s.kept(store.ParkedQuery{}); len(left) != 0 ||
		len(kept) != len(oddNames()) {
		s.Fatalf("%d are left in quarantine, %d are kept", len(left), len(kept))
	}
	for _, p := range oddlyNamed(false) {
		s.wantOutcome(arriving(p), store.Waiting)
	}
}

// oddNameStep checks that the step of a waiting message has the same name as the message in a list.
func (s *suite[TTx]) oddNameStep() {
	for i, p := range oddlyNamed(true) {
		step := taking(p.ID)
		step.Identity, step.Name, step.Occurrence = p.Identity, p.ID, p.ID
		s.apply(store.Effect{Park: &store.Park{Parked: p, Step: &step}})
		list, err := store.ListSteps(s.Context(), s.d, store.StepQuery{Consumer: consumer, Saga: step.Saga})
		s.ok(err, "list steps")
		kept := s.kept(store.ParkedQuery{Consumer: consumer, Identity: &p.Identity})
		if len(list) != 1 || len(kept) != 1 || list[0].Identity != kept[0].Identity {
			s.Fatalf("message %d: %d are kept, %d steps: %.400q", i, len(kept), len(list), fmt.Sprint(list))
		}
		told := list[0].Step
		u := s.begin(s.d, stepping(step))
		s.rollback(u)
		s.apply(store.Effect{Requeue: &store.Requeue{Consumer: consumer, Identity: told.Identity,
			Dead: true}})
		if got := s.kept(store.ParkedQuery{Consumer: consumer, Identity: &p.Identity}); got[0].Dead != nil {
			s.Fatalf("message %d is not released by the name that its step has", i)
		}
		told.State, told.From = store.StepRejected, []store.StepState{store.StepParked, store.StepDead}
		s.apply(store.Effect{Step: &told})
		if got := s.wantStep(step, store.StepRejected); got.Identity != p.Identity {
			s.Errorf("message %d: its step is that of %.80q", i, got.ID)
		}
	}
}
