package sagatest

import (
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/skald-go/skald"
	"github.com/skald-go/skald/store"
)

// Rates say how likely each fault is, per call or delivery, from 0 to 1. The zero value injects nothing.
type Rates struct {
	// BeginFails and the fields up to SlowFor are faults of the store.
	BeginFails    float64 // Begin opens nothing and answers with an outage
	CommitFails   float64 // Commit rolls back and answers with an outage
	CommitUnknown float64 // Commit takes effect and answers with an outage
	ApplyUnknown  float64 // Apply, and Rollback with effects instead, take effect and answer with an outage
	TickUnknown   float64 // Tick draws a new tick and answers with an outage
	Slow          float64 // a consumer is slow: Begin waits for up to SlowFor
	SlowFor       time.Duration

	// PublishFails and the fields up to AckUnknown are faults of the broker.
	PublishFails   float64 // some messages of a call are not published, nor those of their keys behind them
	PublishUnknown float64 // all of a call is published, and some or all of it is said not to be
	ReceiveFails   float64 // Receive answers with an outage
	Repeat         float64 // a delivery comes twice
	// Rewind: the last few deliveries of a partition come again, also those that were acknowledged.
	Rewind     float64
	Delay      float64 // the deliveries of a partition are held back, in their order, for up to DelayFor
	DelayFor   time.Duration
	AckLost    float64 // an acknowledgement is not stored
	AckUnknown float64 // an acknowledgement is stored and answers with an outage

	// HandlerFails, HandlerPanics and HandlerGivesUp are faults of handlers that call Faults.Upset.
	HandlerFails   float64 // it answers an error
	HandlerPanics  float64 // it panics, as by a bug
	HandlerGivesUp float64 // it answers an error that is skald.Permanent: a dead letter

	// Die ends the session of a process in the middle of a step: see Faults.Session.
	Die float64
}

// None injects nothing.
func None() Rates { return Rates{} }

// Some is a bad day: each thing that can go wrong does, now and then.
func Some() Rates {
	return Rates{
		BeginFails: 0.005, CommitFails: 0.005, CommitUnknown: 0.01, ApplyUnknown: 0.02, TickUnknown: 0.01,
		Slow: 0.01, SlowFor: 10 * time.Millisecond,
		PublishFails: 0.02, PublishUnknown: 0.02, ReceiveFails: 0.005,
		Repeat: 0.03, Rewind: 0.02, Delay: 0.01, DelayFor: 30 * time.Millisecond,
		AckLost: 0.02, AckUnknown: 0.01, Die: 0.0005,
	}
}

// Wild is far worse than what a process meets in its whole life.
func Wild() Rates {
	return Rates{
		BeginFails: 0.02, CommitFails: 0.02, CommitUnknown: 0.05, ApplyUnknown: 0.08, TickUnknown: 0.05,
		Slow: 0.02, SlowFor: 50 * time.Millisecond,
		PublishFails: 0.08, PublishUnknown: 0.08, ReceiveFails: 0.02,
		Repeat: 0.15, Rewind: 0.08, Delay: 0.03, DelayFor: 150 * time.Millisecond,
		AckLost: 0.1, AckUnknown: 0.05, HandlerFails: 0.003, HandlerPanics: 0.001,
		HandlerGivesUp: 0.0003, Die: 0.001,
	}
}

// RatesOf is the preset of that name: none, some or wild.
func RatesOf(name string) (r Rates, ok bool) {
	switch name {
	case "none":
		return None(), true
	case "some":
		return Some(), true
	case "wild":
		return Wild(), true
	}
	return Rates{}, false
}

// FaultError is an error that was injected. It is an outage to the wrapped driver.
type FaultError struct {
	Kind string // as in Faults.Counts
}

func (e *FaultError) Error() string { return "injected fault: " + e.Kind }

// The kinds of faults, as Faults.Counts names them.
const (
	BeginFailed    = "begin_failed"
	CommitFailed   = "commit_failed"
	CommitUnknown  = "commit_unknown"
	ApplyUnknown   = "apply_unknown"
	TickUnknown    = "tick_unknown"
	SlowConsumer   = "slow_consumer"
	PublishFailed  = "publish_failed"
	PublishUnknown = "publish_unknown"
	ReceiveFailed  = "receive_failed"
	Repeated       = "delivery_repeated"
	Rewound        = "partition_rewound"
	Delayed        = "partition_delayed"
	AckLost        = "ack_lost"
	AckUnknown     = "ack_unknown"
	HandlerFailed  = "handler_failed"
	HandlerPanic   = "handler_panic"
	HandlerGaveUp  = "handler_gave_up"
	Death          = "process_death"
)

// Faults decide what goes wrong, by a seed, and count it. The same calls in the same order meet the same
// faults. They are safe for concurrent use.
type Faults struct {
	rates Rates
	*dice

	tell func(Injection)

	// of a Session
	mortal bool
	died   chan struct{}
	mu     sync.Mutex
	kill   map[any]func() // what dies with it
}

// dice are shared by all sessions.
type dice struct {
	rolling sync.Mutex
	rng     *rand.Rand
	counts  map[string]int64
}

// NewFaults are faults at the given rates. Nothing dies by them; a Session does.
func NewFaults(seed uint64, rates Rates) *Faults {
	return &Faults{
		rates: rates, died: make(chan struct{}), kill: map[any]func(){},
		dice: &dice{rng: rand.New(rand.NewPCG(seed, 0x5ca1d)), counts: map[string]int64{}},
	}
}

// Session is one session of a process: the same faults, and it dies by them, in the middle of a step, or when
// Die is called. All seams of one process are wrapped with the Session of that process:
//
//	session := faults.Session()
//	svc := build(sagatest.WrapDriver(db, session), sagatest.WrapBroker(bus, session))
//	go svc.Run(ctx)
//	<-session.Died() // cancel ctx, wait for Run to return, and build the next session
//
// When it dies, its subscriptions are lost uncleanly (where the driver has a Kill method, as membroker's has;
// else they are closed without their acknowledgements), what it has open is rolled back, and all that it asks
// is answered with a *FaultError of kind Death. Its leases stay until they run out, or until the next life of
// the same name takes them.
func (f *Faults) Session() *Faults {
	return &Faults{rates: f.rates, dice: f.dice, mortal: true, died: make(chan struct{}),
		kill: map[any]func(){}}
}

// Died is closed when this session is over.
func (f *Faults) Died() <-chan struct{} { return f.died }

// Die ends this session, if it has not ended, and returns the error that all its calls answer from now on.
func (f *Faults) Die() error {
	f.mu.Lock()
	kill := f.kill
	f.kill = nil
	if kill != nil {
		close(f.died)
	}
	f.mu.Unlock()
	if kill != nil {
		f.note(Death)
	}
	for _, k := range kill {
		k()
	}
	return &FaultError{Kind: Death}
}

// Counts is how often each kind of fault was injected, in all sessions.
func (f *Faults) Counts() map[string]int64 {
	f.rolling.Lock()
	defer f.rolling.Unlock()
	return maps.Clone(f.counts)
}

func (f *Faults) note(kind string) {
	f.rolling.Lock()
	defer f.rolling.Unlock()
	f.counts[kind]++
}

// Injection is a fault, as it struck.
type Injection struct {
	Kind     string           // as in Counts
	Messages []store.Identity // it struck these
}

// Tell has to called, from any goroutine, at each fault that strikes messages; those that strike a call which
// is about none are counted only. It is set before the first seam is wrapped, and for each session anew.
func (f *Faults) Tell(to func(Injection)) { f.tell = to }

func (f *Faults) told(kind string, of []store.Identity) {
	if f.tell != nil && len(of) > 0 {
		f.tell(Injection{Kind: kind, Messages: of})
	}
}

// hit rolls the dice for one fault and counts it.
func (f *Faults) hit(kind string, rate float64) bool {
	if rate <= 0 {
		return false
	}
	f.rolling.Lock()
	defer f.rolling.Unlock()
	if f.rng.Float64() >= rate {
		return false
	}
	f.counts[kind]++
	return true
}

// strike is hit as an error, in a call about these messages.
func (f *Faults) strike(kind string, rate float64, of []store.Identity) error {
	if !f.hit(kind, rate) {
		return nil
	}
	f.told(kind, of)
	return &FaultError{Kind: kind}
}

// Upset is for handlers to call: there it panics now and then, or answers an error that the handler is to
// answer. Only in a Session.
func (f *Faults) Upset(m skald.Message) error {
	if !f.mortal {
		return nil
	}
	of := []store.Identity{{Source: m.Source, ID: m.ID}}
	if f.hit(HandlerPanic, f.rates.HandlerPanics) {
		f.told(HandlerPanic, of)
		var nobody *Faults
		return nobody.alive() // a nil pointer, as bugs have it
	}
	if err := f.strike(HandlerGaveUp, f.rates.HandlerGivesUp, of); err != nil {
		return skald.Permanent(errors.New("injected fault: " + HandlerGaveUp))
	}
	if err := f.strike(HandlerFailed, f.rates.HandlerFails, of); err != nil {
		// the handler's own: no *FaultError, which is an outage
		return errors.New("injected fault: " + HandlerFailed)
	}
	return nil
}

func (f *Faults) number(n int) int {
	f.rolling.Lock()
	defer f.rolling.Unlock()
	return f.rng.IntN(max(1, n))
}

func (f *Faults) duration(most time.Duration) time.Duration {
	return time.Duration(1 + f.number(int(most)))
}

// alive answers what the dead answer.
func (f *Faults) alive() error {
	select {
	case <-f.died:
		return &FaultError{Kind: Death}
	default:
		return nil
	}
}

// live is alive, with the chance to die on the checkpoint.
func (f *Faults) live() error { return f.liveWith(nil) }

// liveWith is live in a call about these messages.
func (f *Faults) liveWith(of []store.Identity) error {
	if err := f.alive(); err != nil {
		return err
	}
	if !f.mortal || f.rates.Die <= 0 {
		return nil
	}
	f.rolling.Lock()
	dies := f.rng.Float64() < f.rates.Die
	f.rolling.Unlock()
	if dies {
		f.told(Death, of)
		return f.Die()
	}
	return nil
}

// diesWith calls k at the death of this session; at once if it is over. k may be called while forget is.
func (f *Faults) diesWith(what any, k func()) {
	f.mu.Lock()
	over := f.kill == nil
	if !over {
		f.kill[what] = k
	}
	f.mu.Unlock()
	if over {
		k()
	}
}

func (f *Faults) forget(what any) {
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.kill, what)
}

// String says what was injected, one line.
func (f *Faults) String() string { return fmt.Sprint(f.Counts()) }
