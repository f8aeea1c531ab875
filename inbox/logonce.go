// This file writes the log lines that an inbox writes once: its servers, skipped types, stacks of panics, and
// a warning if the name of the consumer may have changed.

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
	mostLogged = 100 // limits the types and panics in the log: producers may send any number of types
	nearly     = 2   // the most edits between a handled type and a misspelt one
)

// announcer writes each of its log lines once. Only one goroutine uses it.
type announcer[TTx any] struct {
	in                          *Inbox[TTx]
	log                         *slog.Logger // has the name of the consumer
	begun, ready, othersChecked bool
	skipped, left               map[store.Kind]bool // types that no build handles, and types of another build
	panics                      map[string]bool     // by fingerprint
}

// Panic logs the stack of a panic, with one frame per line, once for each fingerprint.
func (a *announcer[TTx]) Panic(ctx context.Context, id, print string, err error) {
	var p *failure.PanicError
	if print == "" || !errors.As(err, &p) || a.panics[print] || len(a.panics) >= mostLogged {
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

// Begin logs topics, types, database and broker of the consumer.
func (a *announcer[TTx]) Begin(ctx context.Context) {
	if a.begun {
		return
	}
	a.begun = true
	if len(a.in.topics) == 0 {
		a.log.InfoContext(ctx, "inbox: no handler is registered, so the consumer joins no group")
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

// Ready logs how many partitions the consumer has, after the first batch that does not change their number.
func (a *announcer[TTx]) Ready(partitions int, b broker.Batch) {
	if a.ready || partitions == 0 || len(b.Gained)+len(b.Lost) > 0 {
		return
	}
	a.ready = true
	a.log.Info("inbox: ready", "partitions", partitions)
}

// Skipped logs that the inbox skips the messages of a type, because no build handles it. It logs a warning if
// the type may be a misspelt name of a handled type.
func (a *announcer[TTx]) Skipped(k store.Kind) {
	if a.skipped[k] || len(a.skipped) >= mostLogged {
		return
	}
	if a.skipped == nil {
		a.skipped = map[store.Kind]bool{}
	}
	a.skipped[k] = true
	log := a.log.With("topic", k.Topic, "type", k.Type)
	if near := a.nearest(k); near != "" {
		log.Warn("inbox: no build handles this type, its messages are skipped: is it a handled one misspelt?",
			"handled", near)
		return
	}
	log.Info("inbox: no build handles this type, its messages are skipped")
}

// nearest returns the handled type of the same topic that needs the fewest edits to become k.Type. It returns
// "" if each needs more than nearly edits.
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

// edits returns the number of inserted, deleted or replaced letters from a to b. If that number is larger
// than nearly, it may return any larger number.
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

// activeWithin is the longest time between two heartbeats of an active consumer. Its processes store each
// minute which types they handle.
const activeWithin = 3 * time.Minute

// Renamed logs if the consumer is new to a database that has other consumers of the same topics. An inactive
// one of them may be this consumer under its old name. In that case this consumer handles its old messages
// again.
func (a *announcer[TTx]) Renamed(ctx context.Context) {
	if a.othersChecked {
		return
	}
	a.othersChecked = true
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
			if c.LastHeartbeat > activeWithin {
				gone = append(gone, c.Name)
			}
		}
	}
	if len(others) == 0 {
		return
	}
	own, err := a.in.db.SyncConsumer(ctx, store.SyncRequest{Consumer: a.in.group})
	if err != nil || len(own.Checkpoints) > 0 {
		return
	}
	if len(gone) == 0 { // all other consumers are active
		a.log.InfoContext(ctx,
			"inbox: this consumer is new to the database, and handles all messages of its topics",
			"others", firstNames(others), "count", len(others), "topics", a.in.topics)
		return
	}
	a.log.WarnContext(ctx,
		"inbox: this consumer is new to the database, which has inactive consumers of the same topics: it will handle their messages again",
		"others", firstNames(gone), "count", len(gone), "topics", a.in.topics,
		"remedy",
		"if it is one of them under a new name, stop it now and use the old name again: its marks have that name. To rename it: skald consumer rename OLD NEW --reason WHY, while no process runs")
}

// firstNames returns at most five names, for a log line.
func firstNames(names []string) []string { return names[:min(len(names), 5)] }

// ForOtherBuild logs that the inbox parks the messages of a type for another build, which handles the type.
func (a *announcer[TTx]) ForOtherBuild(k store.Kind) {
	if a.left[k] {
		return
	}
	if a.left == nil {
		a.left = map[store.Kind]bool{}
	}
	a.left[k] = true
	a.log.Info("inbox: messages of a type without a handler in this build are parked for another build",
		"topic", k.Topic, "type", k.Type)
}
