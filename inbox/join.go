package inbox

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"github.com/skald-go/skald/broker"
	"github.com/skald-go/skald/internal/backoff"
	"github.com/skald-go/skald/internal/vitals"
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
	say := backoff.Seldom()
	for attempt := 1; ; attempt++ {
		err := in.open(ctx)
		if err == nil || store.Incurable(err) {
			return err
		}
		if ctx.Err() != nil {
			return nil
		}
		in.called(ctx, err)
		in.report(err)
		if say.Due(time.Now()) {
			in.o.Logger.Log(ctx, levelOf(err), "inbox: cannot join yet, tries again", "consumer", in.group,
				"error", err)
		}
		if !backoff.Sleep(ctx, backoff.After(attempt, 100*time.Millisecond, time.Second)) {
			return nil
		}
	}
}

// A subscribeError is what the broker answered to a consumer that would join.
type subscribeError struct {
	group string
	err   error
}

func (e *subscribeError) Error() string { return fmt.Sprintf("subscribe %s: %v", e.group, e.err) }

func (e *subscribeError) Unwrap() error { return e.err }

// levelOf returns how an error of a start is logged that is tried again.
func levelOf(err error) slog.Level {
	if joining := (*subscribeError)(nil); errors.As(err, &joining) {
		return vitals.BrokerLevel(joining.err)
	}
	return vitals.Level(err)
}

// send has positions stored, if it is time to, beside what else goes on. It says when it is.
func (l *loop[TTx]) send() (wait time.Duration) {
	if l.away || l.in.checkpoints.Moved() || l.in.sub == nil {
		return time.Hour
	}
	e, wait, some := l.in.checkpoints.Next(l.in.o.Now())
	if l.away = some; some {
		go func() { l.storeCalls <- l.in.checkpoints.Do(l.hard, e) }()
		return time.Hour
	}
	return wait
}

// joinAgain leaves the group and joins it anew: the database is not where it was, so what is known of
// partitions in memory is worth nothing, and they begin where the database says.
func (in *Inbox[TTx]) joinAgain(ctx context.Context) error {
	if in.sub != nil {
		in.o.Logger.WarnContext(ctx, "inbox: the database went back, or was rewound: joining the group anew",
			"consumer", in.group)
		err := in.sub.Close(ctx)
		if err != nil && !errors.Is(err, broker.ErrClosed) {
			in.o.Logger.WarnContext(ctx, "inbox: leave the group", "consumer", in.group, "error", err)
		}
	}
	in.sub, in.askAt = nil, time.Time{}
	in.sources.Clear()
	in.checkpoints.Rejoin()
	return in.open(ctx)
}

// withRemedy says how a topic is made that is not there.
func (in *Inbox[TTx]) withRemedy(err error) error {
	if !errors.Is(err, broker.ErrNoTopic) {
		return err
	}
	return fmt.Errorf("%w; to make what is missing: skald migrate --broker URL --group %s --topic %s; "+
		"of a broker in this process: its MakeTopics", err, in.group, strings.Join(in.topics, " --topic "))
}
