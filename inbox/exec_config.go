package inbox

import (
	"github.com/skald-go/skald/failure"
	"github.com/skald-go/skald/inbox/internal/exec"
	"github.com/skald-go/skald/internal/complete"
)

// execConfig is what the attempts at messages go by.
func (in *Inbox[TTx]) execConfig() exec.Config {
	o, complete := &in.o, complete.Completer{Now: in.o.Now, NewID: in.o.NewID, Codec: in.o.Codec}
	return exec.Config{
		Group: in.group, Telemetry: in.tel, Complete: complete, Codec: o.Codec, Now: o.Now, Logger: o.Logger,
		Announce: failure.Announcer{Topic: o.Dead.Topic, Copy: o.Dead.Copy, Headers: o.Dead.Headers,
			Complete: complete.Messages, Logger: o.Logger},

		Isolation: o.Transaction.Isolation, Entities: o.Transaction.Entities,
		Settings: o.Transaction.Settings,
		Handle:   o.Timeouts.Handle, Wait: o.Timeouts.Wait,
		Retry: in.retry, Crashes: o.Retry.Crashes, Classify: o.Retry.Classify,

		Up: in.up, InPlace: func() int { return int(in.inPlace.Load()) },

		KeyRows: o.Limits.KeyRows, KeyBytes: o.Limits.KeyBytes, Room: in.room, DeadRoom: in.deadRoom,
		FreeKey: o.Dead.FreeKey, Rejections: o.Dead.Rejections, RejectionsHold: o.Dead.RejectionsHold,

		Fingerprint: o.Identity.Fingerprint, Without: o.Identity.Attempt.without,
		Earlier: o.Identity.Attempt.Count, Again: o.Identity.Again, Ahead: o.Front.Ahead,
		Host: o.Instance.Host, Version: o.Instance.Version,
	}
}
