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
		if level := levelOf(err); say.DueAs(level, time.Now()) {
			in.o.Logger.Log(ctx, level, "inbox: cannot join yet, tries again", "consumer", in.group,
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

// calls reports whether the store can be asked about partitions now.
func (l *loop[TTx]) calls() bool {
	return !l.away && !l.in.checkpoints.Moved() && l.in.sub != nil
}

// send stores positions in the background if they are due. It returns the time until they are due.
func (l *loop[TTx]) send() (wait time.Duration) {
	if !l.calls() {
		return time.Hour
	}
	e, wait, some := l.in.checkpoints.Next(l.in.o.Now())
	if l.away = some; some {
		go func() { l.storeCalls <- l.in.checkpoints.Do(l.hard, e) }()
		return time.Hour
	}
	return wait
}

// joinAgain leaves the group, unless the consumer has left it already, and joins it. Partitions begin where
// the database says.
func (in *Inbox[TTx]) joinAgain(ctx context.Context) error {
	left := in.sub == nil
	if !left {
		in.o.Logger.WarnContext(ctx, "inbox: the database went back, or was rewound: joining the group anew",
			"consumer", in.group)
	}
	in.leaveGroup(ctx)
	if err := in.open(ctx); err != nil {
		return err
	}
	if left {
		in.o.Logger.InfoContext(ctx, "inbox: joined the group again", "consumer", in.group)
	}
	return nil
}

// leaveGroup leaves the group and forgets its partitions. Handlers that run go on. Their results acknowledge
// nothing: a message that they finish comes again, and has a mark.
func (in *Inbox[TTx]) leaveGroup(ctx context.Context) {
	if in.sub != nil {
		ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
		defer cancel()
		if err := in.sub.Close(ctx); err != nil && !errors.Is(err, broker.ErrClosed) {
			in.o.Logger.WarnContext(ctx, "inbox: leave the group", "consumer", in.group, "error", err)
		}
	}
	in.sub, in.askAt = nil, time.Time{}
	in.checkpoints.Rejoin()
}

// leaveAfter is how long the database may not answer before Run leaves the group.
const leaveAfter = 20 * time.Second

// outside reports whether the consumer stays outside its group because its database does not answer. After
// Options.leaveAfter without an answer the consumer leaves, so that members with a database take over.
func (l *loop[TTx]) outside(ctx context.Context) bool {
	in := l.in
	last := in.probe.Last()
	switch {
	case last.Err == nil:
		return false
	case in.sub == nil:
		in.probe.Ask(l.hard) // nothing else asks while no message comes
		return true
	case l.away, in.o.Now().Sub(last.Since) < in.o.leaveAfter: // a call under way is about these partitions
		return false
	}
	in.o.Logger.WarnContext(ctx, "inbox: the database does not answer: leaving the group until it does",
		"consumer", in.group, "since", last.Since, "error", last.Err)
	in.leaveGroup(ctx)
	return true
}

// withRemedy says how a topic is made that is not there.
func (in *Inbox[TTx]) withRemedy(err error) error {
	if !errors.Is(err, broker.ErrNoTopic) {
		return err
	}
	return fmt.Errorf("%w; to make what is missing: skald migrate --broker URL --group %s --topic %s; "+
		"of a broker in this process: its MakeTopics", err, in.group, strings.Join(in.topics, " --topic "))
}
