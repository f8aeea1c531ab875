package storetest

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/skald-go/skald/store"
)

// givenTime returns the fixed time that all events with a time of the caller have.
func givenTime() time.Time { return time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC) }

// inboxSide is the state that a player last read.
type inboxSide struct {
	kept        map[string]store.Parked     // by the IDs of letters
	placed      map[string]int64            // the first place of each letter
	checkpoints map[string]store.SyncResult // by consumer
	apart       map[quarantineOp]int64      // numbers, by letter and fingerprint
}

func newInboxSide() inboxSide {
	return inboxSide{map[string]store.Parked{}, map[string]int64{}, map[string]store.SyncResult{},
		map[quarantineOp]int64{}}
}

// runInbox runs o if o is an operation of the inbox. It returns a text with the result and the new state.
func (p *player[TTx]) runInbox(o op) (text string, ok bool) {
	ctx := p.Context()
	switch o.Do {
	case "keep":
		stored, err := p.d.Apply(ctx, p.effects(o.Effects)...)
		return render(err, stored) + p.keepings(ctx) + p.steps(ctx), true
	case "take":
		return p.take(ctx, o) + p.keepings(ctx) + p.steps(ctx), true
	case "claim":
		return p.claim(ctx, o) + p.keepings(ctx), true
	case "kept":
		return p.seek(ctx, o), true
	case "occupy", "advance", "rewind":
		return p.moveCheckpoints(ctx, o) + p.synced(ctx, o.Consumer) + p.keepings(ctx), true
	case "put", "admit":
		return p.putQuarantined(ctx, o) + p.quarantined(ctx, store.QuarantineQuery{Taken: true}), true
	case "quarantined":
		q := store.QuarantineQuery{Why: o.Why, Admitted: o.Admitted, Taken: o.Taken, Limit: o.Limit}
		q.After = p.in.apart[quarantineOp{Letter: o.Apart[0].Letter, Fingerprint: o.Apart[0].Fingerprint}]
		return p.quarantined(ctx, q), true
	}
	return "", false
}

// keepEffect adds the change k to e, from the state that was read.
func (p *player[TTx]) keepEffect(e *store.Effect, k *keepingOp, s *store.Step) {
	l := letter(k.Letter)
	was := p.in.kept[l.ID]
	attempts, call, claim, place := was.Attempts, callKey(was),
		store.Claim{Claims: was.Claims, Session: was.Session}, p.in.placed[l.ID]
	switch k.Stale {
	case "attempts":
		attempts++
	case "call":
		call += "?"
	case "claim":
		claim.Claims++
	case "place":
		place++
	}
	if k.Audit {
		e.Audit = &store.Audit{Author: "who", Reason: "why", Action: k.Do, Consumer: l.Consumer,
			Identity: l.Identity, Run: "run"}
	}
	switch k.Do {
	case "release":
		e.Requeue = &store.Requeue{Consumer: l.Consumer, Identity: l.Identity, Dead: k.OnlyDead}
		return
	case "free":
		e.Finish = &store.Finish{Consumer: l.Consumer, Identity: l.Identity}
		if k.OnlyDead {
			e.Finish.DeadAt = givenTime()
		}
		if k.Guards {
			e.Finish.Attempts, e.Finish.WasCall = &attempts, call
		}
		if k.WithPlace {
			e.Finish.Place = place
		}
		return
	}
	l.Attempts, l.Session, l.CrashCount = k.Attempts, k.Session, k.Crashes
	if k.Later {
		l.Due = time.Hour
	}
	if k.Attempts > 0 {
		l.First, l.Last = store.Failure{At: givenTime(), Why: "first", Host: "h"},
			store.Failure{At: givenTime(), Why: "last", Host: "h"}
		l.Failures = []store.Failure{l.First, l.Last}
	}
	if k.Dead != "" {
		l.Dead = &store.Death{At: givenTime(), Kind: "permanent", Fingerprint: k.Dead, Version: "1",
			BlocksKey: k.Holds}
	}
	if k.Call != "" {
		l.Call = &store.Call{Key: k.Call, Request: "request", Since: givenTime(), Undo: k.Undo}
	}
	e.Park = &store.Park{Parked: l, Marked: k.Marked, MostRows: k.MostRows, MostBytes: k.Bytes}
	if k.Instead > 0 {
		e.Park.Instead = new(letter(k.Instead).Identity)
	}
	if k.Do == "renew" {
		e.Park.Was, e.Park.WasCall = &attempts, call
		if k.Guards {
			e.Park.WasClaim = &claim
		}
	}
	if s != nil {
		e.Park.Step = new(*s)
		e.Park.Step.Consumer, e.Park.Step.Identity = l.Consumer, l.Identity
	}
}

// marked returns the mark of a letter.
func (p *player[TTx]) marked(t takingOp) store.Mark {
	l := letter(t.Letter)
	m := store.Mark{Consumer: l.Consumer, Identity: l.Identity, Outcome: t.As, KeyOrder: t.Turn,
		Key: l.Message.Key, Attempts: p.in.kept[l.ID].Attempts}
	if t.As == store.Rejected {
		m.Reason = "no"
	}
	if t.Stale {
		m.Attempts++
	}
	return m
}

func (p *player[TTx]) take(ctx context.Context, o op) string {
	in := store.Intake{Steps: o.Steps}
	for _, t := range o.Takes {
		in.Marks = append(in.Marks, p.marked(t))
	}
	u, err := p.d.Begin(ctx, in)
	if err != nil {
		return render(err)
	}
	found, fresh := u.Found(), true
	crowd := len(in.Marks) > 1 && len(in.Steps) == 0 // the fresh ones may be committed
	for i, v := range found.Marks {
		fresh = fresh && (v.Outcome == store.Fresh || crowd && in.Marks[i].Keep == 0)
	}
	answer := render(nil, sameLeft(found.Marks), renderSteps(found.Steps))
	es := p.effects(o.Effects)
	if o.Commit && fresh { // otherwise the unit can only be rolled back
		return answer + render(u.Commit(ctx, es...))
	}
	stored, err := u.Rollback(ctx, es...)
	return answer + render(err, len(stored), stored)
}

func renderSteps(steps []store.Step) (out []string) {
	for _, s := range steps {
		out = append(out, fmt.Sprintf("%v %v %d %q %q %q", s.State, s.Identity, s.Code, s.Result,
			s.OutsideKey, s.Outcome))
	}
	return out
}

// steps returns the state of all steps, as an undo finds them.
func (p *player[TTx]) steps(ctx context.Context) string {
	var in store.Intake
	for n := range 2 {
		for _, of := range []string{consumer, "mail"} {
			in.Steps = append(in.Steps, store.Step{Consumer: of, Saga: fmt.Sprint("saga-", n+1),
				Name: "charge", State: store.StepUndone})
		}
	}
	u, err := p.d.Begin(ctx, in)
	if err != nil {
		return render(err)
	}
	found := u.Found().Steps
	_, err = u.Rollback(ctx)
	return "\nsteps " + render(err, renderSteps(found))
}

func (p *player[TTx]) claim(ctx context.Context, o op) string {
	var not []store.Kind
	if o.Not != "" {
		not = append(not, store.Kind{Topic: "orders", Type: o.Not})
	}
	lease := time.Duration(0)
	if o.Later {
		lease = time.Hour
	}
	c, err := p.d.Claim(ctx, store.ClaimRequest{Consumer: o.Consumer, Session: o.Session,
		ClaimSize: store.ClaimSize{Keys: 100, Prefetch: o.Along, PrefetchAll: 100}, Lease: lease, Not: not})
	return render(err, renderParked(c.Parked), far(c.Next), c.Next == 0)
}

// far reports whether a time is far enough away to be a delay.
func far(d time.Duration) bool { return d > time.Minute }

func renderParked(ps []store.Parked) (out []string) {
	for _, p := range ps {
		m := p.Message
		m.Time = m.Time.UTC()
		out = append(out,
			fmt.Sprintf("\n  %s %s %s/%d %q, %d attempts, far %v, first %s, last %s, failures %v, dead %s, call %s, in hand of %q, %d claims, %d kills, waiting %v, since %v: %+v",
				p.Consumer, p.ID, p.Partition, p.Position, p.Fault, p.Attempts, far(p.Due),
				renderFailure(p.First), renderFailure(p.Last), p.Failures,
				renderDeath(p.Dead), renderCall(p.Call), p.Session,
				p.Claims, p.CrashCount, p.Waiting, !p.Since.IsZero(), m))
	}
	return out
}

func renderFailure(f store.Failure) string { return fmt.Sprint(renderTime(f.At), f.Why, f.Host) }

func renderDeath(d *store.Death) string {
	if d == nil {
		return "no"
	}
	return fmt.Sprint(renderTime(d.At), d.Kind, d.Fingerprint, d.Stack, d.Version, d.BlocksKey)
}

func renderCall(c *store.Call) string {
	if c == nil {
		return "no"
	}
	return fmt.Sprint(c.Key, c.Request, renderTime(c.Since), c.Outcome, c.Undo)
}

// renderTime describes a time. It describes a time of the caller exactly, but a time of the store's clock
// only as such.
func renderTime(t time.Time) string {
	switch {
	case t.IsZero():
		return "never "
	case t.Equal(givenTime()):
		return "long ago "
	}
	return "by the store's clock "
}

// keepings reads and returns all parked messages and dead letters.
func (p *player[TTx]) keepings(ctx context.Context) string {
	all, err := store.ListParked(ctx, p.d, store.ParkedQuery{Limit: 100})
	clear(p.in.kept)
	for _, k := range all {
		p.in.kept[k.ID] = k
		if p.in.placed[k.ID] == 0 {
			p.in.placed[k.ID] = k.Place
		}
	}
	return "\nkept " + render(err, renderParked(all))
}

func (p *player[TTx]) seek(ctx context.Context, o op) string {
	what := o.Sought
	what.Consumer, what.Limit = o.Consumer, o.Limit
	found, err := store.ListParked(ctx, p.d, what)
	n, second := p.d.Status(ctx, store.StatusQuery{ParkedOf: o.Consumer})
	run, third := p.d.Audits(ctx, store.AuditQuery{Run: "run", Limit: 100})
	last, fourth := p.d.Audits(ctx, store.AuditQuery{Limit: o.Limit})
	var audits []string
	for _, a := range append(run, last...) {
		audits = append(audits, fmt.Sprint(a.Author, a.Reason, a.Action, a.Consumer, a.Identity, a.Run))
	}
	return render(errors.Join(err, second, third, fourth), renderParked(found), n.Parked.Parked,
		n.Parked.Dead, n.Parked.Bytes, audits)
}

func (p *player[TTx]) moveCheckpoints(ctx context.Context, o op) string {
	var partitions []store.Checkpoint
	known := p.in.checkpoints[o.Consumer]
	for _, l := range o.Checkpoints {
		s := store.Checkpoint{Partition: l.Partition, Origin: l.Origin, Position: l.Position,
			InFlightEnd: l.Reach, Session: l.Session}
		for _, was := range known.Checkpoints {
			if was.Partition == l.Partition && !l.Stale {
				s.Stamp = was.Stamp
			}
		}
		partitions = append(partitions, s)
	}
	switch o.Do {
	case "occupy":
		got, err := p.d.SyncConsumer(ctx, store.SyncRequest{Consumer: o.Consumer,
			Take: true, Session: o.Session,
			Stamp: o.Note, Checkpoints: partitions})
		return render(err, renderCheckpoints(got))
	case "advance":
		server := known.Server
		if o.Stale {
			server += "?"
		}
		got, err := p.d.SyncConsumer(ctx, store.SyncRequest{Consumer: o.Consumer,
			Server: server, Stamp: o.Note,
			Checkpoints: partitions})
		return render(err, renderCheckpoints(got))
	}
	l := partitions[0]
	stored, err := p.d.Apply(ctx, store.Effect{Rewind: &store.Rewind{Consumer: o.Consumer,
		Partition: l.Partition, Origin: l.Origin, Position: max(0, l.Position), Stamp: o.Note}})
	return render(err, stored)
}

func renderCheckpoints(all store.SyncResult) (out []string) {
	for _, s := range all.Checkpoints {
		out = append(out, fmt.Sprint(s.Partition, " ", s.Origin, " at ", s.Position, " reach ", s.InFlightEnd,
			" suspect ", s.CrashSuspect, " of ", s.Session, " by ", s.Stamp, s.At.IsZero()))
	}
	return out
}

// synced reads and returns the checkpoints of a consumer.
func (p *player[TTx]) synced(ctx context.Context, consumer string) string {
	all, err := p.d.SyncConsumer(ctx, store.SyncRequest{Consumer: consumer})
	p.in.checkpoints[consumer] = all
	return "\nspots " + render(err, renderCheckpoints(all))
}

func (p *player[TTx]) putQuarantined(ctx context.Context, o op) string {
	if o.Do == "admit" {
		var numbers []int64
		for _, a := range o.Apart {
			if n := p.in.apart[quarantineOp{Letter: a.Letter, Fingerprint: a.Fingerprint}]; n > 0 {
				numbers = append(numbers, n)
			}
		}
		n, err := store.AdmitAll(ctx, p.d, numbers, "who", "why")
		return render(err, n)
	}
	var es []store.Effect
	for _, a := range o.Apart {
		l := letter(a.Letter)
		q := &store.Quarantined{Consumer: l.Consumer, Identity: l.Identity, Fingerprint: a.Fingerprint,
			Why: a.Why, Message: l.Message}
		if a.Take {
			es = append(es, store.Effect{Admitted: q})
		} else {
			es = append(es, store.Effect{Quarantine: q})
		}
	}
	stored, err := p.d.Apply(ctx, es...)
	return render(err, stored)
}

// quarantined reads and returns the messages in quarantine.
func (p *player[TTx]) quarantined(ctx context.Context, q store.QuarantineQuery) string {
	all, err := store.ListQuarantined(ctx, p.d, q)
	var out []string
	for _, one := range all {
		for _, n := range []int{0, 7} {
			if letter(n).Identity == one.Identity {
				p.in.apart[quarantineOp{Letter: n, Fingerprint: one.Fingerprint}] = one.Number
			}
		}
		m := one.Message
		m.Time = m.Time.UTC()
		out = append(out, fmt.Sprintf("\n  %s %s %d %v, admitted %v by %q %q, taken %v: %+v", one.Consumer,
			one.ID, one.Fingerprint, one.Why,
			!one.Admitted.IsZero(), one.By, one.Reason, !one.Taken.IsZero(), m))
	}
	return "\nquarantine " + render(err, out)
}
