package kafkabroker

import "context"

// within sends a request and returns its result, or the error of ctx when ctx ends. franz-go does not end a
// request that waits for a connection: it waits until the connection fails. The request then goes on, and its
// result is lost.
func within[T any](ctx context.Context, send func() (T, error)) (T, error) {
	type result struct {
		value T
		err   error
	}
	done := make(chan result, 1)
	go func() {
		value, err := send()
		done <- result{value, err}
	}()
	select {
	case r := <-done:
		return r.value, r.err
	case <-ctx.Done():
		var none T
		return none, ctx.Err()
	}
}
