package console

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"time"

	"github.com/skald-go/skald/operate"
)

// shortWait is how long a form waits for its run: most have ended by then.
const shortWait = 300 * time.Millisecond

// mostJobs bounds the bulk actions that this process runs at once.
const mostJobs = 4

// jobs are the runs that this process carries out. What they have done is in skald_audit; a job only says
// that somebody is at it.
type jobs struct {
	mu   sync.Mutex
	here map[string]*job // by source and run
}

// A job is a run in hand.
type job struct {
	stop context.CancelFunc
	done chan struct{} // closed when it has ended

	mu       sync.Mutex
	by       string // who stopped it
	did, all int
}

func (j *job) wait(ctx context.Context, most time.Duration) {
	t := time.NewTimer(most)
	defer t.Stop()
	select {
	case <-j.done:
	case <-t.C:
	case <-ctx.Done():
	}
}

func (j *job) progress(done, of int) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.did, j.all = done, of
}

func (j *job) stoppedBy(name string) {
	j.mu.Lock()
	j.by = name
	j.mu.Unlock()
	j.stop()
}

func (h *handler) job(source, run string) *job {
	h.jobs.mu.Lock()
	defer h.jobs.mu.Unlock()
	return h.jobs.here[source+"\x00"+run]
}

// start carries a run out, or goes on with it, until it has ended or is stopped, whatever becomes of the
// request.
func (h *handler) start(s *source, run operate.Run) (*job, error) {
	name := s.name + "\x00" + run.ID
	h.jobs.mu.Lock()
	defer h.jobs.mu.Unlock()
	if h.jobs.here == nil {
		h.jobs.here = map[string]*job{}
	}
	switch {
	case h.jobs.here[name] != nil:
		return nil, refuse(http.StatusConflict, "the run is in hand already")
	case len(h.jobs.here) >= mostJobs:
		return nil, refuse(http.StatusTooManyRequests, "this console carries out %d runs already: wait until one has ended, then go on with this one (%s)", mostJobs, run.ID)
	}
	ctx, stop := context.WithCancel(h.o.Actions)
	j := &job{stop: stop, done: make(chan struct{})}
	h.jobs.here[name] = j
	go func() {
		defer close(j.done)
		defer func() {
			h.jobs.mu.Lock()
			delete(h.jobs.here, name)
			h.jobs.mu.Unlock()
		}()
		defer stop()
		h.carry(ctx, s, run, j)
	}()
	return j, nil
}

// carry does what a run asks for, and notes how it ended.
func (h *handler) carry(ctx context.Context, s *source, run operate.Run, j *job) {
	err := do(ctx, s, run, j)
	last, stop := context.WithTimeout(context.WithoutCancel(ctx), 10*time.Second)
	defer stop()
	if err := h.note(last, ctx, s, run, j, err); err != nil {
		h.o.Logger.WarnContext(ctx, "console: how a run ended could not be noted: go on with it", "source", s.name, "run", run.ID, "error", err)
	}
}

func do(ctx context.Context, s *source, run operate.Run, j *job) error {
	o := operate.Order{Author: run.Author, Reason: run.Reason, Run: run.ID, Progress: j.progress}
	sel := run.Request.Selection
	switch {
	case run.SagaVerbOf() != "":
		_, err := operate.ChangeSagas(ctx, s.db, *run.Request.Sagas, *run.Request.Change, o)
		return err
	case run.Request.Flows != nil && s.compensateAll != nil:
		_, err := s.compensateAll(ctx, *run.Request.Flows, o)
		return err
	}
	switch run.Verb {
	case "redrive":
		pace := run.Request.Pace
		pace.Run = run.ID
		_, err := operate.Redrive(ctx, s.db, sel, pace, o)
		return err
	case "release":
		_, err := operate.Release(ctx, s.db, sel, o)
		return err
	case "drop":
		_, err := operate.Drop(ctx, s.db, sel, run.Request.Call, o)
		return err
	}
	return &operate.UsageError{What: "this console does not know the verb " + run.Verb}
}

func (h *handler) note(ctx, ended context.Context, s *source, run operate.Run, j *job, err error) error {
	j.mu.Lock()
	by, did := j.by, j.did
	j.mu.Unlock()
	var partly *operate.PartlyError
	var usage *operate.UsageError
	var none *operate.NoneError
	var unsettled *operate.UnsettledError
	var stopped *operate.StoppedError
	switch {
	case errors.As(err, &stopped), run.Verb == "redrive" && (err == nil || errors.As(err, &partly)):
		return nil // it noted that itself
	case err == nil:
		return operate.EndRun(ctx, s.db, run, fmt.Sprintf("%d of %d %s", did, run.Request.Of, things(&run.Request)))
	case errors.As(err, &partly), errors.As(err, &usage), errors.As(err, &unsettled):
		return operate.EndRun(ctx, s.db, run, err.Error())
	case errors.As(err, &none):
		return operate.EndRun(ctx, s.db, run, "nothing is left to do")
	case by != "":
		return operate.StopRun(ctx, s.db, run, by, "by "+by)
	case ended.Err() != nil:
		return operate.StopRun(ctx, s.db, run, run.Author, "the console ended")
	}
	h.o.Logger.WarnContext(ctx, "console: a run was interrupted", "source", s.name, "run", run.ID, "error", err)
	return operate.StopRun(ctx, s.db, run, run.Author, cut(err.Error(), 500))
}
