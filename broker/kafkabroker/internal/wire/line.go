package wire

import (
	"net"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

// A Line knows why Kafka cannot be reached, which franz-go keeps to itself while it tries again.
type Line struct{ last atomic.Pointer[error] }

var _ kgo.HookBrokerConnect = (*Line)(nil)

// OnBrokerConnect is called by franz-go.
func (l *Line) OnBrokerConnect(_ kgo.BrokerMetadata, _ time.Duration, _ net.Conn, err error) {
	if err == nil {
		l.last.Store(nil)
		return
	}
	l.last.Store(&err)
}

// Why is the last error of a connection, or otherwise.
func (l *Line) Why(otherwise error) error {
	if err := l.last.Load(); err != nil {
		return *err
	}
	return otherwise
}
