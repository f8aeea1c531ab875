package relay

import "time"

// GiveBackAfter sets how long the broker may not answer before the relay gives its shards to others.
func (o *Options) GiveBackAfter(d time.Duration) *Options {
	o.giveBack = d
	return o
}
