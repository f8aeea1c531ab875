// Package rueidiscmd adapts a client of github.com/redis/rueidis to rediscmd.Client.
package rueidiscmd

import (
	"context"
	"fmt"

	"github.com/redis/rueidis"

	"github.com/skald-go/skald/rediscmd"
)

type client struct{ rueidis.Client }

// New returns c as a rediscmd.Client.
func New(c rueidis.Client) rediscmd.Client { return client{c} }

// Do sends commands as one pipeline.
func (c client) Do(ctx context.Context, commands [][]string) ([]rediscmd.Reply, error) {
	built, replies := make(rueidis.Commands, len(commands)), make([]rediscmd.Reply, len(commands))
	for i, words := range commands {
		built[i] = c.B().Arbitrary(words...).Build()
	}
	for i, one := range c.DoMulti(ctx, built...) {
		value, err := one.ToAny()
		if failed := one.NonRedisError(); failed != nil {
			return nil, failed
		}
		if replies[i].Nil = rueidis.IsRedisNil(err); err != nil && !replies[i].Nil {
			replies[i].Err = err
		} else if err == nil {
			replies[i].Text = fmt.Sprint(value)
		}
	}
	return replies, nil
}
