package kafkabroker

import (
	"net"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

// line stores the last connection error, which franz-go does not report while it retries.
type line struct{ last atomic.Pointer[error] }

var _ kgo.HookBrokerConnect = (*line)(nil)

// OnBrokerConnect is called by franz-go.
func (l *line) OnBrokerConnect(_ kgo.BrokerMetadata, _ time.Duration, _ net.Conn, err error) {
	if err == nil {
		l.last.Store(nil)
		return
	}
	l.last.Store(&err)
}

// Why returns the last connection error, or otherwise.
func (l *line) Why(otherwise error) error {
	if err := l.last.Load(); err != nil {
		return *err
	}
	return otherwise
}
