package inbox

import "github.com/skald-go/skald/inbox/internal/decide"

// An ending is what became of one attempt at a message.
type ending = decide.Ending

// The endings, by the names that they have here.
const (
	handled   = decide.Handled
	duplicate = decide.Duplicate
	rejected  = decide.Rejected
	conflict  = decide.Conflict
	tooOld    = decide.TooOld
	queued    = decide.Queued
	later     = decide.Later
	failed    = decide.Failed
	dead      = decide.Dead
	again     = decide.Again
	barred    = decide.Barred
	stale     = decide.Stale
	outage    = decide.Outage
	unkept    = decide.Unkept
	full      = decide.Full
	broken    = decide.Broken
	left      = decide.Left
	calling   = decide.Calling
)
