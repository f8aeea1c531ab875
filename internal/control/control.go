// Package control stores the orders of operators for the running processes of a consumer. A control is a row
// among the consumer's positions (store.Checkpoint), under a partition that no broker can have. Consumers
// read their positions anyway, so controls need no other query.
package control

import (
	"crypto/rand"
	"encoding/json"
	"strings"
	"time"

	"github.com/skald-go/skald/store"
)

// Prefix is the beginning of the partitions of controls. No topic has such a name, because it has colons.
const Prefix = "skald:control:"

const (
	pause  = Prefix + "pause"
	resume = Prefix + "resume"
	skip   = Prefix + "skip:"
)

// Order is an operator's order to a consumer, with its author, reason and time.
type Order struct {
	Who string    `json:"who"`
	Why string    `json:"why"`
	At  time.Time `json:"at"`
}

// Orders has the orders in force for a consumer.
type Orders struct {
	Paused  *Order           // nil if the consumer is not paused
	Resumed string           // differs after each resume
	Skipped map[string]Order // by fingerprint
}

// Pause returns the checkpoint that makes a consumer receive no messages.
func Pause(o Order) store.Checkpoint { return inForce(pause, o) }

// Skip returns the checkpoint that turns a message immediately into a dead letter, if it fails with an error
// of this fingerprint.
func Skip(fingerprint string, o Order) store.Checkpoint { return inForce(skip+fingerprint, o) }

// Resume returns the checkpoints that end a pause and close open breakers.
func Resume() []store.Checkpoint { return []store.Checkpoint{lifted(pause), lifted(resume)} }

// Unskip returns the checkpoint that ends the order of Skip.
func Unskip(fingerprint string) store.Checkpoint { return lifted(skip + fingerprint) }

// inForce returns the checkpoint of an order. It replaces a stored checkpoint, because its origin differs.
func inForce(partition string, o Order) store.Checkpoint {
	text, err := json.Marshal(o)
	if err != nil { // JSON cannot encode the year
		o.At = time.Time{}
		text, _ = json.Marshal(o)
	}
	return store.Checkpoint{Partition: partition, Origin: string(text)}
}

func lifted(partition string) store.Checkpoint {
	return store.Checkpoint{Partition: partition, Origin: rand.Text()}
}

// Is reports whether a checkpoint is a control, and not the position in a partition of a broker.
func Is(s *store.Checkpoint) bool { return strings.HasPrefix(s.Partition, Prefix) }

// Read returns the orders in force from a consumer's checkpoints.
func Read(checkpoints []store.Checkpoint) (out Orders) {
	for i := range checkpoints {
		s := &checkpoints[i]
		if !Is(s) {
			continue
		}
		var o Order
		holds := json.Unmarshal([]byte(s.Origin), &o) == nil
		switch fingerprint, skipped := strings.CutPrefix(s.Partition, skip); {
		case s.Partition == resume:
			out.Resumed = s.Origin
		case holds && s.Partition == pause:
			out.Paused = &o
		case holds && skipped:
			if out.Skipped == nil {
				out.Skipped = map[string]Order{}
			}
			out.Skipped[fingerprint] = o
		}
	}
	return out
}
