package connect

import (
	"time"

	"github.com/spf13/pflag"

	"github.com/skald-go/skald/store"
)

// KeepFlags adds the flags for the retention of each kind of rows, with their defaults.
func KeepFlags(f *pflag.FlagSet, keep *store.Retention) {
	f.DurationVar(&keep.Outbox, "keep-outbox", 7*24*time.Hour,
		"`TIME` to retain published rows")
	f.DurationVar(&keep.Marks, "keep-marks", 30*24*time.Hour,
		"`TIME` to retain marks, at least as long as rows")
	f.DurationVar(&keep.Steps, "keep-steps", 90*24*time.Hour,
		"`TIME` to retain steps after their saga began; no saga may take longer")
	f.DurationVar(&keep.Sagas, "keep-sagas", 30*24*time.Hour,
		"`TIME` to retain orchestrated sagas after their end, with their keys")
}
