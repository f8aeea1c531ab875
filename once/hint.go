package once

import "context"

// A Hint tells that another process seems to have some work in hand: rediscache has one. It guards nothing:
// whatever it says, the database decides. It only spares the wait at the database for a rival, with a
// connection and a worker.
type Hint interface {
	// Claim notes that this process has the work of key in hand; false: another one seems to have it. Where
	// the hint is away: true. It returns soon.
	Claim(ctx context.Context, key string) bool
	// Release takes the note back, some time later or never. It does not wait.
	Release(key string)
}
