package inbox

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/skald-go/skald/broker"
	"github.com/skald-go/skald/internal/retention"
	"github.com/skald-go/skald/store"
)

// A Window says for how long after it was written a message may come, where the inbox cannot find that out:
// marks have to be kept as long, and Run, or the first Step, ends with a *store.RetentionError where they are
// not. The zero value works.
type Window struct {
	// Outbox is how long after it was written a message may leave the outbox of its producer: what that
	// keeps, or its longest lag if that is more. Default 7 days.
	Outbox time.Duration
	// Broker is how long the broker keeps a message, and is taken for what it says itself. Default: it is
	// asked; RabbitMQ and a broker that gives no right to ask cannot tell, and count as 0.
	Broker time.Duration
	// Saga is the longest that a saga lives in which this consumer takes part. Default 0: it is in none.
	Saga time.Duration
	// Dead is how long after it was written a dead letter may still come from elsewhere, from a topic of them
	// say. Those in the store are kept as long as they are there, and need no mark. Default 0: none does.
	Dead time.Duration
	// Short lets it start although marks are kept for less: what comes later is put into quarantine as too
	// old, or, if its id tells no time, taken again. Default: it does not start.
	Short bool
}

// checkWindow compares how long marks are kept with how long they are needed.
func (in *Inbox[TTx]) checkWindow(ctx context.Context) error {
	w, err := in.window(ctx)
	if err != nil {
		return err
	}
	if err := in.checkCache(w.Marks); err != nil {
		return err
	}
	broken := w.Broken()
	if len(broken) > 0 && !in.o.Retention.Window.Short {
		err := broken[0]
		for _, more := range broken[1:] {
			err = fmt.Errorf("%w; %w", err, more)
		}
		return fmt.Errorf("%w; to start all the same: inbox.Options.Retention.Window.Short", err)
	}
	for _, err := range broken {
		in.o.Logger.WarnContext(ctx, "inbox: marks are kept too briefly", "consumer", in.group, "error", err)
	}
	if topics := w.Endless(); len(topics) > 0 {
		in.o.Logger.WarnContext(ctx, "inbox: the broker keeps messages for ever, marks go: what is read again from the beginning is put into quarantine as too old, or taken again if its id tells no time",
			"consumer", in.group, "topics", strings.Join(topics, ", "), "marks", w.Marks)
	}
	return nil
}

// window is what is to be compared.
func (in *Inbox[TTx]) window(ctx context.Context) (retention.Window, error) {
	o := in.o.Retention.Window
	w := retention.Window{Outbox: cmp.Or(o.Outbox, 7*24*time.Hour), Age: in.o.Retry.Age, Saga: o.Saga,
		Dead: o.Dead}
	keep, err := in.keeps(ctx)
	if err != nil {
		return w, err
	}
	w.Marks, w.Steps = keep.Marks, keep.Steps
	w.Broker, err = in.brokerKeeps(ctx)
	return w, err
}

// keeps is the retention that holds for the marks: ours, if we see to it, or that which was seen to last.
func (in *Inbox[TTx]) keeps(ctx context.Context) (store.Retention, error) {
	if in.o.Retention.Keep != nil {
		return retention.OrDefaults(*in.o.Retention.Keep)
	}
	status, err := in.db.Status(ctx, store.StatusQuery{Retention: true})
	if err != nil {
		return store.Retention{}, fmt.Errorf("look at the retention of marks: %w", err)
	}
	// of none: what a relay will go by, unless it is told otherwise
	return retention.OrDefaults(status.Retention)
}

// brokerKeeps is how long the broker keeps a message, by topic.
func (in *Inbox[TTx]) brokerKeeps(ctx context.Context) (map[string]time.Duration, error) {
	out := map[string]time.Duration{}
	if d := in.o.Retention.Window.Broker; d > 0 {
		for _, topic := range in.topics {
			out[topic] = d
		}
		return out, nil
	}
	asked, ok := in.bus.(broker.Keeper)
	if !ok || len(in.topics) == 0 {
		return out, nil
	}
	told, err := asked.Keeps(ctx, in.topics...)
	if errors.Is(err, broker.ErrUnsupported) {
		return out, nil
	}
	if err != nil {
		return nil, fmt.Errorf("ask the broker how long it keeps messages: %w", err)
	}
	var unknown []string
	for _, topic := range in.topics {
		if d, ok := told[topic]; ok {
			out[topic] = d
		} else {
			unknown = append(unknown, topic)
		}
	}
	if len(unknown) > 0 {
		slices.Sort(unknown)
		in.o.Logger.InfoContext(ctx, "inbox: the broker does not tell how long it keeps messages; give inbox.Options.Retention.Window.Broker to have it compared with the marks",
			"consumer", in.group, "topics", strings.Join(unknown, ", "))
	}
	return out, nil
}
