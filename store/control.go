package store

// A Control tells the processes of a consumer something: each checkpoint lies under a partition that no
// broker can have, and replaces the one that is there. They read it with their own checkpoints.
type Control struct {
	Consumer    string
	Checkpoints []Checkpoint // Partition, Origin and Stamp
}

// A DropDeferred gives up a row of the outbox that the broker refused and that was deferred: it is never
// published, unless a relay is trying it at this moment. Rows of its key go on. Guard: there is a row of this
// id that was refused. A row that only waits behind one of its key is not dropped. It needs the rights of a
// relay.
type DropDeferred struct{ ID string }
