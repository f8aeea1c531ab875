package sqlexec

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/skald-go/skald"
	"github.com/skald-go/skald/internal/complete"
	"github.com/skald-go/skald/store"
)

// lostGuard is what skald_require raises.
const lostGuard = "SK001"

// What a session answers that has been given to somebody else in between: a statement that was prepared is
// not there, one that was not is.
const (
	UnknownStatement = "26000"
	DoubledStatement = "42P05"
)

// SQLState is that of err; "": it has none. PgBouncer has one for all that it refuses: of that it is the one
// that PostgreSQL would have.
func SQLState(err error) string {
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
	case ofStatement(err):
		return "22000"
	case says("unsupported startup parameter"):
		return "0A000"
	case says("no such database"), says("database") && says("does not exist"):
		return "3D000"
	case says("authentication failed"), says("no such user"), says("role") && says("does not exist"):
		return "28000"
	}
	return code
}

// ofStatement tells whether a server calls one statement a violation of the protocol, and goes on with the
// session: a text with a NUL that pgx has put into a query (simple_protocol), parameters that do not fit. No
// try again cures that. What ends a session is FATAL; PgBouncer does not tell the unlocalized severity.
func ofStatement(err error) bool {
	if pe := (*pgconn.PgError)(nil); errors.As(err, &pe) {
		return pe.SeverityUnlocalized == "ERROR"
	}
	text := err.Error()
	return strings.Contains(text, "invalid message format") || strings.Contains(text, "bind message supplies")
}

// movedAway is what skald_check_identity raises.
const movedAway = "SK002"

// Lost tells whether err is of a guard that was lost.
func Lost(err error) bool { return SQLState(err) == lostGuard }

// standby tells of a transaction that would write and was begun on a standby. The routine's name is in no
// language.
func standby(err error) bool {
	var pe *pgconn.PgError
	return errors.As(err, &pe) && pe.Code == "0A000" && pe.Routine == "call_bool_check_hook"
}

// Outage tells whether err, of a store or of pgx, is nobody's fault and worth the same try again: a
// server that is away, starts or stops, a lost connection, a deadlock, a serialisation failure, a timeout, a
// full disk.
func Outage(err error) bool {
	if err == nil || store.Incurable(err) || errors.Is(err, errReadOnly) {
		return false
	}
	if errors.Is(err, store.ErrBusy) || errors.Is(err, errLeftover) || standby(err) {
		return true
	}
	switch code := SQLState(err); {
	case code == "":
		return brokenLine(err)
	case code == "40001", code == "40P01", code == "55P03", code == "57014", code == "25P03", code == "25P04":
		return true // serialisation, deadlock, lock, cancelled, idle or long transaction ended
	case code == "25006", code == "58030":
		return true // a standby, or read-only for now; an I/O error
	case code == UnknownStatement, code == DoubledStatement:
		return true // no message's fault, and another session may do
	case code == "28000", code == "28P01", code == "3D000":
		return false
	}
	return classOf(err, "08", "53", "57")
}

// errReadOnly is the fault of a function, and no outage.
var errReadOnly = errors.New("the function that was lent this transaction has made it READ ONLY, so that Skald cannot write in it: leave that out")

// errRefused is of a right that was there when the transaction began, as far as Skald knows.
var errRefused = errors.New("refused at the end of a transaction that was lent to a function")

// Lent is err of a transaction that was lent: it began as one that writes, under the role of the process.
func Lent(err error) error {
	switch SQLState(err) {
	case "25006":
		return fmt.Errorf("%w: %w", errReadOnly, err)
	case "42501":
		return fmt.Errorf("%w: %w", errRefused, err)
	}
	return err
}

func classOf(err error, classes ...string) bool {
	code := SQLState(err)
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
	return errors.As(err, &dial) || errors.As(err, &op) || errors.Is(err, io.EOF) ||
		errors.Is(err, io.ErrUnexpectedEOF) ||
		errors.Is(err, net.ErrClosed) || errors.Is(err, context.DeadlineExceeded) ||
		pgconn.Timeout(err) || pgconn.SafeToRetry(err) || closedLine(err)
}

// inUse tells that rows of a query are open, or that another goroutine uses the transaction.
func inUse(err error) bool { return strings.Contains(err.Error(), "conn busy") }

func closedLine(err error) bool {
	text := err.Error()
	return strings.Contains(text, "conn closed") || strings.Contains(text, "bad connection") ||
		strings.Contains(text, "closed pool")
}

// Explain gives errors that waiting cannot cure their remedy.
func (d *DB) Explain(err error) error {
	if standby(err) {
		return fmt.Errorf("%w: %w", store.ErrStandby, err)
	}
	if inUse(err) {
		return fmt.Errorf("%w: rows of a query in this transaction are open, or another goroutine uses it: "+
			"close them (rows.Close), and wait for it, before you return", err)
	}
	switch SQLState(err) {
	case "25006":
		if errors.Is(err, errReadOnly) {
			return err
		}
		return fmt.Errorf("%w: transactions of this role or database only read unless told otherwise: begin yours with READ WRITE, "+
			"or ALTER ROLE … SET default_transaction_read_only = off", err)
	case "57014":
		return fmt.Errorf("%w: if it was a statement_timeout of this role or database, raise it above inbox.Options.Timeouts.Wait", err)
	case movedAway:
		return &store.MovedError{Saw: message(err)}
	case "42P01", "3F000", "42883", "42703": // table, schema, function, column
		if strings.Contains(err.Error(), "skald_") || SQLState(err) == "3F000" {
			return d.SchemaError(0)
		}
	case UnknownStatement, DoubledStatement:
		return fmt.Errorf("%w: a pooler in transaction mode lost a named statement: add default_query_exec_mode=cache_describe to the URL, "+
			"or use PgBouncer 1.21 or later with max_prepared_statements above 0", err)
	case "42501":
		// What a trigger or a policy of the user's own refuses is the fault of one message.
		if bad := (*settingError)(nil); !errors.As(err, &bad) &&
			(strings.Contains(err.Error(), "skald_") || strings.Contains(err.Error(), d.Schema)) {
			remedy := "run what `skald roles --schema " + ShellWord(d.Schema) + "` prints"
			if errors.Is(err, errRefused) {
				remedy = "if a handler or a step did SET ROLE in its transaction, have it RESET ROLE before it " +
					"returns; else " + remedy
			}
			return &store.RightError{What: Refused(err), Remedy: remedy, Err: err}
		}
	}
	return err
}

// Refused is what the server says a right is missing for.
func Refused(err error) string {
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

// SchemaError says that the tables have version have, with which this build does not work; 0: none is known.
func (d *DB) SchemaError(have int) error {
	e := &store.SchemaError{Where: "schema " + d.Schema, Have: have, Need: d.Oldest, Last: d.Newest,
		Remedy: "run: skald migrate --store URL --schema " + ShellWord(d.Schema)}
	if have > e.Last {
		e.Remedy = "run a newer build"
	}
	return e
}

// Limit names the message of rows that broke a limit of the outbox.
func Limit(err error, rows []skald.Message) error {
	if SQLState(err) != "23514" || !strings.Contains(err.Error(), "skald_outbox_") {
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

// Beginning tells a rival from what else may hinder a begin.
func (d *DB) Beginning(err error) error {
	if Lost(err) {
		return fmt.Errorf("%w: %w", store.ErrLost, err)
	}
	return d.Own(err)
}

// Own says what the matter is in a transaction of our own: a lock that was not to be had there, a rival has.
func (d *DB) Own(err error) error {
	if SQLState(err) == "55P03" {
		return fmt.Errorf("%w: %w", store.ErrBusy, err)
	}
	return d.Explain(err)
}

// Losing names a guard that was lost in a transaction of the caller's.
func (d *DB) Losing(err error) error {
	if Lost(err) {
		return fmt.Errorf("%w: %w", store.ErrLost, err)
	}
	return d.Explain(err)
}

// ConnectionLost tells of a connection that was lost.
func ConnectionLost(err error) bool {
	return errors.Is(err, driver.ErrBadConn) || errors.Is(err, sql.ErrConnDone) ||
		errors.Is(err, net.ErrClosed) || errors.Is(err, io.EOF) ||
		errors.Is(err, io.ErrUnexpectedEOF) || classOf(err, "08", "57")
}

// A settingError is the fault of whoever chose the settings of one message: never a missing right of the
// process, which would stop it for all.
type settingError struct {
	Names string
	Err   error
}

func (e *settingError) Error() string {
	return fmt.Sprintf("set %s for the handler: %v: see inbox.Options.Transaction.Settings, and pg_settings for what there is", e.Names, e.Err)
}

func (e *settingError) Unwrap() error { return e.Err }

// NoRow tells of a query that found nothing.
func NoRow(err error) bool { return errors.Is(err, pgx.ErrNoRows) || errors.Is(err, sql.ErrNoRows) }
