package inbox

import (
	"context"
	"strconv"
	"time"

	"github.com/skald-go/skald/internal/fingerprint"
)

const (
	admitEvery = 5 * time.Second // how often each instance asks for messages that were admitted
	rekeyEvery = time.Minute
)

// admitted parks messages in quarantine that somebody admitted, where there is room.
func (in *Inbox[TTx]) admitted(ctx context.Context) {
	now := in.o.Now()
	if now.Before(in.askAt) {
		return
	}
	in.askAt = now.Add(admitEvery)
	if !in.room() {
		return
	}
	more, err := in.parked.Admit(ctx)
	if more {
		in.askAt = now
	}
	in.did(ctx, admitting, err)
}

// owner names our tables among those of other databases and schemas: by what only they know, and without
// telling that.
func (in *Inbox[TTx]) owner() string {
	return strconv.FormatUint(uint64(in.exec.Key().Of([]byte("owner"))), 16)
}

// rekey reads the key of fingerprints, now and then again: the database may be another one. Until it can be
// had the old one serves.
func (in *Inbox[TTx]) rekey(ctx context.Context) error {
	now := in.o.Now()
	if in.exec.Key() != nil && now.Before(in.keyAt) {
		return nil
	}
	key, err := in.db.Secret(ctx)
	if err != nil {
		return err
	}
	in.exec.SetKey(fingerprint.New(key))
	in.keyAt = now.Add(rekeyEvery)
	return nil
}

// room tells whether the consumer may park more.
func (in *Inbox[TTx]) room() bool {
	in.mu.Lock()
	defer in.mu.Unlock()
	return in.kept.Parked < in.o.Limits.ParkedRows && in.kept.Bytes < in.o.Limits.ParkedBytes
}
