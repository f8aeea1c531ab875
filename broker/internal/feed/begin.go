package feed

import (
	"math"

	"github.com/skald-go/skald/broker"
)

// Origin selects the position at which a partition begins.
type Origin int

// Origins.
const (
	Start      Origin = iota // start= of the driver
	Oldest                   // the oldest message that the broker retains
	First                    // the group's first position in this topic; Oldest if the broker did not store it
	Position                 // the group's position at the broker
	Checkpoint               // the database's checkpoint
	Lower                    // the lower of Checkpoint and Position
)

// Database classifies the database's state of a group.
type Database int

// Databases.
const (
	Unasked    Database = iota // the group has no database
	NoConsumer                 // no checkpoint of the group at all
	Consumer                   // checkpoints, but none of this partition of this topic, by its id
	Has                        // a checkpoint of this partition of this topic, by its id
)

// Group classifies the broker's state of a group.
type Group int

// Groups.
const (
	NoGroup Group = iota // no position of the group at all
	Other                // positions, but none of this partition of this topic, by its id
	Foreign              // a position that another client stored
	Own                  // a position that Skald stored
)

// rule selects the beginning of a partition for one combination.
type rule struct {
	Database
	Group
	Origin
	again bool // report the number of messages that are redelivered
}

// rules lists all combinations. Skald writes the checkpoint before the broker's position. So a database
// without the checkpoint of a position that Skald stored was restored from a backup. A position that
// another client stored is where that client stopped.
func rules() []rule {
	return []rule{
		{Has, NoGroup, Checkpoint, false},
		{Has, Other, Checkpoint, false},
		{Has, Foreign, Lower, false},
		{Has, Own, Lower, false},

		{Consumer, NoGroup, Oldest, true},
		{Consumer, Other, Oldest, true},
		{Consumer, Foreign, Position, false},
		{Consumer, Own, First, true},

		{NoConsumer, NoGroup, Start, false},
		{NoConsumer, Other, Oldest, true},
		{NoConsumer, Foreign, Position, false},
		{NoConsumer, Own, First, true},

		{Unasked, NoGroup, Start, false},
		{Unasked, Other, Oldest, false},
		{Unasked, Foreign, Position, false},
		{Unasked, Own, Position, false},
	}
}

// Facts are the database's and the broker's state when a member gains a partition. None is -1.
type Facts struct {
	Asked      bool  // the group has a database
	Consumer   bool  // the database has a checkpoint of the group
	Checkpoint int64 // of this partition of this topic, or None

	Group    bool  // the broker has a position of the group
	Position int64 // of this partition of this topic, or None
	Own      bool  // Skald stored it
	First    int64 // the first position that Skald stored there, or None

	Oldest, End int64 // range that the broker retains; End is math.MaxInt64 if unknown
}

// None means no position.
const None = -1

// FactsOf returns the facts from the database's answer about a partition.
func FactsOf(asked bool, told broker.Resumed, partition string) Facts {
	f := Facts{Asked: asked, Consumer: told.Known, Checkpoint: None, Position: None, First: None}
	if at, has := told.Checkpoints[partition]; has {
		f.Checkpoint = at
	}
	return f
}

func (f *Facts) database() Database {
	switch {
	case !f.Asked:
		return Unasked
	case f.Checkpoint >= 0:
		return Has
	case f.Consumer:
		return Consumer
	}
	return NoConsumer
}

func (f *Facts) group() Group {
	switch {
	case f.Position >= 0 && f.Own:
		return Own
	case f.Position >= 0:
		return Foreign
	case f.Group:
		return Other
	}
	return NoGroup
}

// Origin returns where the partition begins. again is true if messages are redelivered for which the
// database has no checkpoint.
func (f *Facts) Origin() (o Origin, again bool) {
	for _, r := range rules() {
		if r.Database == f.database() && r.Group == f.group() {
			return r.Origin, r.again
		}
	}
	return Oldest, true // unreachable: each combination has a rule
}

// Begin returns the position at which the partition begins, or None for start=. again is the number of
// positions that are redelivered.
func (f *Facts) Begin() (at, again int64) {
	o, counts := f.Origin()
	switch o {
	case Start:
		return None, 0
	case Oldest:
		at = f.Oldest
	case First:
		if at = f.First; at < 0 {
			at = f.Oldest
		}
	case Position:
		at = f.Position
	case Checkpoint:
		at = f.Checkpoint
	case Lower:
		at = min(f.Checkpoint, f.Position)
	}
	if counts {
		to := f.Position
		if to < 0 && f.End < math.MaxInt64 {
			to = f.End
		}
		again = max(0, to-max(at, f.Oldest))
	}
	return at, again
}
