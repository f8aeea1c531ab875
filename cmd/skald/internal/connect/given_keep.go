package connect

import (
	"time"

	"github.com/spf13/pflag"

	"github.com/skald-go/skald/store"
)

// KeepFlags are how long the tables keep what is finished, each with its default.
func KeepFlags(f *pflag.FlagSet, keep *store.Retention) {
	f.DurationVar(&keep.Outbox, "keep-outbox", 7*24*time.Hour,
		"how long rows are kept once they are published")
	f.DurationVar(&keep.Marks, "keep-marks", 30*24*time.Hour,
		"how long marks are kept; at least as long as rows")
	f.DurationVar(&keep.Steps, "keep-steps", 90*24*time.Hour,
		"how long steps of sagas are kept after their saga began: no saga may take longer")
	f.DurationVar(&keep.Sagas, "keep-sagas", 30*24*time.Hour,
		"how long orchestrated sagas are kept after they ended, and their keys with them")
}
