package engine

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/skald-go/skald"
	"github.com/skald-go/skald/internal/complete"
	"github.com/skald-go/skald/internal/saga/plan"
	"github.com/skald-go/skald/internal/uuid7"
	"github.com/skald-go/skald/store"
)

// Messages of a saga have its address as their correlation id: saga:NAME:KEY:ID. A participant that emits its
// reply in the command's transaction keeps that, as Skald does, and names the command as the reply's cause.
// The id of a command is made of its saga, step, occurrence, way and number, so a reply tells which command
// it answers.
const addressed = "saga:"

// HeaderOrigin carries, on commands, the correlation id of the message in whose handler the saga was started.
const HeaderOrigin = "saga-origin"

func (l *live[TTx]) correlation() string { return address(l.saga.Name, l.saga.Key, l.saga.ID) }

func address(name, key, id string) string {
	return addressed + escaped(name) + ":" + escaped(key) + ":" + id
}

func escaped(s string) string {
	return strings.NewReplacer("%", "%25", ":", "%3A", "\n", "%0A", "\r", "%0D").Replace(s)
}

// parse takes an address apart.
func parse(correlation string) (name, key, id string, ok bool) {
	rest, ok := strings.CutPrefix(correlation, addressed)
	parts := strings.Split(rest, ":")
	if !ok || len(parts) != 3 {
		return "", "", "", false
	}
	back := strings.NewReplacer("%25", "%", "%3A", ":", "%0A", "\n", "%0D", "\r")
	return back.Replace(parts[0]), back.Replace(parts[1]), parts[2], true
}

// message completes a command.
func (l *live[TTx]) message(ctx context.Context, a plan.Action, d skald.Draft) (m skald.Message, err error) {
	if n := len(l.correlation()); n > complete.MaxText {
		return m,
			skald.Permanent(
				fmt.Errorf("the saga's name and key are %d bytes as an address, at most %d are possible: take a shorter key", n, complete.MaxText))
	}
	if o := l.origin.Correlation; o != "" {
		d.Headers = append(d.Headers, skald.Header{Name: HeaderOrigin, Value: []byte(o)})
	}
	run, _ := l.state.Run(a.Step, a.Occurrence)
	c := complete.Completer{Now: l.e.clock.Now, NewID: func(now time.Time) string {
		return uuid7.From(now, tail(l.saga.ID, run.Born(), a.Occurrence, a.Verb == plan.UndoStep, a.Sends+1))
	}}
	ms, err := c.Messages(l.caused(ctx), []skald.Draft{d})
	if limit := (*store.LimitError)(nil); errors.As(err, &limit) {
		err = skald.Permanent(err)
	}
	if err != nil {
		return m, fmt.Errorf("the command of the step %s: %w", a.Step, err)
	}
	return ms[0], nil
}

// tail is the part of a command's id that is not its time.
func tail(id, step, occurrence string, undo bool, number int) (out [10]byte) {
	sum := sha256.Sum256(fmt.Appendf(nil, "%s\x00%s\x00%s\x00%t\x00%d", id, step, occurrence, undo, number))
	copy(out[:], sum[:])
	return out
}

// own is the part of a message's id that is not its time, where it may be the id of a command; else "".
func own(id string) string {
	const time_, whole = len("00000000-0000"), len("00000000-0000-0000-0000-000000000000")
	if len(id) != whole {
		return ""
	}
	return id[time_:]
}

// ownOf is that part of a command's id.
func ownOf(id, step, occurrence string, undo bool, number int) string {
	return own(uuid7.From(time.Time{}, tail(id, step, occurrence, undo, number)))
}
