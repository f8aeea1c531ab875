package kafkabroker

import (
	"net"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

// line stores the error of the last attempt to connect. franz-go does not report this error while it retries.
type line struct{ last atomic.Pointer[error] }

var _ kgo.HookBrokerConnect = (*line)(nil)

// OnBrokerConnect stores err. franz-go calls it after each attempt to connect.
func (l *line) OnBrokerConnect(_ kgo.BrokerMetadata, _ time.Duration, _ net.Conn, err error) {
	if err == nil {
		l.last.Store(nil)
		return
	}
	l.last.Store(&err)
}

// Why returns the error of the last attempt to connect. If that attempt succeeded, Why returns fallback.
func (l *line) Why(fallback error) error {
	if err := l.last.Load(); err != nil {
		return *err
	}
	return fallback
}
