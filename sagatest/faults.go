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

// Rates are the probabilities of faults, per call or delivery, from 0 to 1. The zero value injects nothing.
type Rates struct {
	// BeginFails to SlowFor are faults of the store.
	BeginFails    float64 // Begin opens no transaction and returns an outage
	CommitFails   float64 // Commit rolls back and returns an outage
	CommitUnknown float64 // Commit takes effect and returns an outage
	ApplyUnknown  float64 // Apply, and Rollback with effects instead, take effect and return an outage
	TickUnknown   float64 // Tick draws a new tick and returns an outage
	Slow          float64 // a slow consumer: Begin waits for up to SlowFor
	SlowFor       time.Duration

	// PublishFails to AckUnknown are faults of the broker.
	PublishFails   float64 // some messages of a call, and later ones with their keys, are not published
	PublishUnknown float64 // a call publishes all messages, but returns an error for some or all
	ReceiveFails   float64 // Receive returns an outage
	Repeat         float64 // a delivery is repeated
	// Rewind repeats the last few deliveries of a partition, including acknowledged ones.
	Rewind     float64
	Delay      float64 // the deliveries of a partition are delayed, in order, for up to DelayFor
	DelayFor   time.Duration
	AckLost    float64 // an acknowledgement is not stored
	AckUnknown float64 // an acknowledgement is stored and returns an outage

	// HandlerFails to HandlerGivesUp are faults of handlers that call Faults.FailHandler.
	HandlerFails   float64 // FailHandler returns an error
	HandlerPanics  float64 // FailHandler panics
	HandlerGivesUp float64 // FailHandler returns a skald.Permanent error, which makes a dead letter

	// Die is the rate at which the session of a process ends in the middle of a step: see Session.
	Die float64
}

// None returns rates without faults.
func None() Rates { return Rates{} }

// Some returns the rates of a bad day in production: each fault happens now and then.
func Some() Rates {
	return Rates{
		BeginFails: 0.005, CommitFails: 0.005, CommitUnknown: 0.01, ApplyUnknown: 0.02, TickUnknown: 0.01,
		Slow: 0.01, SlowFor: 10 * time.Millisecond,
		PublishFails: 0.02, PublishUnknown: 0.02, ReceiveFails: 0.005,
		Repeat: 0.03, Rewind: 0.02, Delay: 0.01, DelayFor: 30 * time.Millisecond,
		AckLost: 0.02, AckUnknown: 0.01, Die: 0.0005,
	}
}

// Wild returns rates far above those in production.
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

// RatesOf returns the preset with a name: none, some or wild.
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

// FaultError is an injected error. The wrapped store and broker report it as an outage.
type FaultError struct {
	Kind string // one of the kinds below
}

func (e *FaultError) Error() string { return "injected fault: " + e.Kind }

// The kinds of faults. Faults.Counts returns a count for each.
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

// Faults selects faults by a seed, and counts them. The same calls in the same order get the same faults.
// Faults is safe for concurrent use.
type Faults struct {
	rates Rates
	*dice

	tell func(Injection)

	// mortal and the fields below are used in a Session.
	mortal bool
	died   chan struct{}
	mu     sync.Mutex
	kill   map[any]func() // functions to call at the end of the session
}

// dice has the random numbers and the counts that all sessions share.
type dice struct {
	rolling sync.Mutex
	rng     *rand.Rand
	counts  map[string]int64
}

// NewFaults returns faults with the given rates. These faults never end a process. Only the faults of a
// Session do.
func NewFaults(seed uint64, rates Rates) *Faults {
	return &Faults{
		rates: rates, died: make(chan struct{}), kill: map[any]func(){},
		dice: &dice{rng: rand.New(rand.NewPCG(seed, 0x5ca1d)), counts: map[string]int64{}},
	}
}

// Session returns the faults for one session of a process. They may end the session in the middle of a step,
// like Die. Wrap the store and the broker of the process with them:
//
//	session := faults.Session()
//	svc := build(sagatest.WrapDriver(db, session), sagatest.WrapBroker(bus, session))
//	go svc.Run(ctx)
//	<-session.Died() // cancel ctx, wait for Run to return, and build the next session
//
// At the end of a session, its subscriptions are killed if they have a Kill method, such as those of
// membroker. Other subscriptions are closed without their acknowledgements. Open transactions are rolled
// back. All further calls return a *FaultError of the kind Death. The leases of the session remain until they
// expire, or until the next session with the same name takes them over.
func (f *Faults) Session() *Faults {
	return &Faults{rates: f.rates, dice: f.dice, mortal: true, died: make(chan struct{}),
		kill: map[any]func(){}}
}

// Died returns a channel that is closed when this session ends.
func (f *Faults) Died() <-chan struct{} { return f.died }

// Die ends this session, if it has not ended yet. It returns the error of all further calls.
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

// Counts returns the number of injected faults of each kind, in all sessions.
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

// Injection is an injected fault.
type Injection struct {
	Kind     string           // one of the kinds of faults
	Messages []store.Identity // the affected messages
}

// OnFault sets a function that is called at each fault that affects messages, from any goroutine. Other
// faults are only counted. Set the function before you wrap a store or a broker, and again for each session.
func (f *Faults) OnFault(to func(Injection)) { f.tell = to }

func (f *Faults) told(kind string, of []store.Identity) {
	if f.tell != nil && len(of) > 0 {
		f.tell(Injection{Kind: kind, Messages: of})
	}
}

// hit decides by a random number whether a fault happens, and counts it.
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

// strike is like hit, but returns the error of a call with these messages, or nil.
func (f *Faults) strike(kind string, rate float64, messages []store.Identity) error {
	if !f.hit(kind, rate) {
		return nil
	}
	f.told(kind, messages)
	return &FaultError{Kind: kind}
}

// FailHandler injects faults into handlers of a Session. It sometimes panics, or returns an error that the
// handler must return.
func (f *Faults) FailHandler(m skald.Message) error {
	if !f.mortal {
		return nil
	}
	of := []store.Identity{{Source: m.Source, ID: m.ID}}
	if f.hit(HandlerPanic, f.rates.HandlerPanics) {
		f.told(HandlerPanic, of)
		var none *Faults
		return none.alive() // panics with a nil pointer, like real bugs
	}
	if err := f.strike(HandlerGaveUp, f.rates.HandlerGivesUp, of); err != nil {
		return skald.Permanent(errors.New("injected fault: " + HandlerGaveUp))
	}
	if err := f.strike(HandlerFailed, f.rates.HandlerFails, of); err != nil {
		// This is an error of the handler. A *FaultError would be an outage.
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

// alive returns an error if the session has ended.
func (f *Faults) alive() error {
	select {
	case <-f.died:
		return &FaultError{Kind: Death}
	default:
		return nil
	}
}

// live is like alive, but may also end the session.
func (f *Faults) live() error { return f.liveWith(nil) }

// liveWith is like live, for a call with these messages.
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

// diesWith registers k to be called at the end of this session. If the session has ended, it calls k
// immediately. It may run concurrently with forget.
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

// String returns the counts in one line.
func (f *Faults) String() string { return fmt.Sprint(f.Counts()) }
