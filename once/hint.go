package once

import "context"

// Hint reports that another process seems to have some work in progress. Package rediscache has one. It
// guards nothing: the database decides. It only avoids waiting for the other process, which would occupy a
// connection and a worker.
type Hint interface {
	// Claim records that this process has the work of key in progress. It returns false if another process
	// seems to have it. It returns true if the hint is unreachable. It returns quickly.
	Claim(ctx context.Context, key string) bool
	// Release deletes the record later, or never. It does not wait.
	Release(key string)
}
