package store

// Listening is the state of a source that is notified of commits.
type Listening struct {
	// Quiet reports that all earlier commits were read, and that each later commit wakes the relay. So the
	// relay need not poll while Quiet is true.
	Quiet bool
	// Elsewhere reports that another session receives the notifications, so this one is a standby.
	Elsewhere bool
	// Why is the reason why the source receives no notifications, so that the relay polls. If another program
	// publishes the rows, Why is the reason why positions do not move. It is empty while the source receives
	// notifications, connects or is a standby.
	Why string
}
