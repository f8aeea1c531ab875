package storetest

import (
	"fmt"

	"pgregory.net/rapid"

	"github.com/skald-go/skald/store"
)

// letters is the number of messages in the inbox part of a differential test, which has parked messages,
// steps, checkpoints and quarantine. The number of a letter determines its consumer, identity and key.
const letters = 8

// letter returns letter n as parked, unchanged.
func letter(n int) store.Parked {
	id := store.Identity{Source: "/orders", ID: fmt.Sprint("letter-", n)}
	m := message([]string{"", "a", "a", "a", "b", "b", "a", ""}[n], n)
	m.Source, m.ID, m.CorrelationID, m.Time = id.Source, id.ID, id.ID, givenTime()
	if n%2 == 1 {
		m.Type = "order.paid"
	}
	return store.Parked{Consumer: consumerOf(n), Identity: id, Message: m, Partition: "t/0",
		Position: int64(n)}
}

func consumerOf(letter int) string {
	if letter >= 6 {
		return "mail"
	}
	return consumer
}

// keepingOp is a change to a parked message. It uses the state that the side last read, unless Stale.
type keepingOp struct {
	Do       string // keep, renew, release or free
	Letter   int
	Attempts int
	Later    bool
	Dead     string `json:",omitzero"` // its fingerprint
	Holds    bool   `json:",omitzero"`
	Call     string `json:",omitzero"` // its key
	Undo     bool   `json:",omitzero"`
	Session  string `json:",omitzero"`
	Crashes  int    `json:",omitzero"`
	Marked   bool   `json:",omitzero"`
	Instead  int    `json:",omitzero"` // a letter; 0 means none, because letter 0 has no key
	MostRows int64  `json:",omitzero"`
	Bytes    int64  `json:",omitzero"`

	Stale string `json:",omitzero"` // the outdated guard: attempts, call, claim or place
	// Guards adds a guard: to free, the attempts; to renew, the claim; to release, that the message is dead.
	Guards    bool `json:",omitzero"`
	OnlyDead  bool `json:",omitzero"`
	WithPlace bool `json:",omitzero"`
	Audit     bool `json:",omitzero"`
}

// takingOp is the mark of a letter in an intake.
type takingOp struct {
	Letter int
	Turn   store.KeyOrder
	As     store.Outcome
	Stale  bool // claimed with other attempts
}

// checkpointOp is a change to a partition. Its stamp is the one that the side last read, unless Stale.
type checkpointOp struct {
	Partition       string
	Origin          string
	Position, Reach int64
	Session         string
	Stale           bool // with an older stamp
}

// quarantineOp is a change to a message in quarantine.
type quarantineOp struct {
	Letter      int
	Fingerprint int64
	Why         store.Outcome
	Take        bool // the message is admitted and now taken
}

// inbox returns the operations on messages that the store keeps for consumers.
func (g *game) inbox(do func(op)) map[string]func(*rapid.T) {
	return map[string]func(*rapid.T){
		"keep": func(*rapid.T) { do(op{Do: "keep", Effects: g.keepings(1, 4)}) },
		"take": func(*rapid.T) { do(g.newTake()) },
		"step": func(*rapid.T) {
			o := op{Do: "take", Steps: g.sagas(1), Commit: g.most("commit")}
			o.Effects = append(o.Effects, step{Step: g.setting()})
			do(o)
		},
		"claim": func(*rapid.T) {
			o := op{Do: "claim", Consumer: g.consumer(), Session: g.session(), Along: g.n("along", 0, 3),
				Later: g.most("lease")}
			if g.rarely("not") {
				o.Not = "order.paid"
			}
			do(o)
		},
		"kept": func(*rapid.T) {
			do(op{Do: "kept", Consumer: g.consumer(), Sought: g.keptQuery(), Limit: g.n("limit", 1, 4)})
		},
		"checkpoints": func(*rapid.T) { do(g.wantCheckpoints()) },
		"apart":       func(*rapid.T) { do(g.apart()) },
	}
}

func (g *game) letter() int { return g.n("letter", 0, letters-1) }
func (g *game) consumer() string {
	return rapid.SampledFrom([]string{consumer, consumer, "mail"}).Draw(g.T, "consumer")
}
func (g *game) session() string { return rapid.SampledFrom([]string{"a", "b", "c"}).Draw(g.T, "life") }

func (g *game) keepings(least, most int) (out []step) {
	for range g.n("kept", least, most) {
		e := step{Kept: g.keeping()}
		if g.rarely("its step") {
			e.Step = g.setting()
		}
		out = append(out, e)
	}
	return out
}

func (g *game) keeping() *keepingOp {
	k := &keepingOp{Letter: g.letter()}
	k.Do = rapid.SampledFrom([]string{"keep", "keep", "renew", "renew", "release", "free"}).Draw(g.T, "do")
	k.Audit = g.rarely("audit")
	if k.Do != "keep" && g.rarely("stale") {
		k.Stale = rapid.SampledFrom([]string{"attempts", "call", "claim", "place"}).Draw(g.T, "guard")
	}
	switch k.Do {
	case "release":
		k.OnlyDead = g.rarely("only dead")
		return k
	case "free":
		k.Guards, k.OnlyDead, k.WithPlace = g.most("guards"), g.rarely("only dead"), g.rarely("place")
		return k
	case "keep":
		k.Marked = g.rarely("marked")
		if g.rarely("bounds") {
			k.MostRows, k.Bytes = int64(g.n("rows", 0, 2)), int64(g.n("bytes", 0, 1)*20)
		}
		if key := letter(k.Letter).Message.Key; key != nil && g.rarely("instead") {
			if n := g.letter(); n != k.Letter && consumerOf(n) == consumerOf(k.Letter) &&
				string(letter(n).Message.Key) == string(key) {
				k.Instead = n
			}
		}
	default:
		k.Guards, k.Crashes = g.rarely("guards"), g.n("kills", 0, 1)
	}
	k.Attempts, k.Later = g.n("attempts", 0, 2), g.rarely("later")
	if g.rarely("dead") {
		k.Dead, k.Holds = fmt.Sprint("print", g.n("print", 1, 2)), g.most("holds")
	}
	if g.rarely("call") {
		k.Call, k.Undo, k.Session = fmt.Sprint("call", g.n("call", 1, 2)), g.rarely("undo"), g.session()
	}
	return k
}

// newTake returns an operation: a unit that handles letters of one consumer, with its effects.
func (g *game) newTake() op {
	o := op{Do: "take", Commit: g.most("commit")}
	of, turn := g.consumer(), store.KeyOrder(g.n("turn", 0, 2))
	named := map[int]bool{}
	for range g.n("marks", 1, 3) {
		n := g.letter()
		if named[n] || consumerOf(n) != of {
			continue
		}
		named[n] = true
		// No intake has the outcome Barred; only an answer sets it.
		t := takingOp{Letter: n, Turn: turn, As: store.Outcome(g.n("as", 1, 2)),
			Stale: g.n("stale", 0, 7) == 0}
		o.Takes = append(o.Takes, t)
		o.Commit = o.Commit && !t.Stale // a caller with a stale claim rolls back
	}
	if g.rarely("steps") {
		o.Steps = g.sagas(0)
	}
	if len(o.Steps) > 0 && turn == store.Retrying {
		o.Takes = o.Takes[:min(1, len(o.Takes))] // see store.Intake
	}
	if g.most("leaves something") {
		o.Effects = g.keepings(1, 1)
	}
	if len(o.Takes) > 0 && g.rarely("answer") {
		t := o.Takes[0]
		t.As = store.Outcome(g.n("as", 1, 3))
		o.Effects = append(o.Effects, step{Answer: &t})
	}
	return o
}

// sagas returns distinct steps to take or undo.
func (g *game) sagas(least int) (out []store.Step) {
	named := map[string]bool{}
	for range g.n("steps", least, 2) {
		s := g.ofSaga()
		if named[s.Saga] {
			continue
		}
		named[s.Saga] = true
		s.State = rapid.SampledFrom([]store.StepState{store.StepDone, store.StepCalling,
			store.StepUndone}).Draw(g.T, "state")
		if s.State == store.StepCalling {
			s.OutsideKey = fmt.Sprint("call", g.n("call", 1, 2))
		}
		out = append(out, s)
	}
	return out
}

func (g *game) ofSaga() store.Step {
	return store.Step{Consumer: consumer, Saga: fmt.Sprint("saga-", g.n("saga", 1, 2)), Name: "charge",
		Identity: letter(g.n("letter", 0, 2)).Identity}
}

// setting returns an effect on a step.
func (g *game) setting() *store.Step {
	s := g.ofSaga()
	states := []store.StepState{store.StepDone, store.StepCalling, store.StepRejected, store.StepBarred,
		store.StepUndone}
	s.State = rapid.SampledFrom(states).Draw(g.T, "state")
	s.Code, s.Result = int32(g.n("code", 0, 2)),
		rapid.SampledFrom([]string{"", "r\x00\xff"}).Draw(g.T, "result")
	s.OutsideKey = rapid.SampledFrom([]string{"", "call1"}).Draw(g.T, "outside key")
	s.Outcome = rapid.SampledFrom([]string{"", "unknown"}).Draw(g.T, "outcome")
	for from := store.StepAbsent; from <= store.StepUndone; from++ {
		if g.most("from") {
			s.From = append(s.From, from)
		}
	}
	return &s
}

func (g *game) keptQuery() store.ParkedQuery {
	var w store.ParkedQuery
	switch g.n("sought", 0, 5) {
	case 0:
		id := letter(g.letter()).Identity
		w.Identity = &id
	case 1:
		w.Key = []byte("a")
	case 2:
		w.Fingerprint = "print1"
	case 3:
		w.Dead = new(g.most("dead"))
	case 4:
		w.Failed = true
	}
	w.Bare = g.rarely("bare")
	return w
}

func (g *game) wantCheckpoints() op {
	g.notes++
	o := op{Do: rapid.SampledFrom([]string{"occupy", "advance", "advance", "rewind"}).Draw(g.T, "do"),
		Consumer: g.consumer(), Session: g.session()}
	o.Note, o.Stale = fmt.Sprint("note-", g.notes), g.n("another server", 0, 7) == 0
	for i, first := range []int{g.n("partition", 0, 1), g.n("second", 0, 1)} {
		if o.Do == "rewind" && i == 1 || i == 1 && first == 0 {
			break
		}
		l := checkpointOp{Partition: fmt.Sprint("t/", (first+i)%2),
			Origin: fmt.Sprint("origin", g.n("origin", 0, 4)/4)}
		if i == 1 {
			l.Partition = "t/" + fmt.Sprint(1-int(o.Checkpoints[0].Partition[2]-'0'))
		}
		l.Position = int64(g.n("position", -1, 9))
		l.Reach, l.Stale = max(0, l.Position+int64(g.n("reach", 0, 3))), g.rarely("stale")
		l.Session = rapid.SampledFrom([]string{o.Session, o.Session, ""}).Draw(g.T, "in peace")
		o.Checkpoints = append(o.Checkpoints, l)
	}
	return o
}

func (g *game) apart() op {
	o := op{Do: rapid.SampledFrom([]string{"put", "put", "admit", "quarantined"}).Draw(g.T, "do")}
	o.Why, o.Admitted, o.Taken, o.Limit = store.Outcome(-g.n("why", 0, 2)), g.rarely("admitted"),
		g.rarely("taken"), g.n("limit", 1, 4)
	for range g.n("messages", 1, 6) {
		a := quarantineOp{Letter: g.n("letter", 0, 1) * 7, Fingerprint: int64(g.n("fingerprint", 1, 14))}
		a.Why, a.Take = rapid.SampledFrom([]store.Outcome{store.TooOld, store.Conflict}).Draw(g.T, "why"),
			g.rarely("take")
		o.Apart = append(o.Apart, a)
	}
	return o
}
