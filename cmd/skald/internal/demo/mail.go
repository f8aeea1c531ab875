package demo

import (
	"context"
	"fmt"
	"net"

	"github.com/skald-go/skald/examples/shop/mail"
)

// openPost opens the mail server as Notification meets it, by SMTP and in these moods, until ctx is done. Its
// mailbox lies in a database of its own, as the gateway's ledger does.
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
			c.o.Logger.Error("the mail server is gone", "error", err)
		}
	}()
	c.mailer = mail.NewClient(at.Addr().String())
	return nil
}
