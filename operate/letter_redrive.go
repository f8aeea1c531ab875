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

// A Pace says how carefully dead letters are redriven. The zero Pace redrives all at once and watches
// nothing.
type Pace struct {
	// Run names a run that is watched: what becomes of its messages is looked at, and a call under the name
	// of a run that was interrupted goes on where that was, redriving none twice. Empty: nothing is watched,
	// and the other fields are refused.
	Run string `json:"run,omitempty"`
	// Canary redrives one first, and the others only if it succeeds.
	Canary bool `json:"canary,omitempty"`
	// Rate is how many are redriven a second. 0: all at once.
	Rate float64 `json:"rate,omitempty"`
	// MaxErrors is the share of those redriven that may fail again; more end the run. Of fewer than ten it is
	// of ten.
	MaxErrors float64 `json:"max_errors,omitempty"`
	// Wait is how long to wait for what becomes of the canary, and of the last ones. Default 1 min.
	Wait time.Duration `json:"wait,omitempty"`
}

// leastRate and mostRate bound a rate: a message takes hours, or no time.
const leastRate, mostRate = 0.0001, 1_000_000

// CheckNumbers is a *UsageError where a number of p is none, or out of its bounds.
func (p *Pace) CheckNumbers() error {
	switch { // what is no number is neither less than another nor more
	case !(p.MaxErrors >= 0 && p.MaxErrors <= 1) || p.Wait < 0:
		return &UsageError{What: "a wait is positive, a share of errors is from 0 to 1"}
	case p.Rate != 0 && !(p.Rate >= leastRate && p.Rate <= mostRate):
		return &UsageError{What: fmt.Sprintf("a rate is 0, or from %g to %d a second",
			leastRate, mostRate)}
	}
	return nil
}

func (p *Pace) check() error {
	if err := p.CheckNumbers(); err != nil {
		return err
	}
	switch {
	case p.Run == "" && (p.Canary || p.Rate > 0):
		return &UsageError{What: "a canary or a rate needs the name of a run"}
	}
	p.Wait = cmp.Or(p.Wait, time.Minute)
	return nil
}

// A RedriveReport tells what was redriven. Done counts those of earlier calls of the same run, too.
type RedriveReport struct {
	Report
	// dead letters that are rejections, and are left as they are: others have been told of them
	Rejections int

	Run     string    // "": it was not watched
	Begun   time.Time // when an earlier call began the run; zero: none did
	Stopped string    // why the run ended early; "": it did not

	Succeeded, Rejected, Failed, Open int // of a watched run: what became of those redriven by now

	Planned []store.Parked // of a dry run: what would be redriven, in order
}

// Outcome says in a line what came of a watched run.
func (r *RedriveReport) Outcome() string {
	line := fmt.Sprintf("%d redriven, %d succeeded, %d rejected, %d failed again, %d not taken yet", r.Done,
		r.Succeeded, r.Rejected, r.Failed, r.Open)
	if r.Stopped != "" {
		line += "; " + r.Stopped
	}
	return line
}

// A StoppedError says that a watched redrive was ended early, since too many failed again. The report is
// valid.
type StoppedError struct{ Why string }

func (e *StoppedError) Error() string { return "redrive: stopped: " + e.Why }

// A Redriver is what Redrive asks of a store.
type Redriver interface {
	Keeper
	RunReader
}

// Redrive has the selected dead letters taken again by the consumer that failed: each is parked again at its
// place, under the same id, with a new count of attempts. Rejections are left. With a *PartlyError or a
// *StoppedError the report is valid, too.
func Redrive(ctx context.Context, db Redriver, s Selection, pace Pace, o Order) (RedriveReport, error) {
	s.Dead = true
	r := &redrive{db: db, s: &s, pace: pace, o: &o, known: map[runTarget]*redriven{}}
	err := r.pace.check()
	if err == nil {
		err = s.check(&o)
	}
	if err == nil && pace.Run != "" && !o.DryRun {
		r.report.Run = pace.Run
		if err = r.resume(ctx); err != nil {
			err = fmt.Errorf("redrive: look at what was redriven before: %w", err)
		}
	}
	if err == nil {
		err = r.run(ctx)
	}
	return r.report, err
}

// A redrive is one run, perhaps over several calls.
type redrive struct {
	db   Redriver
	s    *Selection
	pace Pace
	o    *Order

	report RedriveReport
	sent   []*redriven
	known  map[runTarget]*redriven
	looked time.Time // when it was last looked what became of them
}

// A redriven is a message of the run and what has become of it.
type redriven struct {
	runTarget
	fate fate
	why  string // it failed, or was rejected
}

type fate int

const (
	open   fate = iota // not taken yet
	done               // its effect is committed
	no                 // its handler rejected it
	failed             // it failed again
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
		return &NoneError{
			What: fmt.Sprintf("nothing is redriven: %d rejections are meant, of which others have been told: see skald dead edit and skald dead drop", r.report.Rejections)}
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
		return fmt.Errorf("redrive, after %d of %d messages; the same command goes on: %w", r.report.Done,
			r.report.Selected, err)
	}
	if r.watched() {
		if err := r.note(ctx); err != nil {
			return fmt.Errorf("redrive: note what came of it: %w", err)
		}
	}
	if r.report.Stopped != "" {
		return &StoppedError{r.report.Stopped}
	}
	return partly(&r.report.Report, "redrive")
}

// sum counts what became of all of them.
func (r *redrive) sum() {
	r.report.Done = len(r.sent)
	r.report.Succeeded, r.report.Rejected, r.report.Failed, r.report.Open = r.count(done), r.count(no),
		r.count(failed), r.count(open)
}

// todo is what is to be redriven yet.
func (r *redrive) todo(ctx context.Context) (todo []store.Parked, err error) {
	all, err := selected(ctx, r.db, r.s)
	if none := new(NoneError); errors.As(err, &none) && len(r.sent) > 0 {
		err = nil // the run was interrupted when all were redriven, before it was noted
	}
	for _, p := range all {
		switch {
		case p.Dead.Kind == failure.KindRejected:
			r.report.Rejections++
		// else it is one of this run, and dead again
		case r.known[runTarget{Consumer: p.Consumer, Identity: p.Identity}] == nil:
			todo = append(todo, p)
		}
	}
	return todo, err
}

// send redrives todo, in order: the canary alone, the others at the rate, as long as few of them fail.
func (r *redrive) send(ctx context.Context, todo []store.Parked) error {
	// one that somebody else changed meanwhile tells nothing
	for r.pace.Canary && len(r.sent) == 0 && len(todo) > 0 {
		if err := r.sendOne(ctx, &todo[0]); err != nil {
			return err
		}
		todo = todo[1:]
	}
	if r.pace.Canary && len(r.sent) > 0 {
		if err := r.firstSucceeds(ctx); err != nil || r.report.Stopped != "" {
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
	stands, err := changeOne(ctx, r.db, "redrive", r.report.Run, p, r.o, requeue)
	if err == nil && stands {
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

func (r *redrive) count(f fate) (n int) {
	for _, s := range r.sent {
		if s.fate == f {
			n++
		}
	}
	return n
}

// tooMany failed again: it is the end of the run.
func (r *redrive) tooMany() bool {
	if n := r.count(failed); float64(n) > r.pace.MaxErrors*float64(max(10, len(r.sent))) {
		i := slices.IndexFunc(r.sent, func(s *redriven) bool { return s.fate == failed })
		r.report.Stopped = fmt.Sprintf("%d of %d failed again: %s", n, len(r.sent), r.sent[i].why)
	}
	return r.report.Stopped != ""
}

// ticks waits for the turn of the next message.
func ticks(rate float64) (next func(context.Context) error, stop func()) {
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
