package store

// Control sends an operator's instruction to the processes of a consumer. Each of its checkpoints replaces
// the stored checkpoint of the same name, which is not a valid name of a broker's partition. The processes
// read these checkpoints together with their own.
type Control struct {
	Consumer    string
	Checkpoints []Checkpoint // with Partition, Origin and Stamp
}

// DropDeferred deletes a deferred row of the outbox that the broker refused. The row is not published, unless
// a relay is publishing it at this moment, and later rows of its key no longer wait for it. Guard: a refused
// row has this ID. DropDeferred does not drop a row that only waits for an earlier row of its key. It needs
// the rights of a relay.
type DropDeferred struct{ ID string }
