// This file has the rule for the first position of a partition. docs/brokers.md shows it as a table.

package feed

import (
	"math"

	"github.com/skald-go/skald/broker"
)

// Origin is the source of the first position of a partition.
type Origin int

// The origins.
const (
	Start      Origin = iota // the option start of the driver
	Oldest                   // the oldest message that the broker retains
	First                    // the first position of the group in this topic; Oldest if unknown
	Position                 // the group's position at the broker
	Checkpoint               // the database's checkpoint
	Lower                    // the lower of Checkpoint and Position
)

// Database classifies the state of a group in its database.
type Database int

// The states of a group in its database.
const (
	Unasked    Database = iota // the group has no database
	NoConsumer                 // the group has no checkpoint
	Consumer                   // it has checkpoints, but none for this partition of the topic with this id
	Has                        // it has a checkpoint for this partition of the topic with this id
)

// Group classifies the state of a group at the broker.
type Group int

// The states of a group at the broker.
const (
	NoGroup Group = iota // the group has no position
	Other                // it has positions, but none for this partition of the topic with this id
	Foreign              // another client stored its position
	Own                  // Skald stored its position
)

// rule has the origin for one combination of states.
type rule struct {
	Database
	Group
	Origin
	again bool // count the messages that are delivered again
}

// rules returns a rule for each combination. Skald stores the checkpoint before the position at the broker.
// So if a position of Skald has no checkpoint, the database was restored from a backup, and messages must be
// delivered again. If another client stored the position, the group continues there.
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

// Facts has the state of a partition in the database and at the broker, when a member gains it.
type Facts struct {
	Asked      bool  // the group has a database
	Consumer   bool  // the database has a checkpoint of the group
	Checkpoint int64 // the checkpoint of this partition, or None

	Group    bool  // the broker has a position of the group
	Position int64 // the position of this partition, or None
	Own      bool  // Skald stored Position
	First    int64 // the first position of the group in this partition, or None

	Oldest, End int64 // the range of retained positions; End is math.MaxInt64 if unknown
}

// None is the value of an unknown position.
const None = -1

// FactsOf returns Facts with the state of a partition in the database. The group has a database if
// hasDatabase is true.
func FactsOf(hasDatabase bool, told broker.Resumed, partition string) Facts {
	f := Facts{Asked: hasDatabase, Consumer: told.Known, Checkpoint: None, Position: None, First: None}
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

// Origin returns the source of the first position. If repeats is true, the member must report messages that
// are delivered again.
func (f *Facts) Origin() (o Origin, repeats bool) {
	for _, r := range rules() {
		if r.Database == f.database() && r.Group == f.group() {
			return r.Origin, r.again
		}
	}
	return Oldest, true // unreachable: each combination has a rule
}

// Begin returns the first position, or None if the option start applies. The result repeats is the number of
// positions that are delivered again.
func (f *Facts) Begin() (at, repeats int64) {
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
		repeats = max(0, to-max(at, f.Oldest))
	}
	return at, repeats
}
