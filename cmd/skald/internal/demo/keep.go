package demo

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"time"

	"github.com/skald-go/skald"
	"github.com/skald-go/skald/examples/shop/service"
)

// keep runs the six services again, without faults and with all safeguards, and accepts orders over HTTP
// until ctx is done. Then it waits until the orders have ended. If the process is killed, the run counts as
// unfinished, and the next process finishes it.
func (c *crew) keep(ctx context.Context, f *finished) (err error) {
	f.Open = true
	if err := c.book.finish(ctx, *f); err != nil {
		return err
	}
	signal := ctx // ends at the signal to stop
	ctx, stop := context.WithCancel(context.WithoutCancel(ctx))
	defer stop()
	if err := c.openGateway(ctx, nil); err != nil { // the run has closed its own gateway
		return fmt.Errorf("keep: %w", err)
	}
	if err := c.openMail(ctx, nil); err != nil {
		return fmt.Errorf("keep: %w", err)
	}
	var runners []skald.Runner
	var orders http.Handler
	for _, name := range service.Names() {
		client, bad := c.bus.Connect()
		if bad != nil {
			return fmt.Errorf("keep %s: %w", name, bad)
		}
		defer func() { err = errors.Join(err, client.Close()) }()
		s, err := c.site.Service(ctx, name, client, c.options(name))
		if err != nil {
			return fmt.Errorf("keep: %w", err)
		}
		runners = append(runners, s.Runners()...)
		if s.HTTP() != nil {
			orders = s.HTTP()
		}
	}
	runners = append(runners, runner(func(ctx context.Context) error {
		defer stop()
		if err := c.counter(ctx, signal, orders); err != nil || ctx.Err() != nil {
			return err
		}
		return c.awaitEnd(ctx)
	}))
	if err := skald.Run(ctx, runners...); err != nil {
		return err
	}
	f.Open = false
	return c.book.finish(context.WithoutCancel(ctx), *f)
}

// counter serves the orders and the console at a free port, until ctx or signal is done.
func (c *crew) counter(ctx, signal context.Context, orders http.Handler) error {
	at, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return fmt.Errorf("listen: %w", err)
	}
	pages, err := c.pages(ctx, orders)
	if err != nil {
		return errors.Join(err, at.Close())
	}
	server := &http.Server{Handler: pages, ReadHeaderTimeout: 10 * time.Second, ReadTimeout: 30 * time.Second,
		WriteTimeout: time.Minute}
	over := make(chan error, 1)
	go func() { over <- server.Serve(at) }()
	url := "http://" + at.Addr().String()
	c.o.Keep(url+"/orders", url+consoleAt+"/")
	select {
	case err := <-over:
		return fmt.Errorf("serve HTTP: %w", err)
	case <-ctx.Done():
	case <-signal.Done():
	}
	last, cancel := context.WithTimeout(context.WithoutCancel(ctx), drain)
	defer cancel()
	if server.Shutdown(last) != nil {
		_ = server.Close() // cancel the requests that are still running
	}
	<-over
	return nil
}
