package exec

import (
	"context"
	"strconv"
	"time"

	"github.com/skald-go/skald/internal/fingerprint"
)

const rekeyEvery = time.Minute

// Rekey reads the key of fingerprints, now and then again: the database may be another one. Until it can be
// had the old one serves. It is for one goroutine, beside all others.
func (x *Executor[TTx]) Rekey(ctx context.Context) error {
	now := x.o.Now()
	if x.HasKey() && now.Before(x.keyAt) {
		return nil
	}
	key, err := x.db.Secret(ctx)
	if err != nil {
		return err
	}
	x.key.Store(fingerprint.New(key))
	x.keyAt = now.Add(rekeyEvery)
	return nil
}

// HasKey tells whether the key was read.
func (x *Executor[TTx]) HasKey() bool { return x.key.Load() != nil }

// Owner names our tables among those of other databases and schemas: by what only they know, and without
// telling that.
func (x *Executor[TTx]) Owner() string {
	return strconv.FormatUint(uint64(x.key.Load().Of([]byte("owner"))), 16)
}
