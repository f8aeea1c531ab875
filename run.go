package skald

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"strings"
	"sync"
	"syscall"
)

// Runner works until ctx is done. Then it takes no more work, finishes the work in progress (bounded by its
// own Drain option), releases its leases and returns nil. It waits for outages of database and broker to end,
// and returns an error only if waiting cannot help: a table or a right is missing.
type Runner interface {
	Run(ctx context.Context) error
}

// Stepper does one turn of the work of a Runner, by the same code, and never waits for more to arrive.
// Tests and explorers call it. The result busy reports whether there was work.
type Stepper interface {
	Step(ctx context.Context) (busy bool, err error)
}

// Part describes itself to Run and to health pages. Inboxes, engines, relays and health.Server are Parts.
type Part interface {
	Runner
	Status() Status
}

// Status describes a Part and its state. Package health serves the state to probes.
type Status struct {
	Name  string // for errors and health pages, for example "consumer stock"
	Stage Stage  // of the shutdown

	Live  bool   // false only after Run has ended: restart the process
	Ready bool   // database and broker answer
	Why   string // the reason if Live or Ready is false, in one line
}

// Stage is the place of a Part in the order of shutdown. Run stops a stage after all Parts of earlier stages
// have ended.
type Stage int

// The stages of a shutdown, in order.
const (
	Handling   Stage = iota // inboxes, engines, and each Runner that is no Part
	Publishing              // relays publish the last messages of the handlers
	Serving                 // HTTP servers answer probes until everything else has ended
	stages
)

// Run runs all of rs until ctx is done or one of them fails. Then it stops the others in the order of their
// stages, waits for them and returns their errors, joined. The error of a Part begins with its
// name.
//
// At the beginning of the shutdown Run calls the method Stopping of each Runner that has one. A health.Server
// is then no longer ready, but still answers.
func Run(ctx context.Context, rs ...Runner) error {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	var of [stages]struct {
		ctx     context.Context
		stop    context.CancelFunc
		running sync.WaitGroup
	}
	for s := range of {
		of[s].ctx, of[s].stop = context.WithCancel(context.WithoutCancel(ctx))
		defer of[s].stop()
	}
	errs := make([]error, len(rs))
	for i, r := range rs {
		s := &of[stageOf(r)]
		s.running.Go(func() {
			if err := r.Run(s.ctx); err != nil {
				errs[i] = withName(r, err)
				stop()
			}
		})
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for s := range of {
			of[s].running.Wait()
		}
	}()
	select {
	case <-ctx.Done():
	case <-ended:
	}
	for _, r := range rs {
		if r, ok := r.(interface{ Stopping() }); ok {
			r.Stopping()
		}
	}
	for s := range of {
		of[s].stop()
		of[s].running.Wait()
	}
	return errors.Join(errs...)
}

// RunUntilSignal calls Run and stops on SIGINT or SIGTERM. A second signal ends the process at once, without
// waiting for work in progress; a crash loses nothing either. It logs the signal to slog.Default.
func RunUntilSignal(ctx context.Context, rs ...Runner) error {
	ctx, stop := signal.NotifyContext(ctx, os.Interrupt, syscall.SIGTERM)
	defer stop()
	logged := make(chan struct{})
	unhook := context.AfterFunc(ctx, func() {
		defer close(logged)
		stop() // restores the default, by which a signal ends the process
		slog.InfoContext(ctx, "skald: stopping; a second signal ends the process at once", "cause",
			context.Cause(ctx))
	})
	err := Run(ctx, rs...)
	if !unhook() {
		<-logged
	}
	return err
}

func stageOf(r Runner) Stage {
	if p, ok := r.(Part); ok {
		return min(max(p.Status().Stage, Handling), stages-1)
	}
	return Handling
}

// withName returns err with the name of its Part in front, unless the error begins with it.
func withName(r Runner, err error) error {
	p, ok := r.(Part)
	if !ok {
		return err
	}
	name := p.Status().Name
	if strings.HasPrefix(err.Error(), name) {
		return err
	}
	return fmt.Errorf("%s: %w", name, err)
}
