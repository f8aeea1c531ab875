// This file tells the log of an inbox what is worth a line once: where it works, what it skips, how a
// handler panics, and that its name may be a new one.

package inbox

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"time"

	"github.com/skald-go/skald/broker"
	"github.com/skald-go/skald/failure"
	"github.com/skald-go/skald/internal/endpoint"
	"github.com/skald-go/skald/internal/shortlog"
	"github.com/skald-go/skald/store"
)

const (
	mostNamed = 100 // types that nobody handles and that are named in the log: senders may make up any number
	nearly    = 2   // edits by which a type is taken for a handled one that was misspelt
)

// An announcer knows what was said once. It belongs to one goroutine.
type announcer[TTx any] struct {
	in                   *Inbox[TTx]
	log                  *slog.Logger // names the consumer
	begun, ready, rivals bool
	skipped, left        map[store.Kind]bool // of types that nobody handles, and that another build does
	panics               map[string]bool     // by their fingerprints
}

// Panic logs the stack of a panic, a frame on each line, once for all that fail with the same fingerprint.
func (a *announcer[TTx]) Panic(ctx context.Context, id, print string, err error) {
	var p *failure.PanicError
	if print == "" || !errors.As(err, &p) || a.panics[print] || len(a.panics) >= mostNamed {
		return
	}
	if a.panics == nil {
		a.panics = map[string]bool{}
	}
	a.panics[print] = true
	for i, frame := range shortlog.Frames(p.Stack) {
		a.log.ErrorContext(ctx, "inbox: stack of the panic", "id", id, "frame", i, "at", frame)
	}
}

// Begin says, once, what the consumer is and where it works.
func (a *announcer[TTx]) Begin(ctx context.Context) {
	if a.begun {
		return
	}
	a.begun = true
	if len(a.in.topics) == 0 {
		a.log.InfoContext(ctx, "inbox: it handles nothing, so it joins no group")
		return
	}
	var types []string
	for _, k := range a.in.exec.Kinds() {
		types = append(types, k.Topic+": "+k.Type)
	}
	a.log.InfoContext(ctx, "inbox: consuming", "topics", a.in.topics, "types", types,
		"store", endpoint.DriverName(a.in.db), "broker", endpoint.DriverName(a.in.bus))
	endpoint.Warn(ctx, a.log, "inbox", a.in.db, a.in.bus)
}

// Ready says, once, how many partitions the consumer has: as soon as a look at the broker brings no more of
// them.
func (a *announcer[TTx]) Ready(partitions int, b broker.Batch) {
	if a.ready || partitions == 0 || len(b.Gained)+len(b.Lost) > 0 {
		return
	}
	a.ready = true
	a.log.Info("inbox: ready", "partitions", partitions)
}

// Skipped says once of a type that it is skipped, since nobody handles it; louder where a handled one looks
// like it.
func (a *announcer[TTx]) Skipped(k store.Kind) {
	if a.skipped[k] || len(a.skipped) >= mostNamed {
		return
	}
	if a.skipped == nil {
		a.skipped = map[store.Kind]bool{}
	}
	a.skipped[k] = true
	log := a.log.With("topic", k.Topic, "type", k.Type)
	if near := a.nearest(k); near != "" {
		log.Warn("inbox: nobody handles this type, its messages are skipped: is it a handled one misspelt?",
			"handled", near)
		return
	}
	log.Info("inbox: nobody handles this type, its messages are skipped")
}

// nearest is the handled type of the topic that k differs from least, by at most nearly edits; "": none is
// that near.
func (a *announcer[TTx]) nearest(k store.Kind) (near string) {
	least := nearly + 1
	for _, h := range a.in.exec.Kinds() {
		if h.Topic != k.Topic {
			continue
		}
		if n := edits(h.Type, k.Type); n < least {
			near, least = h.Type, n
		}
	}
	return near
}

// edits is how many letters are to be inserted, dropped or replaced to make b of a; more than nearly where it
// is more for certain.
func edits(a, b string) int {
	x, y := []rune(a), []rune(b)
	if d := len(x) - len(y); d > nearly || -d > nearly {
		return nearly + 1
	}
	row := make([]int, len(y)+1)
	for j := range row {
		row[j] = j
	}
	for i := range x {
		diagonal := row[0]
		row[0] = i + 1
		for j := range y {
			replaced := diagonal
			if x[i] != y[j] {
				replaced++
			}
			diagonal = row[j+1]
			row[j+1] = min(replaced, row[j]+1, row[j+1]+1)
		}
	}
	return row[len(y)]
}

// heardWithin is how long nothing may be heard of a consumer at work: its processes note each minute which
// types they handle.
const heardWithin = 3 * time.Minute

// Renamed logs if the consumer is new to a database that has other consumers of the same topics. One that is
// no longer active may be this consumer under its old name. Then this consumer handles its messages again.
func (a *announcer[TTx]) Renamed(ctx context.Context) {
	if a.rivals {
		return
	}
	a.rivals = true
	b, err := store.ReadBacklog(ctx, a.in.db)
	if err != nil {
		a.log.DebugContext(ctx, "inbox: look for other consumers of the topics", "error", err)
		return
	}
	ours := func(topic string) bool { return slices.Contains(a.in.topics, topic) }
	var others, gone []string
	for _, c := range b.Consumers {
		if c.Name != a.in.group && slices.ContainsFunc(c.Topics, ours) {
			others = append(others, c.Name)
			if c.Heard > heardWithin {
				gone = append(gone, c.Name)
			}
		}
	}
	if len(others) == 0 {
		return
	}
	own, err := a.in.db.Attend(ctx, store.Attend{Consumer: a.in.group})
	if err != nil || len(own.Checkpoints) > 0 {
		return
	}
	if len(gone) == 0 { // they are at work under their own names
		a.log.InfoContext(ctx,
			"inbox: this consumer is new to the database, and handles what it has for itself",
			"others", others, "topics", a.in.topics)
		return
	}
	a.log.WarnContext(ctx,
		"inbox: this consumer is new to the database, which knows others of the same topics: what they handled is new to it",
		"others", gone, "topics", a.in.topics,
		"remedy",
		"if it is one of them under a new name, stop it now and give it the old name back: what it knows is kept under that. To rename it: skald consumer rename OLD NEW --reason WHY, while no process runs")
}

// Left says once of a type that its messages are parked for another build, which handles it.
func (a *announcer[TTx]) Left(k store.Kind) {
	if a.left[k] {
		return
	}
	if a.left == nil {
		a.left = map[store.Kind]bool{}
	}
	a.left[k] = true
	a.log.Info("inbox: messages of a type that this build has no handler for are parked, for one that has",
		"topic", k.Topic, "type", k.Type)
}
