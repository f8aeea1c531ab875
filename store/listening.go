package store

// Listening is the state of a source that is notified of commits.
type Listening struct {
	// Quiet reports that all earlier commits were read, and that each later commit wakes the relay.
	// The relay need not poll before that.
	Quiet bool
	// Elsewhere reports that another session receives the notifications, so this one is a standby.
	Elsewhere bool
	// Why is the reason that there are no notifications; the relay polls. If another program publishes the
	// rows, it is the reason that positions stay. Empty while the source receives, connects or is a standby.
	Why string
}
