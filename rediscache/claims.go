package rediscache

import (
	"cmp"
	"context"
	"crypto/rand"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/skald-go/skald/once"
	"github.com/skald-go/skald/rediscmd"
)

// ClaimOptions of Claims. The zero value works.
type ClaimOptions struct {
	// TTL is how long a claim stays that is not released, because its process died: for so long others wait
	// for it, but no longer than they would at the database. Default 30 s, at least 1 ms.
	TTL time.Duration
	// Prefix of the keys. Default "skald:claim:".
	Prefix string
	// Guard bounds the calls: by default 25 ms for each, and no call for 1 s after one that failed.
	Guard rediscmd.GuardOptions
}

// Claims is a once.Hint in Redis: the SET NX "processing" in front of a handler. It costs each message a
// round trip to Redis, and is worth that only where copies of a message often arrive at two processes at
// once. It is safe for concurrent use.
type Claims struct {
	redis *rediscmd.Guard
	o     ClaimOptions

	mu sync.Mutex
	// of the keys that this process has: one for each time, so that none releases a later one
	tokens map[string]string
}

var _ once.Hint = (*Claims)(nil)

// NewClaims are claims in what c talks to. An error names an option that cannot be.
func NewClaims(c rediscmd.Client, o *ClaimOptions) (*Claims, error) {
	var d ClaimOptions
	if o != nil {
		d = *o
	}
	d.TTL, d.Prefix = cmp.Or(d.TTL, 30*time.Second), cmp.Or(d.Prefix, "skald:claim:")
	if d.TTL < time.Millisecond {
		return nil,
			fmt.Errorf("rediscache.ClaimOptions.TTL is %v: Redis counts in milliseconds, give at least one",
				d.TTL)
	}
	if d.Guard.Logger == nil {
		d.Guard.Logger = slog.Default()
	}
	return &Claims{redis: rediscmd.NewGuard(c, &d.Guard), o: d, tokens: map[string]string{}}, nil
}

// Claim notes that this process is at key, unless another one is.
func (c *Claims) Claim(ctx context.Context, key string) bool {
	token := rand.Text()
	c.mu.Lock()
	_, ours := c.tokens[key]
	if !ours {
		c.tokens[key] = token
	}
	c.mu.Unlock()
	if ours { // another goroutine is at it
		return false
	}
	at := c.o.Prefix + key
	replies, err := c.redis.Take(ctx, [][]string{rediscmd.Hold(at, token, c.o.TTL)},
		[][]string{rediscmd.Drop(at, token)}, c.o.TTL)
	if err == nil && replies[0].Err == nil && replies[0].Text == "1" {
		return true
	}
	c.forget(key)
	return err != nil || replies[0].Text != "0"
}

// forget tells what token key had.
func (c *Claims) forget(key string) (token string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	token = c.tokens[key]
	delete(c.tokens, key)
	return token
}

// Release takes the note back, if it is still this process's: soon, or when Redis answers again.
func (c *Claims) Release(key string) {
	if token := c.forget(key); token != "" {
		c.redis.Undo([][]string{rediscmd.Drop(c.o.Prefix+key, token)}, c.o.TTL)
	}
}
