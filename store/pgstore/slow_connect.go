package pgstore

import (
	"time"

	"github.com/skald-go/skald/internal/endpoint"
)

var _ endpoint.Dialer = (*core)(nil)

// longestConnect is the longest connect_timeout that causes no warning.
const longestConnect = 30 * time.Second

// SlowConnect returns the connect timeout of the pool, 0 if the pool has none. It also returns true if the
// timeout is above 30 s or missing. Only the first call for a store returns true, so that the warning is
// logged once.
func (c *core) SlowConnect() (most time.Duration, warn bool) {
	if c.dials == nil {
		return 0, false
	}
	most = c.dials.Config().ConnConfig.ConnectTimeout
	warn = most <= 0 || most > longestConnect
	return most, warn && c.warned.CompareAndSwap(false, true)
}
