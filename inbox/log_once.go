package inbox

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/skald-go/skald/broker"
	"github.com/skald-go/skald/failure"
	"github.com/skald-go/skald/inbox/internal/exec"
	"github.com/skald-go/skald/internal/startup"
	"github.com/skald-go/skald/store"
)

const (
	mostNamed = 100 // types that nobody handles and that are named in the log: senders may make up any number
	nearly    = 2   // edits by which a type is taken for a handled one that was misspelt
)

// An announcer is what was said in the log once. It belongs to the goroutine of Run or Step.
type announcer struct {
	begun, ready, rivals bool
	skipped, left        map[store.Kind]bool // of types that nobody handles, and that another build does
	panics               map[string]bool     // by their fingerprints
}

const mostFrames = 16 // of a stack in the log; a dead letter keeps all of it

// trace logs the stack of a panic, a frame on each line, once for all that fail in the same way.
func (in *Inbox[TTx]) trace(ctx context.Context, r exec.Result) {
	var p *failure.PanicError
	if r.Print == "" || !errors.As(r.Err, &p) || in.said.panics[r.Print] || len(in.said.panics) >= mostNamed {
		return
	}
	if in.said.panics == nil {
		in.said.panics = map[string]bool{}
	}
	in.said.panics[r.Print] = true
	for i, frame := range framesOf(p.Stack) {
		in.o.Logger.ErrorContext(ctx, "inbox: stack of the panic", "consumer", in.group, "id", r.Entry.Identity().ID, "frame", i, "at", frame)
	}
}

// framesOf are the places of a stack, "function file:line", from where it panicked on.
func framesOf(stack []byte) (out []string) {
	lines := strings.Split(strings.TrimSpace(string(stack)), "\n")
	for i := 1; i+1 < len(lines) && len(out) < mostFrames; i += 2 {
		// behind "goroutine 7 [running]:", each frame has two
		function, at := lines[i], strings.TrimSpace(lines[i+1])
		if strings.HasPrefix(function, "panic(") {
			out = nil // what is above it only caught it
			continue
		}
		at, _, _ = strings.Cut(at, " +0x")
		out = append(out, function+" "+at)
	}
	return out
}

// begin says, once, what the consumer is and where it works.
func (in *Inbox[TTx]) begin(ctx context.Context) {
	if in.said.begun {
		return
	}
	in.said.begun = true
	var types []string
	for _, k := range in.handled() {
		types = append(types, k.Topic+": "+k.Type)
	}
	in.o.Logger.InfoContext(ctx, "inbox: consuming", "consumer", in.group, "topics", in.topics, "types", types,
		"store", startup.Name(in.db), "broker", startup.Name(in.bus))
	startup.WarnUnencrypted(ctx, in.o.Logger.With("consumer", in.group), "inbox: no TLS", in.db, in.bus)
}

// settled says, once, how many partitions the consumer has: as soon as a look at the broker brings no more of
// them.
func (in *Inbox[TTx]) settled(b broker.Batch) {
	if in.said.ready || len(in.checkpoints.Partitions) == 0 || len(b.Gained)+len(b.Lost) > 0 {
		return
	}
	in.said.ready = true
	in.o.Logger.Info("inbox: ready", "consumer", in.group, "partitions", len(in.checkpoints.Partitions))
}

// withRemedy says how a topic is made that is not there.
func (in *Inbox[TTx]) withRemedy(err error) error {
	if !errors.Is(err, broker.ErrNoTopic) {
		return err
	}
	return fmt.Errorf("%w; to make what is missing: skald migrate --broker URL --group %s --topic %s", err, in.group, strings.Join(in.topics, " --topic "))
}

// nobodys says once of a type that it is skipped, since nobody handles it; louder where a handled one looks
// like it.
func (in *Inbox[TTx]) nobodys(k store.Kind) {
	if in.said.skipped[k] || len(in.said.skipped) >= mostNamed {
		return
	}
	if in.said.skipped == nil {
		in.said.skipped = map[store.Kind]bool{}
	}
	in.said.skipped[k] = true
	log := in.o.Logger.With("consumer", in.group, "topic", k.Topic, "type", k.Type)
	if near := in.nearest(k); near != "" {
		log.Warn("inbox: nobody handles this type, its messages are skipped: is it a handled one misspelt?", "handled", near)
		return
	}
	log.Info("inbox: nobody handles this type, its messages are skipped")
}

// nearest is the handled type of the topic that k differs from least, by at most nearly edits; "": none is
// that near.
func (in *Inbox[TTx]) nearest(k store.Kind) (near string) {
	least := nearly + 1
	for _, h := range in.handled() {
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

// heardWithin is how long a process that lives may be silent: it gives a sign of session each minute.
const heardWithin = 3 * time.Minute

// renamed says so where the consumer is new to a database that knows others of the same topics: one of them
// that is not heard of any more may be this one under its old name, and then what it has done is done again.
func (in *Inbox[TTx]) renamed(ctx context.Context) {
	if in.said.rivals {
		return
	}
	in.said.rivals = true
	b, err := store.ReadBacklog(ctx, in.db)
	if err != nil {
		in.o.Logger.DebugContext(ctx, "inbox: look for other consumers of the topics", "consumer", in.group, "error", err)
		return
	}
	var others, gone []string
	for _, c := range b.Consumers {
		if c.Name != in.group && slices.ContainsFunc(c.Topics, func(t string) bool { return slices.Contains(in.topics, t) }) {
			others = append(others, c.Name)
			if c.Heard > heardWithin {
				gone = append(gone, c.Name)
			}
		}
	}
	if len(others) == 0 {
		return
	}
	if checkpoints, err := in.db.Attend(ctx, store.Attend{Consumer: in.group}); err != nil || len(checkpoints.Checkpoints) > 0 {
		return
	}
	if len(gone) == 0 { // they are at work under their own names
		in.o.Logger.InfoContext(ctx, "inbox: this consumer is new to the database, and handles what it has for itself", "consumer", in.group, "others", others, "topics", in.topics)
		return
	}
	in.o.Logger.WarnContext(ctx, "inbox: this consumer is new to the database, which knows others of the same topics: what they handled is new to it",
		"consumer", in.group, "others", gone, "topics", in.topics,
		"remedy", "if it is one of them under a new name, stop it now and give it the old name back: what it knows is kept under that. To rename it: skald inbox rename OLD NEW, while no process runs")
}
