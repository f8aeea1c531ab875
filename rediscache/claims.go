package rediscache

import (
	"cmp"
	"context"
	"crypto/rand"
	"fmt"
	"log/slog"
	"strconv"
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
	token string
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
		return nil, fmt.Errorf("rediscache.ClaimOptions.TTL is %v: Redis counts in milliseconds, give at least one", d.TTL)
	}
	if d.Guard.Logger == nil {
		d.Guard.Logger = slog.Default()
	}
	return &Claims{redis: rediscmd.NewGuard(c, &d.Guard), o: d, token: rand.Text()}, nil
}

// Claim notes that this process is at key, unless another one is.
func (c *Claims) Claim(ctx context.Context, key string) bool {
	replies, err := c.redis.Do(ctx, [][]string{{"SET", c.o.Prefix + key, c.token, "NX", "PX", strconv.FormatInt(c.o.TTL.Milliseconds(), 10)}})
	return err != nil || !replies[0].Nil
}

// Release takes the note back, if it is still this process's.
func (c *Claims) Release(key string) {
	const script = `if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) else return 0 end`
	go func() {
		// else it ends by itself
		_, _ = c.redis.Do(context.Background(), [][]string{{"EVAL", script, "1", c.o.Prefix + key, c.token}})
	}()
}
