// This file joins and leaves the consumer group. The consumer starts without the topics that do not exist.
// It joins again when one of them exists.

package inbox

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync/atomic"
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

// openPatiently joins the group. It retries until it succeeds, ctx is done, or a retry cannot help.
func (in *Inbox[TTx]) openPatiently(ctx context.Context) error {
	limit := backoff.NewLogLimit()
	for attempt := 1; ; attempt++ {
		err := in.open(ctx)
		if err == nil || store.Incurable(err) {
			return err
		}
		if ctx.Err() != nil {
			return nil
		}
		in.noteCall(ctx, err)
		in.report(err)
		if level := levelOf(err); limit.DueAs(level, time.Now()) {
			in.o.Logger.Log(ctx, level, "inbox: cannot join the group yet; will retry", "consumer", in.group,
				"error", err)
		}
		if !backoff.Sleep(ctx, backoff.After(attempt, 100*time.Millisecond, time.Second)) {
			return nil
		}
	}
}

// subscribeError is an error of the broker when the consumer joins the group.
type subscribeError struct {
	group string
	err   error
}

func (e *subscribeError) Error() string { return fmt.Sprintf("subscribe %s: %v", e.group, e.err) }

func (e *subscribeError) Unwrap() error { return e.err }

// levelOf returns the log level for the error of a join that will be retried.
func levelOf(err error) slog.Level {
	if joining := (*subscribeError)(nil); errors.As(err, &joining) {
		return vitals.BrokerLevel(joining.err)
	}
	return vitals.Level(err)
}

// mayCallStore reports whether a store call may start now. Only one is in progress at a time.
func (l *loop[TTx]) mayCallStore() bool {
	return !l.callingStore && !l.in.checkpoints.Moved() && l.in.sub != nil
}

// startStoreCall starts the next store call in the background if it is due. It returns the time until it is
// due.
func (l *loop[TTx]) startStoreCall() (wait time.Duration) {
	if !l.mayCallStore() {
		return time.Hour
	}
	e, wait, some := l.in.checkpoints.Next(l.in.o.Now())
	if l.callingStore = some; some {
		l.spawn(func() { l.storeCalls <- l.in.checkpoints.Do(l.hard, e) })
		return time.Hour
	}
	return wait
}

// joinAgain joins the group again. Before that it leaves the group, unless the consumer has left it already.
// Partitions begin at their checkpoints.
func (in *Inbox[TTx]) joinAgain(ctx context.Context) error {
	left := in.sub == nil
	if !left {
		in.o.Logger.WarnContext(ctx, "inbox: the database was restored or rewound: joining the group again",
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

// leaveGroup leaves the group and drops its partitions. Running handlers continue, but the consumer cannot
// acknowledge their messages. The broker delivers these messages again, and the marks identify those that
// were finished.
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

// leaveAfter is the default of Options.leaveAfter: how long the consumer may be unable to handle messages
// before Run leaves the group.
const leaveAfter = 20 * time.Second

// outside reports whether the consumer is outside its group because it cannot handle messages. Either its
// database does not answer, or too many of its handlers ignore the end of their contexts. After
// Options.leaveAfter in this state the consumer leaves the group, so that other members take over.
func (l *loop[TTx]) outside(ctx context.Context) bool {
	in := l.in
	last := in.probe.Last()
	since, why := last.Since, last.Err
	if why == nil && in.allStuck != "" {
		since, why = l.stuckSince, errors.New(in.allStuck)
	}
	switch {
	case why == nil:
		return false
	case in.sub == nil:
		if last.Err != nil {
			in.probe.Ask(l.hard) // no message comes and calls the database
		}
		return true
	case l.callingStore, in.o.Now().Sub(since) < in.o.leaveAfter: // a store call still needs the partitions
		return false
	}
	in.o.Logger.WarnContext(ctx, "inbox: nothing can be handled: leaving the group until it can",
		"consumer", in.group, "since", since, "error", why)
	in.leaveGroup(ctx)
	return true
}

// withRemedy adds to an error about missing topics how to create them.
func (in *Inbox[TTx]) withRemedy(err error) error {
	if !errors.Is(err, broker.ErrNoTopic) {
		return err
	}
	return fmt.Errorf("%w; to create what is missing: skald migrate --broker URL --group %s --topic %s; "+
		"with a broker in this process: its MakeTopics", err, in.group, strings.Join(in.topics, " --topic "))
}

const (
	// absentEvery is how often the consumer checks whether missing topics exist.
	absentEvery = 10 * time.Second
	// absentSlow is the longest pause between two checks, after joins that added no topic.
	absentSlow = 5 * time.Minute
	// absentMost bounds the check of one topic.
	absentMost = 5 * time.Second
)

// absent has the topics that the consumer does not read because the broker refuses them. Only the goroutine
// of Run or Step uses it, except asking and exists: a check in the background also uses these two.
type absent struct {
	topics  []string
	why     string
	refused bool        // Receive refused a topic: the consumer joins again without it
	next    time.Time   // when to check again
	found   bool        // the consumer joins again because one of topics exists
	vain    int         // how many such joins in a row added no topic
	asking  atomic.Bool // a check is in progress
	exists  atomic.Bool // one of topics exists
}

// checkInterval returns the time between two checks.
func (a *absent) checkInterval() time.Duration { return min(absentEvery<<min(a.vain, 10), absentSlow) }

// joinGroup joins the group with all topics except those that the broker refuses. If the broker refuses all
// topics, the error wraps a *broker.TopicError.
func (in *Inbox[TTx]) joinGroup(ctx context.Context, g broker.Group) (broker.Subscription, error) {
	a := &in.absent
	before := len(a.topics)
	a.topics, a.why, a.refused = nil, "", false
	_, checks := in.bus.(broker.TopicChecker)
	var left []string
	var why error
	for {
		sub, err := join(ctx, in.bus, g)
		if err == nil {
			in.noteLeftOut(ctx, left, why, before)
			return sub, nil
		}
		why = errors.Join(why, err)
		var refused *broker.TopicError
		if !checks || !errors.As(err, &refused) || len(g.Topics) == 1 {
			return nil, why
		}
		others := slices.DeleteFunc(slices.Clone(g.Topics), func(t string) bool { return t == refused.Topic })
		if len(others) == len(g.Topics) {
			return nil, why
		}
		g.Topics, left = others, append(left, refused.Topic)
	}
}

// noteLeftOut records the topics that the consumer does not read, and schedules the next check of them.
// Until now oldCount topics were left out.
func (in *Inbox[TTx]) noteLeftOut(ctx context.Context, topics []string, why error, oldCount int) {
	a := &in.absent
	if a.found && len(topics) >= oldCount {
		a.vain++
	} else if !a.found {
		a.vain = 0
	}
	a.found = false
	a.exists.Store(false)
	if len(topics) == 0 {
		return
	}
	what := "no such topic: "
	if !errors.Is(why, broker.ErrNoTopic) {
		what = "the broker refuses the topic: "
	}
	why = in.withRemedy(why)
	a.topics, a.next = topics, in.o.Now().Add(a.checkInterval())
	a.why = fmt.Sprintf("%s%s; the consumer reads its other topics: %v", what,
		strings.Join(topics, ", "), why)
	in.o.Logger.ErrorContext(ctx, "inbox: topics cannot be read; the consumer reads the others and checks again",
		"consumer", in.group, "missing", topics, "error", why)
}

// readChecker is a broker, such as Kafka, that may have a topic but not allow this user to read it.
type readChecker interface {
	CheckReading(ctx context.Context, topic string) error
}

// exists reports whether topic exists, can be used, and may be read by this user.
func exists(ctx context.Context, check broker.TopicChecker, topic string) bool {
	ctx, stop := context.WithTimeout(ctx, absentMost)
	defer stop()
	missing, err := check.CheckTopics(ctx, topic)
	if err != nil || slices.ContainsFunc(missing, func(line string) bool { return concerns(line, topic) }) {
		return false
	}
	reader, asks := check.(readChecker)
	return !asks || reader.CheckReading(ctx, topic) == nil
}

// concerns reports whether a line of CheckTopics quotes topic. Lines about all topics quote no topic. So the
// consumer joins a topic that exists even if, for example, "skald.dropped" is missing.
func concerns(line, topic string) bool {
	return strings.Contains(line, `"`+topic+`"`) || strings.Contains(line, "."+topic+`"`)
}

// joinWithFound leaves the group if a missing topic exists now, or if the broker refuses a topic that it
// accepted before. The consumer then joins again with the topics that it can read. Run checks the topics in
// the background. Step waits for each check. It checks on each call, until a join added no topic.
func (in *Inbox[TTx]) joinWithFound(ctx context.Context) {
	a := &in.absent
	if in.sub == nil {
		return
	}
	if a.refused {
		in.leaveGroup(ctx)
		return
	}
	if len(a.topics) == 0 {
		return
	}
	due := !in.checkpoints.Patient() && a.vain == 0 || !in.o.Now().Before(a.next)
	if now := in.o.Now(); due && a.asking.CompareAndSwap(false, true) {
		a.next = now.Add(a.checkInterval())
		check, topics := in.bus.(broker.TopicChecker), a.topics
		ask := func() {
			defer a.asking.Store(false)
			for _, topic := range topics {
				if exists(context.WithoutCancel(ctx), check, topic) {
					a.exists.Store(true)
				}
			}
		}
		if in.checkpoints.Patient() {
			go ask()
		} else {
			ask()
		}
	}
	if a.exists.Swap(false) {
		in.o.Logger.InfoContext(ctx, "inbox: a missing topic exists now: joining the group with it", "consumer",
			in.group, "missing", a.topics)
		a.found = true
		in.leaveGroup(ctx)
	}
}
