package natsbroker

import "github.com/skald-go/skald/internal/endpoint"

var _ endpoint.Wire = (*Broker)(nil)

// String returns a name with the address of the connected server.
func (b *Broker) String() string {
	if at := b.nc.ConnectedAddr(); at != "" {
		return "NATS at " + at
	}
	return "NATS"
}

// Unencrypted returns the address of the connected server if the connection has no TLS. It returns nil if
// there is no connection.
func (b *Broker) Unencrypted() []string {
	if _, err := b.nc.TLSConnectionState(); err == nil || !b.nc.IsConnected() {
		return nil
	}
	return endpoint.NotLoopback(b.nc.ConnectedAddr())
}
