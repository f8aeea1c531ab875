// Package rediscmd is the interface between Skald and a client of Redis or Valkey: it sends commands and
// returns their replies. An adapter for an existing client needs some 20 lines: see goredis and rueidiscmd.
// Skald itself imports no Redis client.
package rediscmd

import (
	"context"
	"errors"
	"fmt"
)

// Client sends commands and returns a reply for each, in order. Commands for one server use one round trip.
// A command is a list of words: its name, then its arguments. An error means that the replies are unknown:
// any of the commands may have taken effect. If the server refuses one command, its Reply has an Err.
// Clients are safe for concurrent use.
type Client interface {
	Do(ctx context.Context, commands [][]string) ([]Reply, error)
}

// Reply is the server's reply to one command.
type Reply struct {
	Text string // a string, or an integer in decimal
	Nil  bool   // no value: the key does not exist, or a condition of the command is false
	Err  error  // the server refused the command
}

// ErrReplies means that a client returned a wrong number of replies.
var ErrReplies = errors.New("rediscmd: the client returned a wrong number of replies")

// do checks the number of replies.
func do(ctx context.Context, c Client, commands [][]string) ([]Reply, error) {
	replies, err := c.Do(ctx, commands)
	if err == nil && len(replies) != len(commands) {
		return nil, fmt.Errorf("%w: %d for %d", ErrReplies, len(replies), len(commands))
	}
	return replies, err
}
