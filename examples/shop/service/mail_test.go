package service_test

import (
	"context"
	"database/sql"
	"net"
	"net/textproto"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/skald-go/skald/examples/shop/mail"
	"github.com/skald-go/skald/examples/shop/notification"
	"github.com/skald-go/skald/examples/shop/service"
	"github.com/skald-go/skald/inbox"
)

// changing sends the first n mails by one server, and the others by another.
type changing struct {
	first, then mail.Sender
	n, sent     atomic.Int64 // n: the number of mails for the first server
}

func (c *changing) Send(ctx context.Context, m mail.Mail) error {
	if c.sent.Add(1) <= c.n.Load() {
		return c.first.Send(ctx, m)
	}
	return c.then.Send(ctx, m)
}

// listening starts an SMTP server in the given moods, in front of a mailbox.
func listening(t *testing.T, box *mail.Box[*sql.Tx], r mail.Rates) *mail.Client {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	over := make(chan error, 1)
	go func() { over <- mail.NewServer(box, mail.NewMoods(1, r)).Serve(ctx, l) }()
	t.Cleanup(func() {
		stop()
		if err := <-over; err != nil {
			t.Error(err)
		}
	})
	return mail.NewClient(l.Addr().String())
}

// A mail without an answer is sent again with its Message-ID, and arrives once. If the server does not
// remember Message-IDs, it is not sent again but becomes a dead letter.
func TestMailsAreDeliveredOnce(t *testing.T) {
	for name, c := range map[string]struct {
		moods     mail.Rates
		times     int64
		memory    time.Duration
		came      int64
		unknown   int64
		noted     int64
		dead      string
		recipient string
	}{
		"answered":              {came: 1, noted: 1},
		"busy twice":            {moods: mail.Rates{Busy: 1}, times: 2, came: 1, noted: 1},
		"cut after it has come": {moods: mail.Rates{Cut: 1}, times: 2, came: 3, unknown: 1, noted: 1},
		"cut, and forgetful": {moods: mail.Rates{Cut: 1}, times: 1, memory: notification.Forgetful,
			came: 1, dead: "may have forgotten the key"},
		"busy, and forgetful": {moods: mail.Rates{Busy: 1}, times: 1, memory: notification.Forgetful,
			dead: "may have forgotten the key"},
		"a strange customer": {came: 1, noted: 1, recipient: "a\r\n<b> \"ö"},
	} {
		t.Run(name, func(t *testing.T) {
			db, at := home(t, "mail")
			box, err := mail.NewBox(at)
			if err == nil {
				err = box.Prepare(t.Context())
			}
			if err != nil {
				t.Fatal(err)
			}
			sender := &changing{first: listening(t, box, c.moods), then: listening(t, box, mail.Rates{})}
			sender.n.Store(c.times)
			own, there := home(t, "notification")
			r := rigAt(t, "notification", own, there, &service.Options{Mail: sender, MailMemory: c.memory,
				Inbox: inbox.Options{Retry: inbox.Retry{InitialInterval: time.Millisecond,
					MaxInterval: 10 * time.Millisecond}}})
			customer := "ada"
			if c.recipient != "" {
				customer = c.recipient
			}
			r.publish(2, r.ev.OrderConfirmed.New("o1", about(tea("o1", customer, 1))))
			const ended = "SELECT (SELECT COUNT(*) FROM mails) + (SELECT COUNT(*) FROM skald_dead)"
			for deadline := time.Now().Add(5 * time.Minute); num(t, own,
				ended) == 0; time.Sleep(time.Millisecond) {
				if quiet(t, r.svc.Inbox); time.Now().After(deadline) {
					t.Fatal("the mail does not end")
				}
			}
			quiet(t, r.svc.Inbox)
			r.want(c.noted, "SELECT COUNT(*) FROM mails WHERE order_id = 'o1'")
			r.want(c.noted, "SELECT COUNT(*) FROM journal")
			if n := num(t, db, "SELECT COUNT(*) FROM mailbox"); n != min(c.came, 1) {
				t.Errorf("%d mails are delivered", n)
			}
			if n := num(t, db,
				"SELECT COALESCE(SUM(came), 0) FROM mailbox WHERE message_id = 'order-o1@shop.example' AND subject = 'Your order is on its way'"); n != c.came {
				t.Errorf("the mail came %d times, want %d", n, c.came)
			}
			if n := r.svc.Inbox.Health().UnknownSettled; n < c.unknown {
				t.Errorf("%d calls were unknown, and are settled, want %d", n, c.unknown)
			}
			if c.dead != "" {
				r.want(1, "SELECT COUNT(*) FROM skald_dead WHERE last_error LIKE '%"+c.dead+"%'")
			}
		})
	}
}

// A mail that cannot be delivered is a dead letter, and nothing is recorded as sent.
func TestMailsThatAreRefused(t *testing.T) {
	db, at := home(t, "mail")
	box, err := mail.NewBox(at)
	if err == nil {
		err = box.Prepare(t.Context())
	}
	if err == nil {
		err = box.Take(t.Context(), mail.Mail{ID: "order-o1@shop.example", To: "eve@customers.example",
			Subject: "Another mail"})
	}
	if err != nil {
		t.Fatal(err)
	}
	own, there := home(t, "notification")
	r := rigAt(t, "notification", own, there, &service.Options{Mail: listening(t, box, mail.Rates{})})
	r.deliver(1, r.ev.OrderConfirmed.New("o1", about(tea("o1", "ada", 1))))
	r.want(1, "SELECT COUNT(*) FROM skald_dead")
	r.want(0, "SELECT COUNT(*) FROM mails")
	if n := num(t, db, "SELECT came FROM mailbox"); n != 1 {
		t.Errorf("another mail came %d times", n)
	}
}

// Commands out of order or unknown commands are refused, and no mail results.
func TestMailServerCommands(t *testing.T) {
	db, at := home(t, "mail")
	box, err := mail.NewBox(at)
	if err == nil {
		err = box.Prepare(t.Context())
	}
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ say, answer string }{
		{"RCPT TO:<a@b>\r\n", "503"},
		{"MAIL FROM:<a@b>\r\nDATA\r\n", "503"},
		{"MAIL FROM:<a@b>\r\nRCPT TO:<a@b>\r\nRSET\r\nDATA\r\n", "503"},
		{"MAIL FROM:<a@b>\r\nRCPT TO:<a@b>\r\nDATA\r\nSubject: none\r\n\r\n.\r\n", "554"},
		{"VRFY a\r\n", "502"},
		{strings.Repeat("NOOP\r\n", 3), "250"},
	} {
		if got := replyTo(t, box, c.say); got != c.answer {
			t.Errorf("%q is answered with %s, want %s", c.say, got, c.answer)
		}
	}
	if n := num(t, db, "SELECT COUNT(*) FROM mailbox"); n != 0 {
		t.Errorf("%d mails came", n)
	}
}

// replyTo returns the code of the server's last answer to these lines.
func replyTo(t *testing.T, box *mail.Box[*sql.Tx], what string) (code string) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	over := make(chan error, 1)
	go func() { over <- mail.NewServer(box, nil).Serve(ctx, l) }()
	defer func() { stop(); <-over }()
	conn, err := textproto.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	if err := conn.PrintfLine("%sQUIT", what); err != nil {
		t.Fatal(err)
	}
	for {
		line, err := conn.ReadLine()
		if err != nil {
			t.Fatal(err)
		}
		if strings.HasPrefix(line, "221") {
			return code
		}
		code = line[:3]
	}
}
