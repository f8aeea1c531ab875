package pgstore

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/skald-go/skald"
	"github.com/skald-go/skald/internal/complete"
	"github.com/skald-go/skald/store"
)

// A SourceError says that the database has another name than the one that was asked for. The name is part of
// the identity of every message: changing it would make repeats look new.
type SourceError struct{ Have, Want string }

func (e *SourceError) Error() string {
	return fmt.Sprintf("store: the source of this database is %q, not %q: leave --source out, or migrate another schema", e.Have, e.Want)
}

// lostGuard is what skald_require raises.
const lostGuard = "SK001"

// What a session answers that has been given to somebody else in between: a statement that was prepared is
// not there, one that was not is.
const (
	unknownStatement = "26000"
	doubledStatement = "42P05"
)

// Code is the SQLSTATE of err, "" if it has none. PgBouncer has one for all that it refuses: of that it is
// the one that PostgreSQL would have.
func Code(err error) string { return state(err) }

func state(err error) string {
	var s interface {
		error
		SQLState() string
	}
	if !errors.As(err, &s) {
		return ""
	}
	code, text := s.SQLState(), s.Error()
	says := func(part string) bool { return strings.Contains(text, part) }
	switch {
	case code != "08P01":
	case says("unsupported startup parameter"):
		return "0A000"
	case says("no such database"), says("database") && says("does not exist"):
		return "3D000"
	case says("authentication failed"), says("no such user"), says("role") && says("does not exist"):
		return "28000"
	}
	return code
}

// movedAway is what skald_check_identity raises.
const movedAway = "SK002"

func lost(err error) bool { return state(err) == lostGuard }

// standby tells of a transaction that would write and was begun on a standby. The routine's name is in no
// language.
func standby(err error) bool {
	var pe *pgconn.PgError
	return errors.As(err, &pe) && pe.Code == "0A000" && pe.Routine == "call_bool_check_hook"
}

func (c *core) Outage(err error) bool { return Outage(err) }

// Outage tells whether err, of this package or of pgx, is nobody's fault and worth the same try again: a
// server that is away, starts or stops, a lost connection, a deadlock, a serialisation failure, a timeout, a
// full disk.
func Outage(err error) bool {
	if err == nil || store.Incurable(err) {
		return false
	}
	if errors.Is(err, store.ErrBusy) || standby(err) {
		return true
	}
	switch code := state(err); {
	case code == "":
		return brokenLine(err)
	case code == "40001", code == "40P01", code == "55P03", code == "57014", code == "25P03", code == "25P04":
		return true // serialisation, deadlock, lock, cancelled, idle or long transaction ended
	case code == "25006", code == "58030":
		return true // a standby, or read-only for now; an I/O error
	case code == unknownStatement, code == doubledStatement:
		return true // no message's fault, and another session may do
	case code == "28000", code == "28P01", code == "3D000":
		return false
	}
	return classOf(err, "08", "53", "57")
}

func classOf(err error, classes ...string) bool {
	code := state(err)
	for _, c := range classes {
		if strings.HasPrefix(code, c) {
			return true
		}
	}
	return false
}

// brokenLine tells errors that no server sent.
func brokenLine(err error) bool {
	var dial *pgconn.ConnectError
	var op net.Error
	if inUse(err) {
		return false // pgx calls it safe to retry, but the same code would leave its rows open again
	}
	return errors.As(err, &dial) || errors.As(err, &op) || errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) ||
		errors.Is(err, net.ErrClosed) || errors.Is(err, context.DeadlineExceeded) ||
		pgconn.Timeout(err) || pgconn.SafeToRetry(err) || closedLine(err)
}

// inUse tells that rows of a query are open, or that another goroutine uses the transaction.
func inUse(err error) bool { return strings.Contains(err.Error(), "conn busy") }

func closedLine(err error) bool {
	text := err.Error()
	return strings.Contains(text, "conn closed") || strings.Contains(text, "bad connection") || strings.Contains(text, "closed pool")
}

// explain gives errors that waiting cannot cure their remedy.
func (c *core) explain(err error) error {
	if standby(err) {
		return fmt.Errorf("%w: %w", store.ErrStandby, err)
	}
	if inUse(err) {
		return fmt.Errorf("%w: rows of a query in this transaction are open, or another goroutine uses it: "+
			"close them (rows.Close), and wait for it, before you return", err)
	}
	switch state(err) {
	case "25006":
		return fmt.Errorf("%w: transactions of this role or database only read unless told otherwise: begin yours with READ WRITE, "+
			"or ALTER ROLE … SET default_transaction_read_only = off", err)
	case "57014":
		return fmt.Errorf("%w: if it was a statement_timeout of this role or database, raise it above inbox.Options.Timeouts.Wait", err)
	case movedAway:
		return &store.MovedError{Saw: message(err)}
	case "42P01", "3F000", "42883", "42703": // table, schema, function, column
		if strings.Contains(err.Error(), "skald_") || state(err) == "3F000" {
			return c.schemaError(0)
		}
	case unknownStatement, doubledStatement:
		return fmt.Errorf("%w: a pooler in transaction mode lost a named statement: add default_query_exec_mode=cache_describe to the URL, "+
			"or use PgBouncer 1.21 or later with max_prepared_statements above 0", err)
	case "42501":
		// What a trigger or a policy of the user's own refuses is the fault of one message.
		if bad := (*settingError)(nil); !errors.As(err, &bad) && (strings.Contains(err.Error(), "skald_") || strings.Contains(err.Error(), c.schema)) {
			return &store.RightError{What: refused(err), Remedy: "run what `skald roles --schema " + shellWord(c.schema) + "` prints", Err: err}
		}
	}
	return err
}

func refused(err error) string {
	if text := message(err); text != "" {
		return strings.TrimPrefix(text, "permission denied for ")
	}
	return "a table"
}

// message is the server's message, "" if it is of no server.
func message(err error) string {
	var pe *pgconn.PgError
	if errors.As(err, &pe) {
		return pe.Message
	}
	var other interface { // of another driver
		error
		SQLState() string
	}
	if errors.As(err, &other) {
		return strings.TrimPrefix(other.Error(), "pq: ")
	}
	return ""
}

func (c *core) schemaError(have int) error {
	e := &store.SchemaError{Where: "schema " + c.schema, Have: have, Need: oldest, Last: newest(),
		Remedy: "run: skald migrate --store URL --schema " + shellWord(c.schema)}
	if have > e.Last {
		e.Remedy = "run a newer build"
	}
	return e
}

// limit names the message of rows that broke a limit of the outbox.
func limit(err error, rows []skald.Message) error {
	if state(err) != "23514" || !strings.Contains(err.Error(), "skald_outbox_") {
		return err
	}
	for i := range rows {
		if e := complete.Limits(&rows[i]); e != nil {
			return e
		}
	}
	e := &store.LimitError{What: "a limit of the outbox is broken"}
	if len(rows) > 0 {
		e.Topic, e.Type = rows[0].Topic, rows[0].Type
	}
	var pe *pgconn.PgError
	if errors.As(err, &pe) {
		e.What = "the constraint " + pe.ConstraintName + " is broken"
	}
	return e
}
