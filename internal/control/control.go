// Package control is how operators tell the running processes of a consumer what to do. A control is a row
// among the consumer's positions (store.Checkpoint), under a partition that no broker can have: consumers
// read those anyway, so nobody asks the database once more.
package control

import (
	"crypto/rand"
	"encoding/json"
	"strings"
	"time"

	"github.com/skald-go/skald/store"
)

// Prefix is what the partitions of controls begin with; a topic's name has no colon.
const Prefix = "skald:control:"

const (
	pause  = Prefix + "pause"
	resume = Prefix + "resume"
	skip   = Prefix + "skip:"
)

// An Order is what somebody told a consumer, and why.
type Order struct {
	Who string    `json:"who"`
	Why string    `json:"why"`
	At  time.Time `json:"at"`
}

// Orders are what holds for a consumer.
type Orders struct {
	Paused  *Order           // nil: it is not
	Resumed string           // another text with each resume
	Skipped map[string]Order // by fingerprint
}

// Pause is the checkpoint that has a consumer take nothing.
func Pause(o Order) store.Checkpoint { return inForce(pause, o) }

// Skip is the checkpoint that has what fails with this fingerprint become a dead letter at once.
func Skip(fingerprint string, o Order) store.Checkpoint { return inForce(skip+fingerprint, o) }

// Resume are the checkpoints that end a pause and close open breakers.
func Resume() []store.Checkpoint { return []store.Checkpoint{lifted(pause), lifted(resume)} }

// Unskip is the checkpoint that ends Skip.
func Unskip(fingerprint string) store.Checkpoint { return lifted(skip + fingerprint) }

// A checkpoint of another origin replaces the one that is there.
func inForce(partition string, o Order) store.Checkpoint {
	text, err := json.Marshal(o)
	if err != nil { // a year that JSON does not know
		o.At = time.Time{}
		text, _ = json.Marshal(o)
	}
	return store.Checkpoint{Partition: partition, Origin: string(text)}
}

func lifted(partition string) store.Checkpoint {
	return store.Checkpoint{Partition: partition, Origin: rand.Text()}
}

// Is tells of a checkpoint whether it is a control, and no partition of a broker.
func Is(s *store.Checkpoint) bool { return strings.HasPrefix(s.Partition, Prefix) }

// Read takes what holds out of a consumer's checkpoints.
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
