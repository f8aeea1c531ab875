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

// Runner works until ctx is done. Then Run begins no more work, finishes the work in progress (the Drain
// option of each Runner limits this), releases its leases and returns nil. During an outage of the database
// or the broker, Run waits. It returns an error only if waiting cannot help, for example if a table or a
// right is missing.
type Runner interface {
	Run(ctx context.Context) error
}

// Stepper does one round of the work of a Runner, with the same code, and does not wait for more work. Tests
// call it. busy reports whether there was work.
type Stepper interface {
	Step(ctx context.Context) (busy bool, err error)
}

// Part is a Runner that reports its status. Run and package health use the status. Inboxes, engines, relays
// and health.Server are Parts.
type Part interface {
	Runner
	Status() Status
}

// Status is the status of a Part. Package health serves it to probes.
type Status struct {
	Name  string // the name for errors and health pages, such as "consumer stock"
	Stage Stage  // the stage of the shutdown in which Run stops the Part

	Live  bool   // false only after Run of the Part has returned: then restart the process
	Ready bool   // true if the database and the broker answer
	Why   string // the reason if Live or Ready is false, in one line
}

// Stage is a stage of the shutdown. Run stops the Parts of a stage after all Parts of earlier stages have
// ended.
type Stage int

// Values of Stage, in the order of the shutdown.
const (
	Handling   Stage = iota // inboxes, engines, and each Runner that is no Part
	Publishing              // relays: they publish the last messages of the handlers
	Serving                 // HTTP servers: they answer probes until all other Parts have ended
	stages
)

// Run runs all of rs until ctx is done or one of them returns an error. Then it stops the others in the
// order of their stages, waits for them, and returns all errors joined. The error of a Part begins with the
// name of the Part.
//
// At the beginning of the shutdown, Run calls the method Stopping of each Runner that has this method. A
// health.Server is then no longer ready, but still answers.
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

// RunUntilSignal calls Run and stops at SIGINT or SIGTERM. A second signal ends the process at once, without
// waiting for work in progress. That is as safe as a crash: no message is lost. RunUntilSignal logs the
// signal to slog.Default.
func RunUntilSignal(ctx context.Context, rs ...Runner) error {
	ctx, stop := signal.NotifyContext(ctx, os.Interrupt, syscall.SIGTERM)
	defer stop()
	logged := make(chan struct{})
	unhook := context.AfterFunc(ctx, func() {
		defer close(logged)
		stop() // restore the default: a signal ends the process
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

// withName adds the name of a Part to its error, unless the error begins with this name.
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
