package rabbitbroker

import (
	"strings"

	"github.com/skald-go/skald/internal/endpoint"
)

var _ endpoint.Wire = (*Broker)(nil)

// String names the servers and the virtual host.
func (b *Broker) String() string {
	return "RabbitMQ at " + strings.Join(b.hosts, ",") + ", virtual host " + b.opts.VHost
}

// Unencrypted returns the servers with connections without TLS. The TLS of a custom dialer is not known.
func (b *Broker) Unencrypted() []string {
	if b.opts.TLS != nil || b.opts.Dial != nil {
		return nil
	}
	return endpoint.NotLoopback(b.hosts...)
}
