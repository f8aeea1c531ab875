// This file says which saga, and which of its commands, a message belongs to.
//
// Messages of a saga have its address as their correlation id: saga:NAME:KEY:ID. A participant that emits its
// reply in the command's transaction keeps that, as Skald does, and names the command as the reply's cause.
// The id of a command is made of its saga, step, occurrence, way and number, so a reply tells which command
// it answers.

package engine

import (
	"crypto/sha256"
	"fmt"
	"strings"
	"time"

	"github.com/skald-go/skald/internal/uuid7"
)

const addressed = "saga:"

// Address returns the correlation ID of the messages of a saga.
func Address(name, key, id string) string {
	return addressed + escaped(name) + ":" + escaped(key) + ":" + id
}

func escaped(s string) string {
	if !strings.ContainsAny(s, "%:\n\r") { // as nearly all: to make a Replacer costs kilobytes
		return s
	}
	return strings.NewReplacer("%", "%25", ":", "%3A", "\n", "%0A", "\r", "%0D").Replace(s)
}

// parse takes an address apart.
func parse(correlation string) (name, key, id string, ok bool) {
	rest, ok := strings.CutPrefix(correlation, addressed)
	parts := strings.Split(rest, ":")
	if !ok || len(parts) != 3 {
		return "", "", "", false
	}
	return unescaped(parts[0]), unescaped(parts[1]), parts[2], true
}

func unescaped(s string) string {
	if !strings.Contains(s, "%") {
		return s
	}
	return strings.NewReplacer("%25", "%", "%3A", ":", "%0A", "\n", "%0D", "\r").Replace(s)
}

// A command is one of a saga: of a step, forward or back, the first, second … that was sent.
type command struct {
	Saga             string // its id
	Step, Occurrence string
	Undo             bool
	Number           int
}

// ID is the id of the message that carries a command.
func (c command) ID(now time.Time) string { return uuid7.From(now, c.tail()) }

// Own is the part of that id that is not its time.
func (c command) Own() string { return own(uuid7.From(time.Time{}, c.tail())) }

func (c command) tail() (out [10]byte) {
	sum := sha256.Sum256(fmt.Appendf(nil, "%s\x00%s\x00%s\x00%t\x00%d", c.Saga, c.Step, c.Occurrence, c.Undo,
		c.Number))
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
