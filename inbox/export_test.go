package inbox

import "time"

// LeaveAfter sets how long the database may not answer before the consumer leaves its group.
func (o *Options) LeaveAfter(d time.Duration) *Options {
	o.leaveAfter = d
	return o
}

// Overridable lets later registrations replace the handlers that in has.
func Overridable[TTx any](in *Inbox[TTx]) { in.registered = registered{} }
