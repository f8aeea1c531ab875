package store

// Control sends an operator's instruction to the processes of a consumer. Each checkpoint has the name of a
// partition that no broker can have, and replaces the stored one. The processes read it with their own
// checkpoints.
type Control struct {
	Consumer    string
	Checkpoints []Checkpoint // with Partition, Origin and Stamp
}

// DropDeferred deletes a deferred row of the outbox that the broker refused. The row is not published, unless
// a relay is publishing it at this moment; later rows of its key are no longer held up. Guard: a refused row
// has this ID. A row that only waits for an earlier one of its key is not dropped. It needs the rights of a
// relay.
type DropDeferred struct{ ID string }
