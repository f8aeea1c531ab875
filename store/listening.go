package store

// Listening is the state of a source that the database notifies of commits.
type Listening struct {
	// Quiet reports that the relay has read all earlier commits, and that each later commit wakes the relay.
	// So the relay need not poll while Quiet is true.
	Quiet bool
	// Elsewhere reports that another session receives the notifications, so this one is a standby.
	Elsewhere bool
	// Why is the reason why the source receives no notifications, so that the relay polls. If another program
	// publishes the rows, Why is the reason why the positions do not move. Why is empty while the source
	// receives notifications, connects or is a standby.
	Why string
}
