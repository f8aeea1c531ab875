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

// A config is what an Announcer tells of.
type config struct {
	Group   string
	DB      store.Store
	Bus     any             // the broker
	Topics  func() []string // consumed
	Handled func() []store.Kind
	Log     *slog.Logger // that names the consumer
}

// An announcer knows what was said once. It belongs to one goroutine.
type announcer struct {
	o                    config
	begun, ready, rivals bool
	skipped, left        map[store.Kind]bool // of types that nobody handles, and that another build does
	panics               map[string]bool     // by their fingerprints
}

// newLogonce is an Announcer that has said nothing.
func newLogonce(o config) *announcer { return &announcer{o: o} }

// Panic logs the stack of a panic, a frame on each line, once for all that fail with the same fingerprint.
func (a *announcer) Panic(ctx context.Context, id, print string, err error) {
	var p *failure.PanicError
	if print == "" || !errors.As(err, &p) || a.panics[print] || len(a.panics) >= mostNamed {
		return
	}
	if a.panics == nil {
		a.panics = map[string]bool{}
	}
	a.panics[print] = true
	for i, frame := range shortlog.Frames(p.Stack) {
		a.o.Log.ErrorContext(ctx, "inbox: stack of the panic", "id", id, "frame", i, "at", frame)
	}
}

// Begin says, once, what the consumer is and where it works.
func (a *announcer) Begin(ctx context.Context) {
	if a.begun {
		return
	}
	a.begun = true
	if len(a.o.Topics()) == 0 {
		a.o.Log.InfoContext(ctx, "inbox: it handles nothing, so it joins no group")
		return
	}
	var types []string
	for _, k := range a.o.Handled() {
		types = append(types, k.Topic+": "+k.Type)
	}
	a.o.Log.InfoContext(ctx, "inbox: consuming", "topics", a.o.Topics(), "types", types,
		"store", endpoint.DriverName(a.o.DB), "broker", endpoint.DriverName(a.o.Bus))
	endpoint.WarnUnencrypted(ctx, a.o.Log, "inbox: no TLS", a.o.DB, a.o.Bus)
}

// Ready says, once, how many partitions the consumer has: as soon as a look at the broker brings no more of
// them.
func (a *announcer) Ready(partitions int, b broker.Batch) {
	if a.ready || partitions == 0 || len(b.Gained)+len(b.Lost) > 0 {
		return
	}
	a.ready = true
	a.o.Log.Info("inbox: ready", "partitions", partitions)
}

// Skipped says once of a type that it is skipped, since nobody handles it; louder where a handled one looks
// like it.
func (a *announcer) Skipped(k store.Kind) {
	if a.skipped[k] || len(a.skipped) >= mostNamed {
		return
	}
	if a.skipped == nil {
		a.skipped = map[store.Kind]bool{}
	}
	a.skipped[k] = true
	log := a.o.Log.With("topic", k.Topic, "type", k.Type)
	if near := a.nearest(k); near != "" {
		log.Warn("inbox: nobody handles this type, its messages are skipped: is it a handled one misspelt?",
			"handled", near)
		return
	}
	log.Info("inbox: nobody handles this type, its messages are skipped")
}

// nearest is the handled type of the topic that k differs from least, by at most nearly edits; "": none is
// that near.
func (a *announcer) nearest(k store.Kind) (near string) {
	least := nearly + 1
	for _, h := range a.o.Handled() {
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

// Renamed says so where the consumer is new to a database that knows others of the same topics: one of them
// that is not heard of any more may be this one under its old name, and then what it has done is done again.
func (a *announcer) Renamed(ctx context.Context) {
	if a.rivals {
		return
	}
	a.rivals = true
	b, err := store.ReadBacklog(ctx, a.o.DB)
	if err != nil {
		a.o.Log.DebugContext(ctx, "inbox: look for other consumers of the topics", "error", err)
		return
	}
	ours := func(topic string) bool { return slices.Contains(a.o.Topics(), topic) }
	var others, gone []string
	for _, c := range b.Consumers {
		if c.Name != a.o.Group && slices.ContainsFunc(c.Topics, ours) {
			others = append(others, c.Name)
			if c.Heard > heardWithin {
				gone = append(gone, c.Name)
			}
		}
	}
	if len(others) == 0 {
		return
	}
	own, err := a.o.DB.Attend(ctx, store.Attend{Consumer: a.o.Group})
	if err != nil || len(own.Checkpoints) > 0 {
		return
	}
	if len(gone) == 0 { // they are at work under their own names
		a.o.Log.InfoContext(ctx,
			"inbox: this consumer is new to the database, and handles what it has for itself",
			"others", others, "topics", a.o.Topics())
		return
	}
	a.o.Log.WarnContext(ctx,
		"inbox: this consumer is new to the database, which knows others of the same topics: what they handled is new to it",
		"others", gone, "topics", a.o.Topics(),
		"remedy",
		"if it is one of them under a new name, stop it now and give it the old name back: what it knows is kept under that. To rename it: skald inbox rename OLD NEW --reason WHY, while no process runs")
}

// Left says once of a type that its messages are parked for another build, which handles it.
func (a *announcer) Left(k store.Kind) {
	if a.left[k] {
		return
	}
	if a.left == nil {
		a.left = map[store.Kind]bool{}
	}
	a.left[k] = true
	a.o.Log.Info("inbox: messages of a type that this build has no handler for are parked, for one that has",
		"topic", k.Topic, "type", k.Type)
}
