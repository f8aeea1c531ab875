// This file has a consumer read the topics that exist while others do not exist yet, or exist no more.

package inbox

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"time"

	"github.com/skald-go/skald/broker"
)

const (
	// absentEvery is how often the consumer asks for topics that do not exist.
	absentEvery = 10 * time.Second
	// absentMost bounds one such question.
	absentMost = 5 * time.Second
)

// absent are the topics that the consumer does not read because they do not exist. It belongs to the
// goroutine of Run or Step; a question in the background touches asking and exists alone.
type absent struct {
	topics []string
	why    string
	next   time.Time // when to ask again
	asking atomic.Bool
	exists atomic.Bool // one of topics
}

// joinGroup joins the group with all topics that exist. An error that wraps broker.ErrNoTopic means that none
// exists, or that the broker cannot name those that do.
func (in *Inbox[TTx]) joinGroup(ctx context.Context, g broker.Group) (broker.Subscription, error) {
	in.absent.topics, in.absent.why = nil, ""
	sub, err := join(ctx, in.bus, g)
	check, checks := in.bus.(broker.TopicChecker)
	if !errors.Is(err, broker.ErrNoTopic) || !checks {
		return sub, err
	}
	var there, missing []string
	for _, topic := range g.Topics {
		if exists(ctx, check, topic) {
			there = append(there, topic)
		} else {
			missing = append(missing, topic)
		}
	}
	if len(there) == 0 || len(missing) == 0 {
		return nil, err
	}
	g.Topics = there
	sub, failed := join(ctx, in.bus, g)
	if failed != nil {
		return nil, errors.Join(err, failed)
	}
	in.absent.topics, in.absent.next = missing, in.o.Now().Add(absentEvery)
	in.absent.exists.Store(false)
	in.absent.why = fmt.Sprintf("no such topic: %s; the consumer reads its other topics: %v",
		strings.Join(missing, ", "), in.withRemedy(err))
	in.o.Logger.ErrorContext(ctx, "inbox: topics do not exist; the consumer reads the others and asks again",
		"consumer", in.group, "missing", missing, "error", in.withRemedy(err))
	return sub, nil
}

// exists reports whether the broker has topic in a state that can be used.
func exists(ctx context.Context, check broker.TopicChecker, topic string) bool {
	ctx, stop := context.WithTimeout(ctx, absentMost)
	defer stop()
	missing, err := check.CheckTopics(ctx, topic)
	return err == nil && len(missing) == 0
}

// joinWithFound leaves the group once a topic exists that did not exist before, so that the consumer joins
// with it. Run asks in the background, Step at once.
func (in *Inbox[TTx]) joinWithFound(ctx context.Context) {
	a := &in.absent
	if in.sub == nil || len(a.topics) == 0 {
		return
	}
	if now := in.o.Now(); !now.Before(a.next) && a.asking.CompareAndSwap(false, true) {
		a.next = now.Add(absentEvery)
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
		in.leaveGroup(ctx)
	}
}
