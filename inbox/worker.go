package inbox

import "github.com/skald-go/skald/inbox/internal/exec"

// work does one job after the other: a goroutine for each would grow its stack anew each time.
func (l *loop[TTx]) work() {
	w := l.in.exec.NewWorker(l.jobs)
	defer w.Close()
	ctx := w.Under(l.hard)
	for job := range l.jobs {
		for len(job) > 0 {
			var rs []exec.Result
			rs, job = w.Work(ctx, job)
			l.results <- rs
		}
	}
}

// unhand takes back what no worker has begun.
func (l *loop[TTx]) unhand() {
	for {
		select {
		case job := <-l.jobs:
			l.running--
			for _, e := range job {
				delete(l.hands, e)
			}
		default:
			return
		}
	}
}
