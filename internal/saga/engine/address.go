// This file maps a message to its saga and its command.
//
// All messages of a saga have one correlation id, the address of the saga: saga:NAME:KEY:ID. A participant
// that emits its reply in the command's transaction copies this correlation id, as Skald does. The causation
// id of the reply is the id of the command. Skald derives the id of a command from saga, step, occurrence,
// direction and number, so a reply identifies its command.

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
	if !strings.ContainsAny(s, "%:\n\r") { // the usual case: a Replacer allocates kilobytes
		return s
	}
	return strings.NewReplacer("%", "%25", ":", "%3A", "\n", "%0A", "\r", "%0D").Replace(s)
}

// parse splits an address into name, key and id. It returns ok=false if correlation is not an address.
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

// command identifies a command of a saga: the step, the direction, and the number of the attempt.
type command struct {
	Saga             string // its id
	Step, Occurrence string
	Undo             bool
	Number           int
}

// ID returns the id of the message that carries a command. The id begins with the time of the parameter
// now.
func (c command) ID(now time.Time) string { return uuid7.From(now, c.tail()) }

// Own returns the part of the command's id that does not depend on the time.
func (c command) Own() string { return timelessID(uuid7.From(time.Time{}, c.tail())) }

func (c command) tail() (out [10]byte) {
	sum := sha256.Sum256(fmt.Appendf(nil, "%s\x00%s\x00%s\x00%t\x00%d", c.Saga, c.Step, c.Occurrence, c.Undo,
		c.Number))
	copy(out[:], sum[:])
	return out
}

// timelessID returns the part of a message's id that does not depend on the time, or "" if the id has
// another form.
func timelessID(id string) string {
	const time_, whole = len("00000000-0000"), len("00000000-0000-0000-0000-000000000000")
	if len(id) != whole {
		return ""
	}
	return id[time_:]
}
