// Package mail simulates a mail server: a separate program that speaks SMTP (RFC 5321), with its own
// mailbox. It can be busy, slow, or fail to answer after it has accepted a mail.
//
// SMTP has no command to ask whether a mail was accepted. The Message-ID (RFC 5322) makes a mail arrive
// once: this server remembers every accepted one, as mailboxes that suppress duplicates do.
//
// box.go is the mailbox, server.go the SMTP server (`shop mail`), mood.go misbehaves, client.go is the
// shop's side.
package mail

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// Sender delivers mails, each Message-ID once.
type Sender interface {
	// Send delivers m. A *RefusedError is a final refusal. A *BusyError means that m was not accepted.
	// After any other error m may have been accepted.
	Send(ctx context.Context, m Mail) error
}

// Mail goes to one recipient.
type Mail struct {
	ID      string `json:"id"` // its Message-ID, without the angle brackets
	To      string `json:"to"` // an address
	Subject string `json:"subject"`
}

// RefusedError is a final refusal: the mail is not delivered, and will not be.
type RefusedError struct{ Reason string }

func (e *RefusedError) Error() string { return "the mail server refuses: " + e.Reason }

// BusyError means that the server has not accepted the mail.
type BusyError struct{ After time.Duration }

func (e *BusyError) Error() string {
	return fmt.Sprintf("the mail server is busy: send again in %v", e.After)
}

// ErrOther means that the Message-ID belongs to another mail.
var ErrOther = errors.New("the Message-ID belongs to another mail")
