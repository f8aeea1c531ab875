package wal

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgproto3"
)

// Kinds of messages of the pgoutput protocol.
const (
	walOther = iota
	Begin    // a committed transaction with rows of the outbox
	Commit   // its end
	walAlive // a keepalive: the stream has all commits up to end
)

// Message is one message of the stream.
type Message struct {
	Kind  int
	XID   uint32
	end   int64 // the position in the WAL after this message
	reply bool  // the server requests a status message
}

var errWAL = errors.New("the stream is not as PostgreSQL documents it")

// readWAL parses a CopyData message of the streaming replication protocol.
func readWAL(b []byte) (m Message, err error) {
	switch {
	case len(b) >= 18 && b[0] == 'k':
		return Message{Kind: walAlive, end: int64(binary.BigEndian.Uint64(b[1:])), reply: b[17] != 0}, nil
	case len(b) < 26 || b[0] != 'w':
		return m, fmt.Errorf("%w: %d bytes of type %q", errWAL, len(b), b[:min(len(b), 1)])
	}
	switch in := b[25:]; in[0] {
	case 'B':
		if len(in) < 21 {
			return m, fmt.Errorf("%w: a Begin of %d bytes", errWAL, len(in))
		}
		return Message{Kind: Begin, XID: binary.BigEndian.Uint32(in[17:])}, nil
	case 'C':
		if len(in) < 26 {
			return m, fmt.Errorf("%w: a Commit of %d bytes", errWAL, len(in))
		}
		return Message{Kind: Commit, end: int64(binary.BigEndian.Uint64(in[10:]))}, nil
	}
	return m, nil
}

// Stream is a replication connection after StartStream.
type Stream struct {
	Conn *pgconn.HijackedConn
	Told func(Message) // receives each message
	At   func() int64  // returns the position before which the server may delete WAL
}

// follow reads the stream until ctx is done. Then it sends the position to the server and ends the stream.
func (s *Stream) follow(ctx context.Context) error {
	defer s.Conn.Conn.Close()
	defer context.AfterFunc(ctx, func() { _ = s.Conn.Conn.SetReadDeadline(time.Unix(1, 0)) })()
	heard, ping := time.Now(), time.Time{}
	for {
		if now := time.Now(); !now.Before(ping) {
			ping = now.Add(pingEvery)
			if err := s.Status(true); err != nil {
				return err
			}
			if err := s.Conn.Conn.SetReadDeadline(ping); err != nil {
				return err
			}
		}
		if ctx.Err() != nil {
			s.leave()
			return context.Cause(ctx)
		}
		msg, err := s.Conn.Frontend.Receive()
		switch {
		case errors.Is(err, os.ErrDeadlineExceeded) && time.Since(heard) > deadAfter:
			return fmt.Errorf("the server sent nothing for %v", deadAfter)
		case errors.Is(err, os.ErrDeadlineExceeded):
			continue
		case err != nil:
			return err
		}
		heard = time.Now()
		if err := s.take(msg); err != nil {
			return err
		}
	}
}

func (s *Stream) take(msg pgproto3.BackendMessage) error {
	switch msg := msg.(type) {
	case *pgproto3.CopyData:
		m, err := readWAL(msg.Data)
		if err != nil {
			return err
		}
		s.Told(m)
		if m.reply {
			return s.Status(false)
		}
	case *pgproto3.ErrorResponse:
		return pgconn.ErrorResponseToPgError(msg)
	case *pgproto3.CopyDone:
		return errors.New("the server ended the stream")
	}
	return nil
}

// Status sends the position of the stream, so that the server can delete older WAL. If reply is true, it also
// asks the server to answer.
func (s *Stream) Status(reply bool) error {
	at := uint64(s.At())
	b := make([]byte, 0, 34)
	b = append(b, 'r')
	for range 3 { // written, flushed, applied
		b = binary.BigEndian.AppendUint64(b, at)
	}
	b = binary.BigEndian.AppendUint64(b,
		uint64(time.Since(time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC)).Microseconds()))
	if b = append(b, 0); reply {
		b[len(b)-1] = 1
	}
	return s.send(&pgproto3.CopyData{Data: b})
}

func (s *Stream) send(msgs ...pgproto3.FrontendMessage) error {
	if err := s.Conn.Conn.SetWriteDeadline(time.Now().Add(deadAfter)); err != nil {
		return err
	}
	for _, m := range msgs {
		s.Conn.Frontend.Send(m)
	}
	return s.Conn.Frontend.Flush()
}

// leave sends the last position, ends the stream and waits at most 2 s for the server.
func (s *Stream) leave() {
	if s.Status(false) != nil || s.send(&pgproto3.CopyDone{}) != nil {
		return
	}
	_ = s.Conn.Conn.SetReadDeadline(time.Now().Add(2 * time.Second))
	for {
		msg, err := s.Conn.Frontend.Receive()
		if err != nil {
			return
		}
		if _, ready := msg.(*pgproto3.ReadyForQuery); ready {
			_ = s.send(&pgproto3.Terminate{})
			return
		}
	}
}
