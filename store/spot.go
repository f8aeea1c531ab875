package store

import "time"

// A Spot is where a consumer is in a lane of the broker. It is never farther than what the database holds the effects of: it is
// stored behind them. A little less far is repeated, and dropped by the marks.
type Spot struct {
	Lane   string
	Origin string // what its positions speak of; those of another one mean nothing
	// Position is the first that is not finished; -1: not known yet.
	Position int64
	// Reach is the first position of which nothing was begun yet, for certain; 0: not known.
	Reach int64
	// Suspect is behind the last that may have been in hand when a life ended that did not leave the lane in peace, when it was last
	// occupied behind such a one. A kill from outside looks the same: what was in hand twice is suspected, and nothing else.
	Suspect int64
	Life    string // of who has the lane; "": it was left in peace
	Note    string // the name of what was stored last: no two are equal

	At time.Time // when that was. Only read
}

// Spots are what is known of a consumer's lanes.
type Spots struct {
	// Server names the life of the server and the database on it. While it stays the same, what was committed stays.
	Server string
	Spots  []Spot // by Lane
}

// Rewind has a consumer read a lane again from an earlier position on.
type Rewind struct {
	Consumer, Lane, Origin string
	Position               int64
	Note                   string // as in Spot
}
