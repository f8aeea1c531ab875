package mail

import (
	"context"
	"errors"
	"fmt"
	"mime"
	"net"
	"net/smtp"
	"net/textproto"
	"time"
)

// Client sends mails to a server, each on a new connection. It sends once; to retry, the caller uses the
// same Message-ID.
type Client struct{ addr string }

var _ Sender = (*Client)(nil)

// NewClient returns a client of the server at addr, HOST:PORT.
func NewClient(addr string) *Client { return &Client{addr} }

const (
	sender = "orders@shop.example"
	// later is the delay before a retry at a busy server.
	later = 200 * time.Millisecond
)

// Send delivers m.
func (c *Client) Send(ctx context.Context, m Mail) error {
	err := c.send(ctx, m)
	var no *textproto.Error
	switch {
	case err == nil:
		return nil
	case !errors.As(err, &no):
		return fmt.Errorf("send mail %s: %w", m.ID, err)
	case no.Code/100 == 4:
		return &BusyError{later}
	}
	return &RefusedError{no.Msg}
}

func (c *Client) send(ctx context.Context, m Mail) error {
	conn, err := new(net.Dialer).DialContext(ctx, "tcp", c.addr)
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close() }()
	defer context.AfterFunc(ctx, func() { _ = conn.Close() })()
	s, err := smtp.NewClient(conn, c.addr)
	if err != nil {
		return err
	}
	if err := s.Mail(sender); err != nil {
		return err
	}
	if err := s.Rcpt(m.To); err != nil {
		return err
	}
	w, err := s.Data()
	if err != nil {
		return err
	}
	const form = "From: <%s>\r\nTo: <%s>\r\nSubject: %s\r\nMessage-ID: <%s>\r\nDate: %s\r\n\r\n%s.\r\n"
	subject, date := mime.QEncoding.Encode("utf-8", m.Subject), time.Now().Format(time.RFC1123Z)
	if _, err := fmt.Fprintf(w, form, sender, m.To, subject, m.ID, date, m.Subject); err != nil {
		return err
	}
	if err := w.Close(); err != nil { // the server's answer to the whole mail
		return err
	}
	_ = s.Quit() // the mail is accepted, so an error does not matter
	return nil
}
