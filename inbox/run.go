// This file runs an inbox: Run until its context ends, or Step for one turn.

package inbox

import (
	"cmp"
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/skald-go/skald/broker"
	"github.com/skald-go/skald/inbox/internal/checkpoint"
	"github.com/skald-go/skald/inbox/internal/exec"
	"github.com/skald-go/skald/inbox/internal/partition"
	"github.com/skald-go/skald/internal/shortlog"
	"github.com/skald-go/skald/internal/telemetry"
	"github.com/skald-go/skald/store"
)

// fault returns an error if the options or the handlers are invalid.
func (in *Inbox[TTx]) fault() error {
	if err := in.o.fault(); err != nil {
		return err
	}
	if err := cmp.Or(shortlog.CheckName("the name", in.group), in.registered.fault()); err != nil {
		return fmt.Errorf("consumer %s: %w", in.group, err)
	}
	return nil
}

// Step does one turn. It receives messages that have arrived, handles one message or one batch, and
// acknowledges. It never waits for more messages.
func (in *Inbox[TTx]) Step(ctx context.Context) (busy bool, err error) {
	if err := in.fault(); err != nil {
		return false, err
	}
	if err := in.open(ctx); err != nil {
		return false, err
	}
	in.joinWithFound(ctx)
	busy, err = in.receive(ctx)
	in.tel.Counted()
	if err != nil {
		return busy, err
	}
	in.schedule.Wake(in.o.Now())
	found, err := in.lookNow(ctx)
	if err != nil {
		in.report(nil)
		return busy, err
	}
	busy = busy || found
	job := in.pick.Next(0)
	if job == nil && in.checkpoints.Urgent() {
		if err := in.storeCalls(ctx); err != nil {
			return busy, err
		}
		job = in.pick.Next(0)
	}
	if job != nil {
		busy = true
		if err := in.settle(ctx, in.exec.Work(ctx, job)); err != nil {
			return busy, err
		}
	}
	acked, err := in.ack(ctx)
	in.regulate()
	in.report(nil)
	return busy || acked, err
}

// Close leaves the group. Call it after the last Step; Run leaves the group itself.
func (in *Inbox[TTx]) Close(ctx context.Context) error {
	in.handBack(ctx) // even if the consumer is outside its group
	in.releasePartitions(ctx)
	var err error
	if in.sub != nil {
		err = in.sub.Close(ctx)
	}
	in.checkpoints.Close()
	in.schedule.Clear()
	in.parked.Clear()
	in.sub = nil
	in.askAt = time.Time{}
	return err
}

// open joins the group, unless the consumer is a member already. The first call also checks the tables and
// the retention of marks.
func (in *Inbox[TTx]) open(ctx context.Context) error {
	in.announce.Begin(ctx)
	if !in.checked {
		if err := in.db.Check(ctx, store.App); err != nil {
			return fmt.Errorf("consumer %s: %w", in.group, err)
		}
		if err := in.exec.Rekey(ctx); err != nil {
			return fmt.Errorf("consumer %s: %w", in.group, err)
		}
		if err := in.checkWindow(ctx); err != nil {
			return fmt.Errorf("consumer %s: %w", in.group, err)
		}
		in.checked = true
	}
	if in.sub != nil {
		return nil
	}
	if err := in.enroll(ctx); err != nil {
		return fmt.Errorf("consumer %s: %w", in.group, err)
	}
	is, err := in.db.Database(ctx)
	if err != nil {
		return fmt.Errorf("consumer %s: %w", in.group, err)
	}
	sub, err := in.joinGroup(ctx, broker.Group{Name: in.group, Topics: in.topics,
		Member: in.o.Instance.Member, Owner: is.ID, OwnerName: is.Name, Resume: in.checkpoints.Resume})
	if err != nil {
		return &subscribeError{in.group, in.withRemedy(err)}
	}
	in.sub = sub
	return nil
}

// Run consumes until ctx is done. Then it waits for running handlers, for at most Options.Timeouts.Drain, and
// leaves the group. It continues after outages of the database and the broker. While a topic does not exist,
// it reads the other topics. It returns an error only if a retry cannot help.
//
// Run waits one second longer for a handler that ignores the end of its context. Then it logs the handler,
// and does not acknowledge its message.
func (in *Inbox[TTx]) Run(ctx context.Context) error {
	if err := in.fault(); err != nil {
		return err
	}
	in.checkpoints.SetPatient(true)
	defer in.checkpoints.SetPatient(false)
	defer in.tel.Watch(in.inboxState)()
	in.tel.Begin(in.topics)
	defer in.facts.watch(context.WithoutCancel(ctx))()
	defer telemetry.WatchBacklog(telemetry.Providers{Meter: in.o.MeterProvider}, in.o.Now, in.backlog,
		telemetry.Always, in.lag, in.group)()
	if err := in.openPatiently(ctx); err != nil || ctx.Err() != nil {
		in.leave() // the consumer may have joined just before ctx ended
		return err
	}
	// Handlers continue when ctx ends. The context hard ends them when the drain is over.
	hard, kill := context.WithCancel(context.WithoutCancel(ctx))
	defer kill()
	l := &loop[TTx]{
		in:         in,
		jobs:       make(chan []*partition.Entry, 3*in.o.Workers),
		results:    make(chan []exec.Result, 4*in.o.Workers),
		looks:      make(chan looked, 2),
		storeCalls: make(chan checkpoint.Call, 1),
		assigned:   map[*partition.Entry]assignment{},
		hard:       hard,
		timer:      time.NewTimer(time.Hour),
	}
	defer close(l.jobs)
	var keeper sync.WaitGroup
	defer func() {
		kill() // a panic gets here too: without kill, keeper.Wait would wait forever
		keeper.Wait()
	}()
	keeper.Go(func() {
		k := markKeeper{DB: in.db, Keep: in.o.Retention.Keep, Owner: in.session,
			Log: in.o.Logger.With("consumer", in.group)}
		k.Run(hard)
	})
	defer shortlog.LogPanic(hard, in.o.Logger, "consumer "+in.group)
	err := l.run(ctx)
	stopping := time.Now()
	l.takeBackJobs()
	if err == nil {
		l.logWaits("inbox: stopping")
		stop := time.AfterFunc(in.o.Timeouts.Drain, kill)
		err = l.drain(hard)
		stop.Stop()
	}
	kill()
	l.abandon()
	in.leave()
	in.o.Logger.InfoContext(ctx, "inbox: stopped", "consumer", in.group, "took",
		time.Since(stopping).Round(time.Millisecond), "unfinished", l.running)
	return err
}
