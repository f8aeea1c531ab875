package store

// Control sends an instruction of an operator, such as a pause, to the processes of a consumer. The
// instruction is a checkpoint with a special Partition, which no broker can have. The processes read it
// together with their other checkpoints. Each checkpoint of a Control replaces the stored one of the same
// Partition.
type Control struct {
	Consumer    string
	Checkpoints []Checkpoint // with Partition, Origin and Stamp
}

// DropDeferred deletes a deferred row of the outbox that the broker refused. No relay publishes the row any
// more, except one that is publishing it at this moment. Later rows of its key no longer wait for it. Guard:
// a refused row has this ID. DropDeferred does not delete a row that only waits for an earlier row of its
// key. It needs the rights of a relay.
type DropDeferred struct{ ID string }
