// This file has a consumer read some topics while the broker refuses others, such as those that do not exist.

package inbox

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/skald-go/skald/broker"
)

const (
	// absentEvery is how often the consumer asks for topics that do not exist.
	absentEvery = 10 * time.Second
	// absentSlow is how often it asks at least, after joins that brought no topic.
	absentSlow = 5 * time.Minute
	// absentMost bounds one such question.
	absentMost = 5 * time.Second
)

// absent are the topics that the consumer does not read because the broker refuses them. It belongs to the
// goroutine of Run or Step; a question in the background touches asking and exists alone.
type absent struct {
	topics  []string
	why     string
	refused bool      // Receive named a topic: the consumer joins again without it
	next    time.Time // when to ask again
	found   bool      // the consumer joins again because one of topics exists
	vain    int       // how many such joins in a row brought no topic
	asking  atomic.Bool
	exists  atomic.Bool // one of topics
}

// every is the time between two questions.
func (a *absent) every() time.Duration { return min(absentEvery<<min(a.vain, 10), absentSlow) }

// joinGroup joins the group with all topics that the broker does not refuse. An error that wraps a
// *broker.TopicError means that the broker refuses all topics.
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
			in.leftOut(ctx, left, why, before)
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

// leftOut notes the topics that the consumer does not read, and plans the next question about them. Before is
// how many they were until now.
func (in *Inbox[TTx]) leftOut(ctx context.Context, topics []string, why error, before int) {
	a := &in.absent
	if a.found && len(topics) >= before {
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
	a.topics, a.next = topics, in.o.Now().Add(a.every())
	a.why = fmt.Sprintf("%s%s; the consumer reads its other topics: %v", what,
		strings.Join(topics, ", "), why)
	in.o.Logger.ErrorContext(ctx, "inbox: topics cannot be read; the consumer reads the others and asks again",
		"consumer", in.group, "missing", topics, "error", why)
}

// exists reports whether the broker has topic in a state that can be used.
func exists(ctx context.Context, check broker.TopicChecker, topic string) bool {
	ctx, stop := context.WithTimeout(ctx, absentMost)
	defer stop()
	missing, err := check.CheckTopics(ctx, topic)
	return err == nil && len(missing) == 0
}

// joinWithFound leaves the group once a topic exists that did not exist before, or the broker refuses one
// that it did not refuse before. The consumer joins again with the topics that it can read. Run asks in the
// background, Step at once, and each time until a join brought nothing.
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
		a.next = now.Add(a.every())
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
