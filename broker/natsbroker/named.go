package natsbroker

import "github.com/skald-go/skald/internal/endpoint"

var _ endpoint.Wire = (*Broker)(nil)

// String names the server that the connection is to, or those that it is tried with.
func (b *Broker) String() string {
	if at := b.nc.ConnectedAddr(); at != "" {
		return "NATS at " + at
	}
	return "NATS"
}

// Unencrypted names the server, if the connection to it has no TLS. While there is no connection it is not
// known.
func (b *Broker) Unencrypted() []string {
	if _, err := b.nc.TLSConnectionState(); err == nil || !b.nc.IsConnected() {
		return nil
	}
	return endpoint.NotLoopback(b.nc.ConnectedAddr())
}
