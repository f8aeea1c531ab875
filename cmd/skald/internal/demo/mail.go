package demo

import (
	"context"
	"fmt"
	"net"

	"github.com/skald-go/skald/examples/shop/mail"
)

// openPost starts the mail server for Notification over SMTP, with these moods, until ctx is done. The
// mailbox has a separate database, as the gateway's ledger has.
func (c *crew) openPost(ctx context.Context, moods *mail.Moods) error {
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
