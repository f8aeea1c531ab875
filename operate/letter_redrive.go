package operate

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/skald-go/skald/failure"
	"github.com/skald-go/skald/store"
)

// Pace limits the rate and the errors of a redrive. With the zero Pace, Redrive redrives all messages at once
// and does not wait for their outcomes.
type Pace struct {
	// Run is the name of a watched run: Redrive waits for the outcomes of its messages. A call with the name
	// of an interrupted run continues the run, and redrives no message twice. Canary and Rate require a Run.
	Run string `json:"run,omitempty"`
	// Canary redrives one message first, and the others only if it succeeds.
	Canary bool `json:"canary,omitempty"`
	// Rate is the number of redriven messages per second. 0 means no limit.
	Rate float64 `json:"rate,omitempty"`
	// MaxErrors is the share of the redriven messages that may fail again, from 0 to 1. A larger share stops
	// the run. Fewer than ten messages count as ten.
	MaxErrors float64 `json:"max_errors,omitempty"`
	// Wait limits the wait for the outcome of the canary, and for the outcomes of the last messages. Default
	// 1 min.
	Wait time.Duration `json:"wait,omitempty"`
}

// minRate and maxRate bound a rate. At a lower rate one message would take hours. A higher rate would have no
// effect.
const minRate, maxRate = 0.0001, 1_000_000

// CheckNumbers returns a *UsageError if a number of p is NaN or out of bounds.
func (p *Pace) CheckNumbers() error {
	switch { // comparisons with NaN are false
	case !(p.MaxErrors >= 0 && p.MaxErrors <= 1) || p.Wait < 0:
		return &UsageError{Reason: "a wait is positive, a share of errors is from 0 to 1"}
	case p.Rate != 0 && !(p.Rate >= minRate && p.Rate <= maxRate):
		return &UsageError{Reason: fmt.Sprintf("a rate is 0, or from %g to %d a second",
			minRate, maxRate)}
	}
	return nil
}

func (p *Pace) check() error {
	if err := p.CheckNumbers(); err != nil {
		return err
	}
	switch {
	case p.Run == "" && (p.Canary || p.Rate > 0):
		return &UsageError{Reason: "a canary or a rate needs the name of a run"}
	}
	p.Wait = cmp.Or(p.Wait, time.Minute)
	return nil
}

// RedriveReport is the result of Redrive. Done includes the messages of earlier calls of the same run.
type RedriveReport struct {
	Report
	// Rejections counts dead letters that are rejections. Redrive leaves them unchanged, because their
	// senders have received the rejection.
	Rejections int

	Run     string    // the name of the watched run; empty without one
	Begun   time.Time // the time at which an earlier call began the run; zero without an earlier call
	Stopped string    // the reason why the run ended early; empty if all messages were redriven

	Succeeded, Rejected, Failed, Open int // outcomes of the messages of a watched run

	Planned []store.Parked // the messages that a dry run would redrive, in order
}

// Outcome describes the outcome of a watched run in one line.
func (r *RedriveReport) Outcome() string {
	line := fmt.Sprintf("%d redriven, %d succeeded, %d rejected, %d failed again, %d not handled yet", r.Done,
		r.Succeeded, r.Rejected, r.Failed, r.Open)
	if r.Stopped != "" {
		line += "; " + r.Stopped
	}
	return line
}

// StoppedError reports that a watched redrive ended early, because the canary or too many messages failed
// again. The report of Redrive is valid.
type StoppedError struct{ Why string }

func (e *StoppedError) Error() string { return "redrive: stopped: " + e.Why }

// RedriveStore is the part of a store that Redrive needs.
type RedriveStore interface {
	MessageStore
	RunReader
}

// Redrive parks the selected dead letters again, so that their consumers retry them. Each message has the
// same place and ID as before, and no attempts. Redrive leaves rejections unchanged. The report is also
// valid if the error is a *PartialError or a *StoppedError.
func Redrive(ctx context.Context, db RedriveStore, s Selection, pace Pace, o Order) (RedriveReport, error) {
	s.Dead = true
	r := &redrive{db: db, s: &s, pace: pace, o: &o, known: map[runTarget]*redriven{}}
	err := r.pace.check()
	if err == nil {
		err = s.check(&o)
	}
	if err == nil && pace.Run != "" && !o.DryRun {
		r.report.Run = pace.Run
		if err = r.resume(ctx); err != nil {
			err = fmt.Errorf("redrive: read the earlier redrives of the run: %w", err)
		}
	}
	if err == nil {
		err = r.run(ctx)
	}
	return r.report, err
}

// redrive is one call of Redrive. Several calls may continue the same run.
type redrive struct {
	db   RedriveStore
	s    *Selection
	pace Pace
	o    *Order

	report RedriveReport
	sent   []*redriven
	known  map[runTarget]*redriven
	looked time.Time // when look last ran
}

// redriven is a message of the run and its outcome.
type redriven struct {
	runTarget
	outcome redriveOutcome
	why     string // the reason why it failed or was rejected
}

type redriveOutcome int

const (
	open     redriveOutcome = iota // not handled yet
	done                           // its effect is committed
	rejected                       // its handler rejected it
	failed                         // it failed again
)

func (r *redrive) watched() bool { return r.report.Run != "" }

func (r *redrive) run(ctx context.Context) error {
	todo, err := r.todo(ctx)
	switch {
	case err != nil:
		return err
	case r.o.DryRun:
		r.report.Planned = todo
		r.report.Report = Report{Selected: len(todo) + r.report.Rejections, Done: len(todo)}
		return nil
	case len(todo) == 0 && len(r.sent) == 0 && r.report.Rejections > 0:
		return &NoMatchError{
			Reason: fmt.Sprintf("nothing is redriven: %d dead letters are rejections, and their senders have the rejection: see skald dead edit and skald dead drop", r.report.Rejections)}
	}
	if len(todo) > 0 {
		if err := confirm(ctx, r.o, len(todo)); err != nil {
			return err
		}
	}
	r.report.Selected = len(todo) + len(r.sent)
	err = r.send(ctx, todo)
	if err == nil && r.watched() && r.report.Stopped == "" {
		err = r.settle(ctx)
	}
	r.sum()
	if err != nil {
		return fmt.Errorf("redrive, after %d of %d messages; repeat the command to continue: %w", r.report.Done,
			r.report.Selected, err)
	}
	if r.watched() {
		if err := r.note(ctx); err != nil {
			return fmt.Errorf("redrive: record the outcome: %w", err)
		}
	}
	if r.report.Stopped != "" {
		return &StoppedError{r.report.Stopped}
	}
	return partly(&r.report.Report, "redrive")
}

// sum counts the outcomes of all messages into the report.
func (r *redrive) sum() {
	r.report.Done = len(r.sent)
	r.report.Succeeded, r.report.Rejected, r.report.Failed, r.report.Open = r.count(done), r.count(rejected),
		r.count(failed), r.count(open)
}

// todo returns the messages that are still to be redriven.
func (r *redrive) todo(ctx context.Context) (todo []store.Parked, err error) {
	all, err := selected(ctx, r.db, r.s)
	if none := new(NoMatchError); errors.As(err, &none) && len(r.sent) > 0 {
		err = nil // an earlier call redrove the last message, but did not record the end of the run
	}
	for _, p := range all {
		switch {
		case p.Dead.Kind == failure.KindRejected:
			r.report.Rejections++
		// A known message was redriven by this run, and is dead again.
		case r.known[runTarget{Consumer: p.Consumer, Identity: p.Identity}] == nil:
			todo = append(todo, p)
		}
	}
	return todo, err
}

// send redrives todo, in order. It waits for the outcome of the canary, limits the rate, and stops if too
// many messages fail again.
func (r *redrive) send(ctx context.Context, todo []store.Parked) error {
	// If another process changed the canary first, the next message becomes the canary.
	for r.pace.Canary && len(r.sent) == 0 && len(todo) > 0 {
		if err := r.sendOne(ctx, &todo[0]); err != nil {
			return err
		}
		todo = todo[1:]
	}
	if r.pace.Canary && len(r.sent) > 0 {
		if err := r.awaitCanary(ctx); err != nil || r.report.Stopped != "" {
			return err
		}
	}
	next, stop := ticks(r.pace.Rate)
	defer stop()
	for i := range todo {
		if err := next(ctx); err != nil {
			return err
		}
		if r.watched() && time.Since(r.looked) >= time.Second {
			if err := r.look(ctx); err != nil {
				return err
			}
		}
		if r.watched() && r.tooMany() {
			return nil
		}
		if err := r.sendOne(ctx, &todo[i]); err != nil {
			return err
		}
	}
	return nil
}

func (r *redrive) sendOne(ctx context.Context, p *store.Parked) error {
	applied, err := changeOne(ctx, r.db, "redrive", r.report.Run, p, r.o, requeue)
	if err == nil && applied {
		r.add(runTarget{Consumer: p.Consumer, Identity: p.Identity})
		progress(r.o, len(r.sent), r.report.Selected)
	}
	return err
}

func (r *redrive) add(w runTarget) {
	if r.known[w] == nil {
		r.known[w] = &redriven{runTarget: w}
		r.sent = append(r.sent, r.known[w])
	}
}

func (r *redrive) count(o redriveOutcome) (n int) {
	for _, s := range r.sent {
		if s.outcome == o {
			n++
		}
	}
	return n
}

// tooMany reports whether too many messages failed again. Then it also sets the report's Stopped.
func (r *redrive) tooMany() bool {
	if n := r.count(failed); float64(n) > r.pace.MaxErrors*float64(max(10, len(r.sent))) {
		i := slices.IndexFunc(r.sent, func(s *redriven) bool { return s.outcome == failed })
		r.report.Stopped = fmt.Sprintf("%d of %d failed again: %s", n, len(r.sent), r.sent[i].why)
	}
	return r.report.Stopped != ""
}

// ticks returns two functions: wait waits until the rate allows the next message, and stop releases the
// timer.
func ticks(rate float64) (wait func(context.Context) error, stop func()) {
	if rate <= 0 {
		return func(ctx context.Context) error { return ctx.Err() }, func() {}
	}
	t := time.NewTicker(max(time.Duration(float64(time.Second)/rate), time.Microsecond))
	return func(ctx context.Context) error {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-t.C:
			return nil
		}
	}, t.Stop
}
