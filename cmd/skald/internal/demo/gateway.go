package demo

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"slices"
	"time"

	"github.com/skald-go/skald/examples/shop/gateway"
	"github.com/skald-go/skald/examples/shop/place"
	"github.com/skald-go/skald/examples/shop/sample"
)

// openGateway runs the payment gateway at an HTTP address until ctx is done, and sets c.bank to its client.
// moods are the faults of the gateway. The gateway has its own database, as another company would.
func (c *crew) openGateway(ctx context.Context, moods *gateway.Moods) error {
	h, err := c.site.Gateway(ctx, &gateway.Options{Funds: sample.Accounts()}, moods)
	if err != nil {
		return err
	}
	at, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return fmt.Errorf("listen for the gateway: %w", err)
	}
	server := &http.Server{Handler: h, ReadHeaderTimeout: 10 * time.Second, WriteTimeout: time.Minute}
	go func() {
		if err := server.Serve(at); !errors.Is(err, http.ErrServerClosed) {
			c.o.Logger.Error("the gateway failed", "error", err)
		}
	}()
	context.AfterFunc(ctx, func() { _ = server.Close() })
	c.bank = gateway.NewClient("http://" + at.Addr().String())
	return nil
}

// transfers returns the gateway's transfers for an order, or nil if the gateway's ledger does not exist
// yet.
func (s *shop[TTx]) transfers(ctx context.Context, order string) ([]gateway.Moved, error) {
	names, err := s.Present(ctx, place.Bank)
	if err != nil || !slices.Contains(names, "gateway_moves") {
		return nil, err
	}
	home, err := s.Home(ctx, place.Bank)
	if err != nil {
		return nil, err
	}
	l, err := gateway.NewLedger(home, nil)
	if err != nil {
		return nil, err
	}
	return l.Moves(ctx, order)
}
