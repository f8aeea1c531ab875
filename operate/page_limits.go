package operate

// PageLimits limits a page of messages or sagas.
type PageLimits struct {
	Limit int // the maximum number of messages or sagas on the page
	Scan  int // the maximum number of rows that are read for the page; an index may not cover the selection
}

// pageSize is the number of messages, or of sagas with their states, in one read.
const pageSize = 100
