package pgstore

import (
	"time"

	"github.com/skald-go/skald/internal/endpoint"
)

var _ endpoint.Dialer = (*core)(nil)

// longestConnect is the longest connect timeout without a warning.
const longestConnect = 30 * time.Second

// SlowConnect reports whether a connect of the pool may take more than 30 s, or has no bound. It returns
// false after the first call for a store.
func (c *core) SlowConnect() (most time.Duration, slow bool) {
	if c.dials == nil {
		return 0, false
	}
	most = c.dials.Config().ConnConfig.ConnectTimeout
	slow = most <= 0 || most > longestConnect
	return most, slow && c.warned.CompareAndSwap(false, true)
}
