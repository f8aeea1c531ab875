// This file sees to how long the marks of a consumer live: whether they outlive what they have to, and
// that they go when they are old.

package inbox

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"time"

	"github.com/skald-go/skald/broker"
	"github.com/skald-go/skald/internal/backoff"
	"github.com/skald-go/skald/internal/retention"
	"github.com/skald-go/skald/store"
)

// markNeeds are what marks have to outlive.
type markNeeds struct {
	Topics []string
	DB     store.Store
	Bus    any              // the broker, which may tell how long it keeps messages
	Keep   *store.Retention // that we see to; nil: somebody else does
	Age    time.Duration    // up to which a message is tried again
	Log    *slog.Logger     // that names the consumer

	// As inbox.Window has them.
	Outbox, Broker, Saga, Dead time.Duration
	Short                      bool
}

// Compare tells of a window whether marks are kept for as long as they are needed, or says in the log that
// they are not, where that is allowed.
func (n *markNeeds) Compare(ctx context.Context, w retention.Window) error {
	broken := w.Broken()
	if len(broken) > 0 && !n.Short {
		err := broken[0]
		for _, more := range broken[1:] {
			err = fmt.Errorf("%w; %w", err, more)
		}
		return fmt.Errorf("%w; to start all the same: inbox.Options.Retention.Window.Short", err)
	}
	for _, err := range broken {
		n.Log.WarnContext(ctx, "inbox: marks are kept too briefly", "error", err)
	}
	if topics := w.Endless(); len(topics) > 0 {
		n.Log.WarnContext(ctx,
			"inbox: the broker keeps messages for ever, marks go: what is read again from the beginning is put into quarantine as too old, or taken again if its id tells no time",
			"topics", strings.Join(topics, ", "), "marks", w.Marks)
	}
	return nil
}

// Window is what is to be compared.
func (n *markNeeds) Window(ctx context.Context) (retention.Window, error) {
	w := retention.Window{Outbox: cmp.Or(n.Outbox, 7*24*time.Hour), Age: n.Age, Saga: n.Saga,
		Dead: n.Dead}
	keep, err := n.keeps(ctx)
	if err != nil {
		return w, err
	}
	w.Marks, w.Steps = keep.Marks, keep.Steps
	w.Broker, err = n.brokerKeeps(ctx)
	return w, err
}

// keeps is the retention that holds for the marks: ours, if we see to it, or that which was seen to last.
func (n *markNeeds) keeps(ctx context.Context) (store.Retention, error) {
	if n.Keep != nil {
		return retention.OrDefaults(*n.Keep)
	}
	status, err := n.DB.Status(ctx, store.StatusQuery{Retention: true})
	if err != nil {
		return store.Retention{}, fmt.Errorf("look at the retention of marks: %w", err)
	}
	// of none: what a relay will go by, unless it is told otherwise
	return retention.OrDefaults(status.Retention)
}

// brokerKeeps is how long the broker keeps a message, by topic.
func (n *markNeeds) brokerKeeps(ctx context.Context) (map[string]time.Duration, error) {
	out := map[string]time.Duration{}
	if d := n.Broker; d > 0 {
		for _, topic := range n.Topics {
			out[topic] = d
		}
		return out, nil
	}
	asked, ok := n.Bus.(broker.Keeper)
	if !ok || len(n.Topics) == 0 {
		return out, nil
	}
	told, err := asked.Keeps(ctx, n.Topics...)
	if errors.Is(err, broker.ErrUnsupported) {
		return out, nil
	}
	if err != nil {
		return nil, fmt.Errorf("ask the broker how long it keeps messages: %w", err)
	}
	var unknown []string
	for _, topic := range n.Topics {
		if d, ok := told[topic]; ok {
			out[topic] = d
		} else {
			unknown = append(unknown, topic)
		}
	}
	if len(unknown) > 0 {
		slices.Sort(unknown)
		n.Log.InfoContext(ctx,
			"inbox: the broker does not tell how long it keeps messages; give inbox.Options.Retention.Window.Broker to have it compared with the marks",
			"topics", strings.Join(unknown, ", "))
	}
	return out, nil
}

// Window says for how long after it was written a message may come, where the inbox cannot find that out:
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
	o := in.o.Retention.Window
	needs := markNeeds{Topics: in.topics, DB: in.db, Bus: in.bus, Keep: in.o.Retention.Keep,
		Age: in.o.Retry.Age, Log: in.o.Logger.With("consumer", in.group),
		Outbox: o.Outbox, Broker: o.Broker, Saga: o.Saga, Dead: o.Dead, Short: o.Short}
	w, err := needs.Window(ctx)
	if err != nil {
		return err
	}
	if err := in.checkCache(w.Marks); err != nil {
		return err
	}
	return needs.Compare(ctx, w)
}

const (
	// keepEvery is how often the instance that has the lease looks, and how often the others ask for it.
	keepEvery = 10 * time.Minute
	// keepLease is how long it is that instance's: one that died is followed by another within 25 minutes.
	keepLease = 15 * time.Minute
	// startsWithin is how soon after an inbox a relay of its database has looked at the retention.
	startsWithin = 2 * time.Minute
)

// A markKeeper sees to the retention of a database.
type markKeeper struct {
	DB    store.Store
	Keep  *store.Retention // nil: it logs if nobody else does
	Owner string           // who it is, among all that have a lease
	Log   *slog.Logger     // that names the consumer
}

// Run sees to the retention until ctx is done, where no relay does: one of all instances by a lease,
// whatever consumers of this database they are of. Two that both believe to have it do no harm: each slot
// goes under its own lock.
func (k *markKeeper) Run(ctx context.Context) {
	if k.Keep == nil {
		if backoff.Sleep(ctx, startsWithin) { // a relay may start with this process
			k.missed(ctx)
		}
		return
	}
	defer k.disown(ctx)
	tick := time.NewTicker(keepEvery)
	defer tick.Stop()
	for {
		more, err := k.maintain(ctx)
		if ctx.Err() != nil {
			return
		}
		if err != nil {
			k.Log.WarnContext(ctx, "inbox: retention", "error", err)
		}
		if more {
			continue
		}
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

// missed logs if nobody sees to the retention: then marks are kept for ever.
func (k *markKeeper) missed(ctx context.Context) {
	found, err := k.DB.Examine(ctx, store.Exam{})
	if err != nil {
		return // an outage, which others log
	}
	for _, f := range found { // what is fine has no remedy
		if f.Name == "retention" && f.Remedy != "" {
			k.Log.WarnContext(ctx, "inbox: nobody deletes expired marks", "saw", f.Saw, "remedy", f.Remedy)
		}
	}
}

func (k *markKeeper) maintain(ctx context.Context) (more bool, err error) {
	did, err := k.DB.Maintain(ctx, store.Maintain{Keep: *k.Keep, Owner: k.Owner, Lease: keepLease})
	if err == nil && (did.Rows != 0 || did.Marks != 0 || did.Steps != 0 || len(did.Left) > 0) {
		k.Log.InfoContext(ctx, "inbox: retention",
			"rows", did.Rows, "marks", did.Marks, "steps", did.Steps, "left", did.Left)
	}
	return err == nil && did.More, err
}

// disown gives the lease back, so that the next instance need not wait for its end.
func (k *markKeeper) disown(ctx context.Context) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
	defer cancel()
	if _, err := k.DB.Maintain(ctx, store.Maintain{Owner: k.Owner, Leave: true}); err != nil {
		k.Log.WarnContext(ctx, "inbox: give the lease on the retention back", "error", err)
	}
}
