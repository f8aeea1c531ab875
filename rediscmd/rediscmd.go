// Package rediscmd is what Skald asks of a client of Redis or Valkey: to send commands and return their
// replies. The client that a service has already fits with 20 lines: see goredis and rueidiscmd beside it.
// Skald itself links neither.
package rediscmd

import (
	"context"
	"errors"
	"fmt"
)

// Client sends commands in one round trip, where they go to one server, and returns a reply for each, in
// their order. Each command is words: its name, then its arguments. An error means that the replies are not
// known: any of the commands may have taken effect. What the server answers to one command with an error is a
// Reply with an Err. Clients are safe for concurrent use.
type Client interface {
	Do(ctx context.Context, commands [][]string) ([]Reply, error)
}

// Reply is what the server answers to one command.
type Reply struct {
	Text string // a string, or an integer in decimal
	Nil  bool   // there is nothing: the key is not there, or a condition of the command did not hold
	Err  error  // the server refused the command
}

// ErrReplies is the error of a client that returned another number of replies than it was given commands.
var ErrReplies = errors.New("rediscmd: the client returned another number of replies than commands")

// do checks what a client answers.
func do(ctx context.Context, c Client, commands [][]string) ([]Reply, error) {
	replies, err := c.Do(ctx, commands)
	if err == nil && len(replies) != len(commands) {
		return nil, fmt.Errorf("%w: %d for %d", ErrReplies, len(replies), len(commands))
	}
	return replies, err
}
