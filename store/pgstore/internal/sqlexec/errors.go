package sqlexec

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"strings"
	"unicode"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/skald-go/skald"
	"github.com/skald-go/skald/internal/complete"
	"github.com/skald-go/skald/store"
)

// This file classifies errors of PostgreSQL and adds causes and remedies to them.

// lostGuard is the SQLSTATE that the database function skald_require raises if the guard of an effect fails.
const lostGuard = "SK001"

// SQLSTATEs that occur if a pooler gives another session to this client: a prepared statement is missing
// there, or exists already.
const (
	UnknownStatement = "26000"
	DoubledStatement = "42P05"
)

// SQLState returns the SQLSTATE of err; "" if err has none. PgBouncer uses one code for all its errors. For
// these, SQLState returns the code that PostgreSQL would use.
func SQLState(err error) string {
	var s interface {
		error
		SQLState() string
	}
	if !errors.As(err, &s) {
		return ""
	}
	code, text := s.SQLState(), s.Error()
	contains := func(part string) bool { return strings.Contains(text, part) }
	switch {
	case code != "08P01":
	case ofStatement(err):
		return "22000"
	case contains("unsupported startup parameter"):
		return "0A000"
	case contains("no such database"), contains("database") && contains("does not exist"):
		return "3D000"
	case contains("authentication failed"), contains("no such user"), contains("role") && contains("does not exist"):
		return "28000"
	}
	return code
}

// ofStatement reports whether err is a protocol violation that concerns only one statement, so a retry cannot
// succeed. Examples are a NUL in a text (simple_protocol) and parameters that do not match. If the violation
// ends the session, its severity is FATAL. PgBouncer does not send that severity, so ofStatement also reads
// the text.
func ofStatement(err error) bool {
	if pe := (*pgconn.PgError)(nil); errors.As(err, &pe) {
		return pe.SeverityUnlocalized == "ERROR"
	}
	text := err.Error()
	return strings.Contains(text, "invalid message format") || strings.Contains(text, "bind message supplies")
}

// movedAway is the SQLSTATE that the database function skald_check_identity raises in a copy of the database.
const movedAway = "SK002"

// Lost reports whether err means that the guard of an effect failed.
func Lost(err error) bool { return SQLState(err) == lostGuard }

// standby reports whether BEGIN READ WRITE failed because the server is a standby. It compares the name of
// the routine, because the text of the error depends on the server's language.
func standby(err error) bool {
	var pe *pgconn.PgError
	return errors.As(err, &pe) && pe.Code == "0A000" && pe.Routine == "call_bool_check_hook"
}

// Outage reports whether err, of a store or of pgx, is temporary, so that the caller should retry. Examples
// are a server that is unreachable, starts or stops, a lost connection, a deadlock, a serialization failure,
// a timeout and a full disk.
func Outage(err error) bool {
	if err == nil || store.Incurable(err) || errors.Is(err, errReadOnly) || errors.Is(err, errPrepared) {
		return false
	}
	if errors.Is(err, store.ErrBusy) || errors.Is(err, errLeftover) || standby(err) {
		return true
	}
	switch code := SQLState(err); {
	case code == "":
		return brokenLine(err)
	case code == "40001", code == "40P01", code == "55P03", code == "57014", code == "25P03", code == "25P04":
		return true // serialization, deadlock, lock, cancelled, idle or long transaction ended
	case code == "25006", code == "58030":
		return true // a standby, or read-only at present; an I/O error
	case code == UnknownStatement, code == DoubledStatement:
		return true // another session may have the statement
	case code == "28000", code == "28P01", code == "3D000":
		return false
	}
	return classOf(err, "08", "53", "57")
}

// errReadOnly is an error in the code of a handler or a step, not an outage.
var errReadOnly = errors.New("the function that was lent this transaction made it READ ONLY, so Skald cannot write in it: remove that statement")

// errRefused marks a missing right at the end of a handler's transaction. The role had its rights at the
// begin, so the handler may have changed the role.
var errRefused = errors.New("refused at the end of a transaction that was lent to a function")

// Lent adds the probable cause to err from the end of a handler's transaction. The transaction began as
// read-write with the role of the process, so the handler must have changed that.
func Lent(err error) error {
	switch SQLState(err) {
	case "25006":
		return fmt.Errorf("%w: %w", errReadOnly, err)
	case "42501":
		return fmt.Errorf("%w: %w", errRefused, err)
	case UnknownStatement, DoubledStatement:
		if !ofDriver(message(err)) {
			return fmt.Errorf("%w: %w", errPrepared, err)
		}
	}
	return err
}

// errPrepared is an error in the code of a handler or a step, not an outage.
var errPrepared = errors.New("the function that was lent this transaction uses PREPARE, EXECUTE or DEALLOCATE in a pooled session: let the driver prepare the statement")

// PreparedByFunction reports whether err of a handler concerns a statement that it prepared by SQL. Such a
// statement remains in the session after a rollback.
func PreparedByFunction(err error) bool { return errors.Is(Lent(err), errPrepared) }

// ofDriver reports whether the server's text contains the name of a statement that pgx or lib/pq prepared. It
// looks only for that name, because the text may be translated.
func ofDriver(text string) bool {
	if strings.Contains(text, "stmtcache_") || strings.Contains(text, "stmt_") {
		return true
	}
	digits := func(r rune) bool { return r >= '0' && r <= '9' }
	words := strings.FieldsFunc(text, func(r rune) bool {
		return !digits(r) && r != '_' && !unicode.IsLetter(r)
	})
	return slices.ContainsFunc(words, func(w string) bool { return strings.TrimFunc(w, digits) == "" })
}

// PrepareRefused reports whether err is the server's refusal of PREPARE TRANSACTION because of HoldLent. The
// server has rolled back the transaction. Translations of the text keep the SQL keywords.
func PrepareRefused(err error) bool {
	text := message(err)
	return SQLState(err) == "0A000" && strings.Contains(text, "PREPARE") && strings.Contains(text, "WITH HOLD")
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

// brokenLine reports whether err is a failure of the connection, without an error from a server.
func brokenLine(err error) bool {
	var dial *pgconn.ConnectError
	var op net.Error
	if inUse(err) {
		return false // pgx reports it as safe to retry, but the same code would leave its rows open again
	}
	return errors.As(err, &dial) || errors.As(err, &op) || errors.Is(err, io.EOF) ||
		errors.Is(err, io.ErrUnexpectedEOF) ||
		errors.Is(err, net.ErrClosed) || errors.Is(err, context.DeadlineExceeded) ||
		pgconn.Timeout(err) || pgconn.SafeToRetry(err) || closedLine(err)
}

// inUse reports whether err means that rows of a query are open, or that another goroutine uses the
// transaction.
func inUse(err error) bool { return strings.Contains(err.Error(), "conn busy") }

func closedLine(err error) bool {
	text := err.Error()
	return strings.Contains(text, "conn closed") || strings.Contains(text, "bad connection") ||
		strings.Contains(text, "closed pool")
}

// Explain adds a cause and a remedy to an error that a retry cannot fix. It returns other errors unchanged.
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
		return fmt.Errorf("%w: transactions of this role or database are read-only by default: begin yours with READ WRITE, "+
			"or ALTER ROLE … SET default_transaction_read_only = off", err)
	case "57014":
		return fmt.Errorf("%w: if it was a statement_timeout of this role or database, raise it above inbox.Options.Timeouts.Wait", err)
	case movedAway:
		return &store.MovedError{Observed: message(err)}
	case "42P01", "3F000", "42883", "42703": // table, schema, function, column
		if strings.Contains(err.Error(), "skald_") || SQLState(err) == "3F000" {
			return d.SchemaError(0)
		}
	case UnknownStatement, DoubledStatement:
		return fmt.Errorf("%w: a pooler in transaction mode lost a named statement: add default_query_exec_mode=cache_describe to the URL, "+
			"or use PgBouncer 1.21 or later with max_prepared_statements above 0", err)
	case "42501":
		// An error of a trigger or policy of the application gets no remedy: it concerns one message only.
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

// Refused returns the object to which a right is missing, from the server's message.
func Refused(err error) string {
	if text := message(err); text != "" {
		return strings.TrimPrefix(text, "permission denied for ")
	}
	return "a table"
}

// message returns the server's message; "" if err is not from a server.
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

// SchemaError returns an error for tables with a version that this build does not support. 0 means that the
// version is unknown.
func (d *DB) SchemaError(version int) error {
	e := &store.SchemaError{Where: "schema " + d.Schema, Have: version, Need: d.Oldest, Last: d.Newest,
		Remedy: "run: skald migrate --store URL --schema " + ShellWord(d.Schema)}
	if version > e.Last {
		e.Remedy = "run a newer build"
	}
	return e
}

// Limit replaces err if a row exceeds a limit of the outbox. The new error has the topic and type of the
// message.
func Limit(err error, rows []skald.Message) error {
	if SQLState(err) != "23514" || !strings.Contains(err.Error(), "skald_outbox_") {
		return err
	}
	for i := range rows {
		if e := complete.Limits(&rows[i]); e != nil {
			return e
		}
	}
	e := &store.LimitError{What: "the message exceeds a limit of the outbox"}
	if len(rows) > 0 {
		e.Topic, e.Type = rows[0].Topic, rows[0].Type
	}
	var pe *pgconn.PgError
	if errors.As(err, &pe) {
		e.What = "it violates the constraint " + pe.ConstraintName
	}
	return e
}

// Beginning explains an error at the begin of a transaction. It returns store.ErrLost if a rival was faster.
func (d *DB) Beginning(err error) error {
	if Lost(err) {
		return fmt.Errorf("%w: %w", store.ErrLost, err)
	}
	return d.Own(err)
}

// Own explains an error in a transaction with only Skald's own statements. It returns store.ErrBusy for a
// lock timeout, because in such a transaction only a rival can cause a lock timeout.
func (d *DB) Own(err error) error {
	if SQLState(err) == "55P03" {
		return fmt.Errorf("%w: %w", store.ErrBusy, err)
	}
	return d.Explain(err)
}

// Losing explains an error in a transaction of the caller. It returns store.ErrLost if a guard failed.
func (d *DB) Losing(err error) error {
	if Lost(err) {
		return fmt.Errorf("%w: %w", store.ErrLost, err)
	}
	return d.Explain(err)
}

// ConnectionLost reports whether the connection was lost.
func ConnectionLost(err error) bool {
	return errors.Is(err, driver.ErrBadConn) || errors.Is(err, sql.ErrConnDone) ||
		errors.Is(err, net.ErrClosed) || errors.Is(err, io.EOF) ||
		errors.Is(err, io.ErrUnexpectedEOF) || classOf(err, "08", "57")
}

// settingError is an error in the settings of one message. A missing right in it concerns that message only,
// so Explain does not return a store.RightError, which would stop the process for all messages.
type settingError struct {
	Names string
	Err   error
}

func (e *settingError) Error() string {
	return fmt.Sprintf("set %s for the handler: %v: see inbox.Options.Transaction.Settings, and pg_settings for the settings that exist", e.Names, e.Err)
}

func (e *settingError) Unwrap() error { return e.Err }

// NoRow reports whether a query returned no row.
func NoRow(err error) bool { return errors.Is(err, pgx.ErrNoRows) || errors.Is(err, sql.ErrNoRows) }
