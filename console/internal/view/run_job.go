// This file executes bulk actions in the background. skald_audit records each bulk action as a run.

package view

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/skald-go/skald/console/internal/page"
	"github.com/skald-go/skald/operate"
)

// shortWait limits the time that the answer to a form waits for the end of its run. Most runs end within this
// time.
const shortWait = 300 * time.Millisecond

// mostJobs limits the concurrent bulk actions of each source.
const mostJobs = 4

// Jobs has the runs that this process executes.
type Jobs struct {
	actions context.Context // ends all runs
	log     *slog.Logger

	mu   sync.Mutex
	here map[string]*job // by source and run
}

// NewRun returns an empty Jobs. All its runs stop when actions ends.
func NewRun(actions context.Context, log *slog.Logger) *Jobs {
	return &Jobs{actions: actions, log: log, here: map[string]*job{}}
}

// job is a run in progress.
type job struct {
	name string // key in Jobs.here
	ctx  context.Context
	stop context.CancelFunc
	done chan struct{} // closed when the run has ended

	mu  sync.Mutex
	by  string // the user that stopped it
	did int    // the number of changed messages or sagas
}

// Wait blocks until j has ended, for at most shortWait.
func (j *job) Wait(ctx context.Context) {
	t := time.NewTimer(shortWait)
	defer t.Stop()
	select {
	case <-j.done:
	case <-t.C:
	case <-ctx.Done():
	}
}

func (j *job) progress(done, _ int) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.did = done
}

func (j *job) stoppedBy(name string) {
	j.mu.Lock()
	j.by = name
	j.mu.Unlock()
	j.stop()
}

func jobName(source, run string) string { return source + "\x00" + run }

func (js *Jobs) job(source, run string) *job {
	js.mu.Lock()
	defer js.mu.Unlock()
	return js.here[jobName(source, run)]
}

// inHand returns the names of the runs that this process executes.
func (js *Jobs) inHand() map[string]bool {
	js.mu.Lock()
	defer js.mu.Unlock()
	names := map[string]bool{}
	for name := range js.here {
		names[name] = true
	}
	return names
}

// Reserve adds a job for a run, before the caller records the run. It returns an error if the run is in
// progress already, or if the source has too many jobs. Afterwards the caller must call Launch or LetGo.
func (js *Jobs) Reserve(s *page.Source, run string) (*job, error) {
	name := jobName(s.Name, run)
	js.mu.Lock()
	defer js.mu.Unlock()
	n := 0
	for other := range js.here {
		if strings.HasPrefix(other, jobName(s.Name, "")) {
			n++
		}
	}
	switch {
	case js.here[name] != nil:
		return nil, page.NewRefusal(http.StatusConflict, "the run is in progress already")
	case n >= mostJobs:
		return nil, page.NewRefusal(http.StatusTooManyRequests,
			"this console has %d runs of %s in progress: wait until one has ended, or stop one",
			mostJobs, s.Name)
	case js.actions.Err() != nil:
		return nil, page.NewRefusal(http.StatusServiceUnavailable,
			"this console is shutting down")
	}
	j := &job{done: make(chan struct{}), name: name}
	j.ctx, j.stop = context.WithCancel(js.actions)
	js.here[name] = j
	return j, nil
}

// LetGo removes a job that was not launched, or that has ended.
func (js *Jobs) LetGo(j *job) {
	j.stop()
	js.mu.Lock()
	defer js.mu.Unlock()
	delete(js.here, j.name)
	close(j.done)
}

// Launch begins or continues the run in the background, independent of the request.
func (js *Jobs) Launch(s *page.Source, run operate.Run, j *job) {
	go func() {
		defer js.LetGo(j)
		js.carry(j.ctx, s, run, j)
	}()
}

// Wait blocks until no run is in progress.
func (js *Jobs) Wait(ctx context.Context) error {
	for {
		var one *job
		js.mu.Lock()
		for _, j := range js.here {
			one = j
		}
		js.mu.Unlock()
		if one == nil {
			return nil
		}
		select {
		case <-one.done:
		case <-ctx.Done():
			return fmt.Errorf("wait for bulk actions: %w", ctx.Err())
		}
	}
}

// carry executes the run, and records its outcome or its interruption.
func (js *Jobs) carry(ctx context.Context, s *page.Source, run operate.Run, j *job) {
	_, err := page.Rescued(ctx,
		func(ctx context.Context) (struct{}, error) { return struct{}{}, do(ctx, s, run, j) })
	last, stop := context.WithTimeout(context.WithoutCancel(ctx), 10*time.Second)
	defer stop()
	if err := js.note(last, ctx, s, run, j, err); err != nil {
		js.log.WarnContext(ctx, "console: cannot record the result of a run; resume it", "source",
			s.Name, "run", run.ID, "error", err)
	}
}

func do(ctx context.Context, s *page.Source, run operate.Run, j *job) error {
	o := operate.Order{Author: run.Author, Reason: run.Reason, Run: run.ID, Progress: j.progress}
	sel := run.Request.Selection
	switch {
	case run.SagaVerbOf() != "":
		_, err := operate.ChangeSagas(ctx, s.DB, *run.Request.Sagas, *run.Request.Change, o)
		return err
	case run.Request.Flows != nil && s.CompensateAll != nil:
		_, err := s.CompensateAll(ctx, *run.Request.Flows, o)
		return err
	}
	switch run.Verb {
	case "redrive":
		pace := run.Request.Pace
		pace.Run = run.ID
		_, err := operate.Redrive(ctx, s.DB, sel, pace, o)
		return err
	case "release":
		_, err := operate.Release(ctx, s.DB, sel, o)
		return err
	case "drop":
		_, err := operate.Drop(ctx, s.DB, sel, run.Request.Call, o)
		return err
	}
	return &operate.UsageError{Reason: "this console does not support the verb " + run.Verb}
}

func (js *Jobs) note(ctx, ended context.Context, s *page.Source, run operate.Run, j *job, err error) error {
	j.mu.Lock()
	by, did := j.by, j.did
	j.mu.Unlock()
	var partly *operate.PartialError
	var usage *operate.UsageError
	var none *operate.NoMatchError
	var unsettled *operate.UnsettledError
	var stopped *operate.StoppedError
	switch {
	case errors.As(err, &stopped), run.Verb == "redrive" && (err == nil || errors.As(err, &partly)):
		return nil // the operation itself has recorded the outcome
	case err == nil: // count the changes in the database, because another process may have made some of them
		if run.Request.Flows == nil { // a run on flows selects all its sagas again, so it counts them itself
			now, err := operate.ReadRun(ctx, s.DB, run.ID)
			if err != nil {
				return err
			}
			did = now.Done
		}
		return operate.EndRun(ctx, s.DB, run,
			fmt.Sprintf("%d of %d %s", did, run.Request.Of, things(&run.Request)))
	case errors.As(err, &partly), errors.As(err, &usage), errors.As(err, &unsettled):
		return operate.EndRun(ctx, s.DB, run, err.Error())
	case errors.As(err, &none):
		return operate.EndRun(ctx, s.DB, run, "nothing is left to do")
	case by != "":
		return operate.StopRun(ctx, s.DB, run, by, "by "+by)
	case ended.Err() != nil:
		return operate.StopRun(ctx, s.DB, run, run.Author, "the console ended")
	}
	js.log.WarnContext(ctx, "console: a run was interrupted", "source", s.Name, "run", run.ID, "error", err)
	return operate.StopRun(ctx, s.DB, run, run.Author, page.Cut(err.Error(), 500))
}
