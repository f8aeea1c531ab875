package decide

// An Ending is what became of one attempt at a message.
type Ending int

// Endings.
const (
	Handled   Ending = iota // its effect is committed
	Duplicate               // it was finished before; the mark says so
	Rejected                // its handler said no; the verdict is committed
	Conflict                // another payload came under its identity before; it is in quarantine
	TooOld                  // whether it was finished before is forgotten; it is in quarantine
	Queued                  // others of its key are parked; it is parked behind them
	Later                   // its handler said not yet; it is parked
	Failed                  // the message's own failure; it is parked with it
	Dead                    // the same, for the last time; it is a dead letter
	Again                   // nothing was written; it is to be taken again at once
	// the step that it takes was to be undone before it came; the verdict is committed
	Barred
	Stale  // it was claimed, and is not as it was; somebody else has it
	Outage // nobody's fault; nothing was written, or it is not known
	// it should be parked, and the store refuses for a reason that nobody knows; it stays
	Unkept
	Full    // it should be parked, and no more may be
	Broken  // waiting cannot cure it: the consumer stops
	Left    // of a batch: nothing was done about it, it stays at its place
	Calling // what is to be asked of the outside is stored with it; never settled
	Delayed // it failed by what may pass, and was charged nothing; it is parked
)

// String is the value that metrics have as their label, too.
func (e Ending) String() string {
	return [...]string{"processed", "duplicate", "rejected", "conflict", "too_old", "parked", "later",
		"failed", "dead",
		"again", "barred", "stale", "outage", "unkept", "full", "broken", "left", "calling", "delayed"}[e]
}

// Failing tells of an ending that says nothing good of a message's next attempt.
func (e Ending) Failing() bool {
	return e == Failed || e == Dead || e == Outage || e == Unkept || e == Delayed
}

// Finished tells of an ending that leaves a mark, and whose repeats are dropped.
func (e Ending) Finished() bool { return e == Handled || e == Rejected || e == Duplicate }
