package kafkabroker

import (
	"crypto/tls"
	"strings"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/skald-go/skald/internal/endpoint"
)

var _ endpoint.Wire = (*Broker)(nil)

// String returns a name with the addresses of the seed brokers.
func (b *Broker) String() string { return "Kafka at " + strings.Join(b.seeds, ",") }

// Unencrypted returns the addresses of the seed brokers if connections have no TLS. It cannot inspect a
// custom dialer, so that counts as one without TLS.
func (b *Broker) Unencrypted() []string {
	if c, _ := b.cl.OptValue(kgo.DialTLSConfig).(*tls.Config); c != nil {
		return nil
	}
	return endpoint.NotLoopback(b.seeds...)
}
