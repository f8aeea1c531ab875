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

// ClaimOptions configures Claims. The zero value works.
type ClaimOptions struct {
	// TTL is the time after which a claim expires if its process died. Other processes wait for a claim until
	// then, but no longer than they would wait in the database. Default 30 s, at least 1 ms.
	TTL time.Duration
	// Prefix is the beginning of all keys in Redis. Default "skald:claim:".
	Prefix string
	// Guard limits the calls to Redis. By default a call takes at most 25 ms, and Redis is bypassed for 1 s
	// after a failed call.
	Guard rediscmd.GuardOptions
}

// Claims is a once.Hint in Redis. It marks a message as being processed, so that another process does not
// start with a copy of the message. It costs a round trip to Redis for each message. This is only useful if
// copies of a message often arrive at two processes at the same time. Claims is safe for concurrent use.
type Claims struct {
	redis *rediscmd.Guard
	o     ClaimOptions

	mu sync.Mutex
	// tokens maps the keys that this process has claimed to their tokens. Each claim has its own token, so
	// that a late release of an earlier claim does not affect it
	tokens map[string]string
}

var _ once.Hint = (*Claims)(nil)

// NewClaims returns Claims that use c. It returns an error if an option is invalid.
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

// Claim claims key for this process. It returns false if another process, or another goroutine of this
// process, has claimed key. If Redis does not answer, it returns true.
func (c *Claims) Claim(ctx context.Context, key string) bool {
	token := rand.Text()
	c.mu.Lock()
	_, ours := c.tokens[key]
	if !ours {
		c.tokens[key] = token
	}
	c.mu.Unlock()
	if ours { // another goroutine has claimed the key
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

// forget removes key from tokens, and returns its token.
func (c *Claims) forget(key string) (token string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	token = c.tokens[key]
	delete(c.tokens, key)
	return token
}

// Release removes the claim of key in the background, if this process still has it. If Redis does not answer,
// Release retries until the claim has expired.
func (c *Claims) Release(key string) {
	if token := c.forget(key); token != "" {
		c.redis.Undo([][]string{rediscmd.Drop(c.o.Prefix+key, token)}, c.o.TTL)
	}
}
