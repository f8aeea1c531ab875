package audit

import (
	"fmt"
	"strings"

	"github.com/skald-go/skald/examples/shop/table"
)

// letter is a mail that the mail server delivered.
type letter struct{ recipient, subject string }

func (r *reader) mailbox() map[string]letter {
	if r.dbs["mail"] == nil {
		return nil
	}
	out := map[string]letter{}
	r.each("mail", "Mailbox", func(row table.Row) error {
		var id string
		var l letter
		err := row.Scan(&id, &l.recipient, &l.subject)
		out[id] = l
		return err
	})
	return out
}

// mailedOnce checks that Notification recorded one mail for each order that has ended, and none for others.
// The mail server, which is called outside of any transaction, must have delivered exactly these mails.
func (b *books) mailedOnce() Invariant {
	var f findings
	explained := 0
	for _, o := range b.orders {
		want := 0
		if o.ended() {
			want = 1
		}
		recorded := b.mails[o.id]
		f.hold(recorded == want, "order %s is %s: %d mails instead of %d", o.id, o.state, recorded, want)
		if b.mailbox == nil {
			continue
		}
		l, there := b.mailbox["order-"+o.id+"@shop.example"]
		if there {
			explained++
		}
		f.hold(there == o.ended(), "order %s is %s, and whether the mail server has delivered its mail: %t",
			o.id, o.state, there)
		cancelled := strings.HasPrefix(l.subject, "Your order was cancelled: ")
		f.hold(!there || cancelled == (o.state == "cancelled"), "order %s is %s, and its mail to %s says %q",
			o.id, o.state, l.recipient, l.subject)
	}
	for id, n := range b.mails {
		if b.byID[id] == nil {
			f.hold(false, "order %s: %d mails without an order", id, n)
		}
	}
	if others := len(b.mailbox) - explained; others > 0 {
		f.hold(false, "the mail server has delivered %d mails that belong to no order", others)
	}
	seen := fmt.Sprintf("%d mails recorded, %d delivered", len(b.mails), len(b.mailbox))
	return f.verdict("mailed_once", seen)
}
