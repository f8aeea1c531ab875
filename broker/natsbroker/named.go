package natsbroker

import "github.com/skald-go/skald/internal/endpoint"

var _ endpoint.Wire = (*Broker)(nil)

// String names the connected server, or those that are tried.
func (b *Broker) String() string {
	if at := b.nc.ConnectedAddr(); at != "" {
		return "NATS at " + at
	}
	return "NATS"
}

// Unencrypted returns the server if its connection has no TLS. Without a connection that is not known.
func (b *Broker) Unencrypted() []string {
	if _, err := b.nc.TLSConnectionState(); err == nil || !b.nc.IsConnected() {
		return nil
	}
	return endpoint.NotLoopback(b.nc.ConnectedAddr())
}
