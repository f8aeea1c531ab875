package mail

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"mime"
	"net"
	"net/textproto"
	"strings"
	"sync"
	"time"
)

const (
	// maxTalk limits the bytes of a client on one connection.
	maxTalk = 256 << 10
	// patience limits the wait for a command, and for the mailbox.
	patience = 10 * time.Second
)

// Server serves a Box by SMTP and misbehaves at random.
type Server struct {
	box   taker
	moods *Moods
}

// taker is a Box on any kind of database.
type taker interface {
	Take(ctx context.Context, m Mail) error
}

// NewServer returns a server of b. If moods is nil it does not misbehave.
func NewServer[TTx any](b *Box[TTx], moods *Moods) *Server {
	if moods == nil {
		moods = NewMoods(0, Rates{})
	}
	return &Server{b, moods}
}

// Serve accepts mails until ctx ends. A client that is sending then gets no answer.
func (s *Server) Serve(ctx context.Context, l net.Listener) error {
	defer context.AfterFunc(ctx, func() { _ = l.Close() })()
	var talks sync.WaitGroup
	defer talks.Wait()
	for {
		conn, err := l.Accept()
		if ctx.Err() != nil {
			return nil
		}
		if err != nil {
			return fmt.Errorf("accept: %w", err)
		}
		talks.Go(func() {
			defer func() { _ = conn.Close() }()
			defer context.AfterFunc(ctx, func() { _ = conn.Close() })()
			s.talk(conn)
		})
	}
}

// talk serves one client until one side disconnects.
func (s *Server) talk(conn net.Conn) {
	in := textproto.NewReader(bufio.NewReader(io.LimitReader(conn, maxTalk)))
	out := textproto.NewWriter(bufio.NewWriter(conn))
	from, to := false, ""
	for answer := "220 the shop's mail server"; answer != ""; {
		_ = conn.SetDeadline(time.Now().Add(patience))
		if out.PrintfLine("%s", answer) != nil {
			return
		}
		line, err := in.ReadLine()
		if err != nil {
			return
		}
		verb, rest, _ := strings.Cut(line, " ")
		switch strings.ToUpper(verb) {
		case "EHLO", "HELO", "NOOP":
			answer = "250 yes"
		case "RSET":
			from, to, answer = false, "", "250 yes"
		case "MAIL":
			from, to, answer = true, "", "250 yes"
			time.Sleep(s.moods.slowness())
			if s.moods.Is(Busy, s.moods.rates.Busy) {
				from, answer = false, "451 busy; send it again"
			}
		case "RCPT":
			if to, answer = address(rest), "250 yes"; !from || to == "" {
				to, answer = "", "503 from whom, and to whom?"
			}
		case "DATA":
			if answer = "503 to whom?"; to != "" {
				answer = s.data(in, out, to)
			}
			from, to = false, ""
		case "QUIT":
			_ = out.PrintfLine("221 goodbye")
			return
		default:
			answer = "502 command not supported"
		}
	}
}

// address returns the text in angle brackets.
func address(s string) string {
	_, s, _ = strings.Cut(s, "<")
	s, _, _ = strings.Cut(s, ">")
	return s
}

// data accepts a mail and returns the answer; "" disconnects.
func (s *Server) data(in *textproto.Reader, out *textproto.Writer, to string) (answer string) {
	if out.PrintfLine("354 go on; end with a dot") != nil {
		return ""
	}
	text, err := in.ReadDotBytes()
	if err != nil {
		return "" // without the final dot it is not a complete mail
	}
	head, err := textproto.NewReader(bufio.NewReader(bytes.NewReader(text))).ReadMIMEHeader()
	id := address(head.Get("Message-Id"))
	if (err != nil && !errors.Is(err, io.EOF)) || id == "" {
		return "554 it has no Message-ID"
	}
	subject, err := new(mime.WordDecoder).DecodeHeader(head.Get("Subject"))
	if err != nil {
		return "554 its subject is invalid"
	}
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	switch err := s.box.Take(ctx, Mail{ID: id, To: to, Subject: subject}); {
	case errors.Is(err, ErrOther):
		return "554 " + ErrOther.Error()
	case err != nil: // it may be stored, so neither yes nor no would be true
		slog.ErrorContext(ctx, "mail server", "mail", id, "error", err)
		return ""
	case s.moods.Is(Cut, s.moods.rates.Cut):
		return ""
	}
	return "250 taken"
}
