package demo

import (
	"context"
	"fmt"
	"net"

	"github.com/skald-go/skald/examples/shop/mail"
)

// openMail runs the mail server at an SMTP address until ctx is done, and sets c.mailer to its client. moods
// are the faults of the mail server. It has its own database, as the gateway has.
func (c *crew) openMail(ctx context.Context, moods *mail.Moods) error {
	server, err := c.site.Mail(ctx, moods)
	if err != nil {
		return err
	}
	at, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return fmt.Errorf("listen for the mail server: %w", err)
	}
	go func() {
		if err := server.Serve(ctx, at); err != nil {
			c.o.Logger.Error("the mail server failed", "error", err)
		}
	}()
	c.mailer = mail.NewClient(at.Addr().String())
	return nil
}
