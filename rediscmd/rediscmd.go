// Package rediscmd defines the interface between Skald and a client of Redis or Valkey. The packages goredis
// and rueidiscmd have adapters for existing clients. An adapter for another client needs about 20 lines. The
// core of Skald imports no Redis client.
package rediscmd

import (
	"context"
	"errors"
	"fmt"
)

// Client sends commands and returns their replies, in order. A command is a list of words: its name, and then
// its arguments. The commands for one server use one round trip.
//
// If Do returns an error, the replies are unknown, and any of the commands may have taken effect. If the
// server refuses a command, the Reply of this command has an Err. Clients are safe for concurrent use.
type Client interface {
	Do(ctx context.Context, commands [][]string) ([]Reply, error)
}

// Reply is the server's reply to one command.
type Reply struct {
	Text string // a string, or an integer as decimal digits
	Nil  bool   // no value: the key does not exist, or a condition of the command was false
	Err  error  // the server refused the command
}

// ErrReplies is returned if a client returns a wrong number of replies.
var ErrReplies = errors.New("rediscmd: the client returned a wrong number of replies")

// do sends commands with c, and checks the number of replies.
func do(ctx context.Context, c Client, commands [][]string) ([]Reply, error) {
	replies, err := c.Do(ctx, commands)
	if err == nil && len(replies) != len(commands) {
		return nil, fmt.Errorf("%w: %d for %d", ErrReplies, len(replies), len(commands))
	}
	return replies, err
}
