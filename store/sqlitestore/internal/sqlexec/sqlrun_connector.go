package sqlexec

import (
	"context"
	"database/sql/driver"
	"fmt"
	"sync/atomic"
	"time"
)

// connector opens connections. Their transactions run one at a time.
type connector struct {
	driver.Connector
	turn  turnstile
	waker *waker
	place atomic.Pointer[place] // nil until the first connection
}

// checkPath returns an error if the path of the opened file now leads to another file.
func (c *connector) checkPath() error {
	if at := c.place.Load(); at != nil {
		return at.checkPath()
	}
	return nil
}

func (c *connector) Connect(ctx context.Context) (driver.Conn, error) {
	base, err := c.connect(ctx)
	if err != nil {
		return nil, err
	}
	full, ok := base.(fullConn)
	if !ok {
		return nil, fmt.Errorf("connect: %T is not a connection of the supported SQLite driver", base)
	}
	out := &conn{fullConn: full, turns: c.turn, same: c.checkPath}
	full.RegisterRollbackHook(func() { out.gone = out.inTx })
	return out, nil
}

// connect opens a connection. It retries while another process switches a new file to WAL, because SQLite
// itself does not wait for that.
func (c *connector) connect(ctx context.Context) (driver.Conn, error) {
	until := time.Now().Add(BusyTimeout)
	for {
		base, err := c.Connector.Connect(ctx)
		if err == nil || !Busy(err) || time.Now().After(until) {
			return base, err
		}
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-time.After(time.Millisecond):
		}
	}
}

// Driver returns a *files. New reads the turnstile from it, so that transactions of Skald wait for their turn
// before they take a connection.
func (c *connector) Driver() driver.Driver { return &files{c.Connector.Driver(), c.turn, c.waker} }

type files struct {
	driver.Driver
	turn  turnstile
	waker *waker
}
