package inbox

import (
	"math"
	"time"
)

// retryPart is which part of the workers' time, and of the messages begun, goes to retries that fail while
// others are ready: 1/retryPart.
const retryPart = 20

// retries bounds what a consumer spends on messages that have failed. Where they succeed again, as after an
// outage of a service, twice as many may run after each, up to all workers. Where they fail, few run, and
// only between many others. It belongs to one goroutine.
type retries struct {
	workers int
	window  int  // that may run at a time
	running int  // of them
	stuck   int  // of those, in handlers that ignore that their context ended
	failing bool // the last one that ended
	others  int  // messages begun since the last one that began
	until   time.Time
}

// newRetries returns Retries for so many workers.
func newRetries(workers int) *retries {
	r := &retries{workers: workers}
	r.window = r.least()
	return r
}

func (r *retries) least() int { return max(1, r.workers/retryPart) }

// idle is how many may run where nothing else is ready: what comes then still finds workers.
func (r *retries) idle() int { return max(r.window, r.workers/4) }

// Allowed reports whether one more may begin now. Others: other messages are ready.
func (r *retries) Allowed(others bool, now time.Time) bool {
	running := r.running - r.stuck
	if !others {
		return running < r.idle()
	}
	return running < r.window && (!r.failing || r.others >= retryPart-1 && !now.Before(r.until))
}

// Most returns how many may be claimed, so that one that is allowed is there: any number while they succeed.
func (r *retries) Most() int {
	if !r.failing {
		return math.MaxInt
	}
	return 2 * r.idle()
}

// Begin notes that one begins.
func (r *retries) Begin() { r.running, r.others = r.running+1, 0 }

// Others notes that n other messages begin.
func (r *retries) Others(n int) { r.others = min(r.others+n, retryPart) }

// End notes that one ended, after so long.
func (r *retries) End(well bool, took time.Duration, now time.Time) {
	r.running--
	if r.failing = !well; well {
		r.window = min(2*r.window, r.workers)
		return
	}
	r.window = r.least()
	r.until = now.Add(took * time.Duration(max(0, retryPart-r.workers)) / time.Duration(r.workers))
}
