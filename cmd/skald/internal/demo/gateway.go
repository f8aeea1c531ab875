package demo

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"time"

	"github.com/skald-go/skald/examples/shop/gateway"
	"github.com/skald-go/skald/examples/shop/sample"
)

// openBank opens the payment gateway as Payment meets it, over HTTP and in its moods, until ctx is done. Its ledger lies in Payment's
// database, which is there, in tables of its own: so it goes on where a run was killed.
func (c *crew) openBank(ctx context.Context) error {
	h, err := c.site.gateway(ctx, c.moods)
	if err != nil {
		return err
	}
	at, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return fmt.Errorf("listen for the gateway: %w", err)
	}
	server := &http.Server{Handler: h, ReadHeaderTimeout: 10 * time.Second}
	go func() {
		if err := server.Serve(at); !errors.Is(err, http.ErrServerClosed) {
			c.o.Logger.Error("the gateway is gone", "error", err)
		}
	}()
	context.AfterFunc(ctx, func() { _ = server.Close() }) // who asks now is left without an answer
	c.bank = gateway.NewClient("http://" + at.Addr().String())
	return nil
}

func (g *ground[TTx]) gateway(ctx context.Context, moods *gateway.Moods) (http.Handler, error) {
	home, err := g.Home(ctx, "payment")
	if err != nil {
		return nil, err
	}
	l, err := gateway.NewLedger(home, &gateway.Options{Funds: sample.Accounts()})
	if err != nil {
		return nil, err
	}
	if err := l.Prepare(ctx); err != nil {
		return nil, err
	}
	return gateway.NewServer(l, moods).Handler(), nil
}
