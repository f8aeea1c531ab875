package storetest

import (
	"slices"

	"github.com/skald-go/skald/store"
)

func operatorTests[TTx any]() map[string]func(*suite[TTx]) {
	return map[string]func(*suite[TTx]){
		"ListSteps":    (*suite[TTx]).listSteps,
		"Control":      (*suite[TTx]).control,
		"DropDeferred": (*suite[TTx]).dropDeferred,
		"OutboxStatus": (*suite[TTx]).outboxStatus,
		"LookThrough":  (*suite[TTx]).lookThrough,
		"ListLocks":    (*suite[TTx]).listLocks,
		"ListWaiting":  (*suite[TTx]).listWaiting,
		"ListWritten":  (*suite[TTx]).listWritten,
	}
}

// steps lists the steps that q selects, in short form.
func (s *suite[TTx]) steps(q store.StepQuery) (out []string) {
	s.Helper()
	list, err := store.ListSteps(s.Context(), s.d, q)
	s.ok(err, "list steps")
	for _, r := range list {
		line := r.Saga + " " + r.State.String()
		if r.Dropped {
			line += " dropped"
		}
		if r.By.ID != "" {
			line += " by " + r.By.ID
		}
		if r.At.IsZero() || r.Changed.Before(r.At) {
			s.Errorf("%s: at %v, changed %v", line, r.At, r.Changed)
		}
		out = append(out, line)
	}
	return out
}

// listSteps checks that steps are listed in order, with the state of their messages.
func (s *suite[TTx]) listSteps() {
	s.step(taking("done"), store.StepAbsent)
	bar := undoing("barred")
	bar.ID = "undo"
	s.step(bar, store.StepAbsent)
	calling := taking("calling")
	calling.State, calling.OutsideKey = store.StepCalling, "key"
	s.step(calling, store.StepAbsent)
	dead := store.Parked{Consumer: consumer, Identity: store.Identity{Source: "/o", ID: "dead"},
		Dead: &store.Death{Kind: "permanent"}}
	dead.Message.ID, dead.Message.Source, dead.Message.Topic, dead.Message.Type = "dead", "/o", "t", "x"
	takes := taking("dead")
	takes.Identity = dead.Identity
	s.apply(store.Effect{Park: &store.Park{Parked: dead, Step: &takes}})
	for _, c := range []struct {
		q    store.StepQuery
		want []string
	}{
		{store.StepQuery{}, []string{"barred barred by undo", "calling calling", "dead dead", "done done"}},
		{store.StepQuery{Consumer: consumer, Limit: 1}, []string{"barred barred by undo"}},
		{store.StepQuery{Saga: "done"}, []string{"done done"}},
		{store.StepQuery{Consumers: []string{"other", consumer}, Sagas: []string{"dead", "no", "done"}},
			[]string{"dead dead", "done done"}},
		{store.StepQuery{Consumers: []string{"other"}, Sagas: []string{"dead"}}, nil},
		{store.StepQuery{Sagas: []string{}}, nil},
		{store.StepQuery{OutsideKey: "key", State: store.StepCalling}, []string{"calling calling"}},
		{store.StepQuery{State: store.StepDead}, []string{"dead dead"}},
		{store.StepQuery{State: store.StepDead, Dropped: true}, nil},
		{store.StepQuery{Consumer: "other"}, nil},
	} {
		if got := s.steps(c.q); !slices.Equal(got, c.want) {
			s.Errorf("%+v: %v, want %v", c.q, got, c.want)
		}
	}
	s.apply(store.Effect{Finish: &store.Finish{Consumer: consumer, Identity: dead.Identity,
		DeadAt: dead.Dead.At}})
	if got := s.steps(store.StepQuery{State: store.StepDead, Dropped: true}); !slices.Equal(got,
		[]string{"dead dead dropped"}) {
		s.Errorf("dropped: %v", got)
	}
}

// control checks that an instruction is stored with its audit and replaces the earlier one.
func (s *suite[TTx]) control() {
	for _, origin := range []string{"one", "two"} {
		s.apply(store.Effect{Control: &store.Control{Consumer: consumer,
			Checkpoints: []store.Checkpoint{{Partition: "skald:control:pause", Origin: origin,
				Stamp: origin}}},
			Audit: &store.Audit{Author: "ann", Reason: "a move", Action: "pause", Consumer: consumer}})
	}
	got, err := s.d.SyncConsumer(s.Context(), store.SyncRequest{Consumer: consumer})
	s.ok(err, "checkpoints")
	noted, err := s.d.Audits(s.Context(), store.AuditQuery{Limit: 10})
	s.ok(err, "audit")
	if len(got.Checkpoints) != 1 || got.Checkpoints[0].Origin != "two" || got.Checkpoints[0].Stamp != "two" ||
		len(noted) != 2 {
		s.Errorf("%+v, %+v", got, noted)
	}
}

// dropDeferred checks that a refused row can be dropped. Later rows of its key continue, and a relay that was
// publishing the row does not defer it again. A row that only waits cannot be dropped.
func (s *suite[TTx]) dropDeferred() {
	rows := s.deferRun([]byte("k"), 1, 0)
	refused := store.DeferredRow{Row: rows[0], Attempts: 2, Why: "no"}
	drop := func(id string) bool {
		stored, err := s.d.Apply(s.Context(), store.Effect{DropDeferred: &store.DropDeferred{ID: id},
			Audit: &store.Audit{Author: "ann", Reason: "no", Action: "outbox drop"}})
		s.ok(err, "drop")
		return stored[0]
	}
	if drop(rows[1].ID) || drop("other") {
		s.Error("a row was dropped that the broker did not refuse")
	}
	if !drop(rows[0].ID) || drop(rows[0].ID) {
		s.Error("a refused row is dropped once")
	}
	p := progressOf(s.shardOf(rows[0]))
	p.Deferred = []store.DeferredRow{refused}
	s.apply(progress(p))
	s.wantRetry("k2")
	noted, err := s.d.Audits(s.Context(), store.AuditQuery{Limit: 10})
	s.ok(err, "audit")
	if len(noted) != 1 {
		s.Errorf("%d notes", len(noted))
	}
}

// outboxStatus checks that waiting rows are counted in their shard, with the relay that owns it.
func (s *suite[TTx]) outboxStatus() {
	shard := s.shardOf(s.insertOne(message("a", 1)))
	status, err := s.d.Status(s.Context(), store.StatusQuery{Outbox: true})
	got := status.Outbox
	s.ok(err, "outbox status")
	both, err := s.d.Status(s.Context(), store.StatusQuery{Outbox: true, Backlog: true})
	s.ok(err, "status")
	if b := both.Backlog; b.Pending != 1 || b.Deferred != 0 || b.Free != 0 ||
		b.Source != s.backlog().Source || b.Oldest < 0 {
		s.Errorf("with the status of the outbox, the backlog is %+v", b)
	}
	if got.Pending != 1 || !got.Exact || got.Oldest < 0 || got.Deferred != 0 ||
		len(got.Shards) != len(s.shards) {
		s.Fatalf("%+v", got)
	}
	for i, l := range got.Shards {
		want := store.OutboxShard{Shard: i, Owner: suiteOwner, Epoch: s.shards[i].Epoch}
		if i == shard.ID {
			want.Pending = 1
		}
		if l != want {
			s.Errorf("shard %+v, want %+v", l, want)
		}
	}
}
