// Package mail is a mail server as a shop meets it: a program of its own that speaks SMTP (RFC 5321), with a
// mailbox of its own, and at will busy, slow, or silent after it has taken a mail.
//
// SMTP has no question for "did you take it?". What makes a mail arrive once is its Message-ID (RFC 5322):
// this server knows again each one that it has ever taken, as mailboxes do that suppress duplicates.
//
// box.go is what it keeps, server.go how it is spoken to (`shop mail`), mood.go how it misbehaves, client.go
// the shop's side.
package mail

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// A Sender has mails delivered, each Message-ID once.
type Sender interface {
	// Send has m delivered. A *RefusedError is the server's final "no"; a *BusyError says that it has not
	// taken m. Any other error leaves open whether it has.
	Send(ctx context.Context, m Mail) error
}

// A Mail goes to one recipient.
type Mail struct {
	ID      string `json:"id"` // its Message-ID, without the angle brackets
	To      string `json:"to"` // an address
	Subject string `json:"subject"`
}

// A RefusedError is the server's "no": the mail is not delivered, and will not be.
type RefusedError struct{ Reason string }

func (e *RefusedError) Error() string { return "the mail server refuses: " + e.Reason }

// A BusyError says that the server has not taken the mail.
type BusyError struct{ After time.Duration }

func (e *BusyError) Error() string {
	return fmt.Sprintf("the mail server is busy: send again in %v", e.After)
}

// ErrOther: the Message-ID is that of another mail.
var ErrOther = errors.New("the Message-ID is that of another mail")
