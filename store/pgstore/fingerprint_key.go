package pgstore

import (
	"context"
	"encoding/hex"
	"errors"
	"time"
)

// Secret returns the key of the fingerprints of this database. A fingerprint is a keyed hash of a message.
func (c *core) Secret(ctx context.Context) ([]byte, error) {
	if c.pg.Err != nil {
		return nil, c.pg.Err
	}
	if s := c.secret.Load(); s != nil && time.Since(s.read) < secretFor {
		return s.key, nil
	}
	var text string
	if err := c.pg.Short(ctx, "read key", c.pg.Call("Secret").Into(&text)); err != nil {
		return nil, err
	}
	key, err := hex.DecodeString(text)
	if err != nil || len(key) < 16 {
		return nil,
			errors.Join(errors.New("read key: skald_setting has no 'fingerprint key': run: skald migrate"),
				err)
	}
	c.secret.Store(&secret{key, time.Now()})
	return key, nil
}

// secret is cached for secretFor, because callers read it often.
type secret struct {
	key  []byte
	read time.Time
}

const secretFor = 30 * time.Second
