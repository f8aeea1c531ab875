package relay

import "time"

// GiveBackAfter sets the time after which the relay gives its shards to other relays, if the broker does not
// answer.
func (o *Options) GiveBackAfter(d time.Duration) *Options {
	o.giveBack = d
	return o
}
