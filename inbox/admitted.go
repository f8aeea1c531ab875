package inbox

import (
	"context"
	"time"
)

// admitEvery is the shortest pause between two attempts to park admitted messages.
const admitEvery = 5 * time.Second

// admitted parks messages in quarantine that somebody admitted, where there is room. A claim reports that
// there are some.
func (in *Inbox[TTx]) admitted(ctx context.Context) {
	now := in.o.Now()
	if !in.parked.Admitted() || now.Before(in.askAt) {
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

// room tells whether the consumer may park more.
func (in *Inbox[TTx]) room() bool {
	in.mu.Lock()
	defer in.mu.Unlock()
	return in.kept.Parked < in.o.Limits.ParkedRows && in.kept.Bytes < in.o.Limits.ParkedBytes
}

// deadRoom reports whether messages of full keys may become dead letters. Those count as if they were parked:
// one key with an endless stream must not fill the database.
func (in *Inbox[TTx]) deadRoom() bool {
	in.mu.Lock()
	defer in.mu.Unlock()
	return in.kept.Parked+in.kept.Dead < in.o.Limits.ParkedRows
}
