package rabbitbroker

import (
	"strings"

	"github.com/skald-go/skald/internal/endpoint"
)

var _ endpoint.Wire = (*Broker)(nil)

// String returns a name with the servers and the virtual host.
func (b *Broker) String() string {
	return "RabbitMQ at " + strings.Join(b.hosts, ",") + ", virtual host " + b.opts.VHost
}

// Unencrypted returns the servers if connections have no TLS. A custom dialer counts as TLS, because it
// cannot be inspected.
func (b *Broker) Unencrypted() []string {
	if b.opts.TLS != nil || b.opts.Dial != nil {
		return nil
	}
	return endpoint.NotLoopback(b.hosts...)
}
