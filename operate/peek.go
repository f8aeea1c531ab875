package operate

// A Peek bounds a look at kept messages.
type Peek struct {
	Limit int // of messages that are returned
	Scan  int // of messages that are read for that: some fields of a Selection no index knows
}

// pageSize is how many kept messages, or sagas with their states, are read at once.
const pageSize = 100
