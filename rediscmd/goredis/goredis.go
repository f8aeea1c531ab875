// Package goredis adapts a client of github.com/redis/go-redis/v9 to rediscmd.Client. It supports a single
// server, a cluster, and sentinels.
package goredis

import (
	"context"
	"errors"
	"fmt"

	"github.com/redis/go-redis/v9"

	"github.com/skald-go/skald/rediscmd"
)

type client struct{ redis.UniversalClient }

// New returns c as a rediscmd.Client.
func New(c redis.UniversalClient) rediscmd.Client { return client{c} }

// Do sends commands as one pipeline.
func (c client) Do(ctx context.Context, commands [][]string) ([]rediscmd.Reply, error) {
	pipe, replies := c.Pipeline(), make([]rediscmd.Reply, len(commands))
	for _, words := range commands {
		args := make([]any, len(words))
		for i, w := range words {
			args[i] = w
		}
		pipe.Do(ctx, args...)
	}
	sent, _ := pipe.Exec(ctx) // each command has its own error
	for i, one := range sent {
		value, err := one.(*redis.Cmd).Result()
		var refused redis.Error
		switch {
		case errors.Is(err, redis.Nil):
			replies[i].Nil = true
		case errors.As(err, &refused):
			replies[i].Err = err
		case err != nil:
			return nil, err
		default:
			replies[i].Text = fmt.Sprint(value)
		}
	}
	return replies[:len(sent)], nil
}
