package sqlexec

import (
	"context"
	"database/sql/driver"
	"fmt"
	"sync/atomic"
	"time"
)

// connector opens connections whose transactions take turns.
type connector struct {
	driver.Connector
	turn  turnstile
	waker *waker
	place atomic.Pointer[place] // nil until it is known
}

// same returns an error if another file now has the name of the file that was opened.
func (c *connector) same() error {
	if at := c.place.Load(); at != nil {
		return at.same()
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
	out := &conn{fullConn: full, turns: c.turn, same: c.same}
	full.RegisterRollbackHook(func() { out.gone = out.inTx })
	return out, nil
}

// connect tries again while another process switches a new file to WAL. SQLite does not wait for that
// itself.
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

// Driver returns a *files. New finds the turnstile in it, so that transactions of Skald wait before they
// take a connection.
func (c *connector) Driver() driver.Driver { return &files{c.Connector.Driver(), c.turn, c.waker} }

type files struct {
	driver.Driver
	turn  turnstile
	waker *waker
}
