package inbox

import (
	"context"
	"errors"
	"time"

	"github.com/skald-go/skald/broker"
	"github.com/skald-go/skald/internal/backoff"
	"github.com/skald-go/skald/store"
)

func (in *Inbox[TTx]) leave() {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	if err := in.Close(ctx); err != nil && !errors.Is(err, broker.ErrClosed) {
		in.o.Logger.Warn("inbox: leave the group", "consumer", in.group, "error", err)
	}
	in.count(func(h *Health) { h.Live, h.Ready, h.Why = false, false, "stopped" })
}

func (in *Inbox[TTx]) openPatiently(ctx context.Context) error {
	say := seldom()
	for attempt := 1; ; attempt++ {
		err := in.open(ctx)
		if err == nil || store.Incurable(err) {
			return err
		}
		if ctx.Err() != nil {
			return nil
		}
		in.report(err)
		if say.Due(time.Now()) {
			in.o.Logger.WarnContext(ctx, "inbox: waiting", "consumer", in.group, "error", err)
		}
		if !sleep(ctx, backoff.After(attempt, 100*time.Millisecond, time.Second)) {
			return nil
		}
	}
}

// send has positions stored, if it is time to, beside what else goes on. It says when it is.
func (l *loop[TTx]) send() (wait time.Duration) {
	if l.away || l.in.book.moved || l.in.sub == nil {
		return time.Hour
	}
	e, wait, some := l.in.errand(l.in.o.Now())
	if l.away = some; some {
		go func() { l.errands <- l.in.goFor(l.hard, e) }()
		return time.Hour
	}
	return wait
}
