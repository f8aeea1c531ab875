package operate

// PageLimits limits one read of kept messages or of sagas.
type PageLimits struct {
	Limit int // the maximum number that is returned
	Scan  int // the maximum number that is read: no index covers all fields of a Selection
}

// pageSize is the number of kept messages, or of sagas with their states, in one read.
const pageSize = 100
