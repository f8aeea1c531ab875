// This file has the exit codes of the command, the errors with a code, and the remedies for errors.

package cli

import (
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/http"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/nats-io/nats.go"
	amqp "github.com/rabbitmq/amqp091-go"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/sr"
	"modernc.org/sqlite"

	"github.com/skald-go/skald/broker"
	"github.com/skald-go/skald/broker/rabbitbroker"
	"github.com/skald-go/skald/store"
	"github.com/skald-go/skald/store/pgstore"
	"github.com/skald-go/skald/store/sqlitestore"
)

// The exit codes of the command.
const (
	other       = 1
	exitUsage   = 2
	exitRight   = 3 // wrong password, missing right
	exitNone    = 4 // no such database, schema, topic or message
	exitState   = 5 // missing table, wrong version, objects of others
	unreachable = 6
	exitPartly  = 7 // part of the work is done
	exitFailed  = 8 // a check failed
	interrupted = 130
)

// ErrNone reports that a database or schema does not exist.
var ErrNone = errors.New("no such database")

// ErrInterrupted reports that a demo was stopped before its end.
var ErrInterrupted = errors.New("interrupted")

// ErrTold is wrapped by errors whose text is printed already.
var ErrTold = errors.New("printed already")

// NoneError reports that an object that a command names does not exist. errors.Is matches it with ErrNone.
type NoneError struct{ What string }

func (e *NoneError) Error() string        { return e.What }
func (e *NoneError) Is(target error) bool { return target == ErrNone }

// UsageError reports wrong arguments.
type UsageError struct{ What string }

func (e *UsageError) Error() string { return e.What }

// FailedError reports that a check failed.
type FailedError struct{ Err error }

func (e *FailedError) Error() string { return e.Err.Error() }
func (e *FailedError) Unwrap() error { return e.Err }

// partlyError reports that only a part of the work was done, because another process did the rest first.
type partlyError struct{ What string }

func (e *partlyError) Error() string { return e.What }

// StateError reports that the command does not apply to the present state.
type StateError struct{ What string }

func (e *StateError) Error() string { return e.What }

// ForeignError reports an object in the database or at the broker that another program created.
type ForeignError struct{ What, Remedy string }

func (e *ForeignError) Error() string { return e.What + ": " + e.Remedy }

// PasswordError reports that the command for the password failed.
type PasswordError struct {
	Variable string // the environment variable that has the command
	Why      error
}

func (e *PasswordError) Error() string {
	return fmt.Sprintf("read the password: %v: run the command of %s by hand",
		e.Why, e.Variable)
}

func (e *PasswordError) Unwrap() error { return e.Why }

// Code returns the exit code for err; 0 for nil.
func Code(err error) int {
	if code := verbCode(err); code != 0 {
		return code
	}
	return ownCode(err)
}

// ownCode returns the exit code for an error of this command or of a library.
func ownCode(err error) int {
	var usage *UsageError
	var failed *FailedError
	var name *pgstore.NameError
	var right *store.RightError
	var password *PasswordError
	var partly *partlyError
	var retention *store.RetentionError
	var foreign *ForeignError
	var state *StateError
	switch {
	case err == nil:
		return 0
	case errors.Is(err, ErrInterrupted):
		return interrupted
	case errors.As(err, &foreign), errors.As(err, &state):
		return exitState
	case errors.As(err, &usage), errors.As(err, &name), errors.As(err, &retention):
		return exitUsage
	case errors.As(err, &partly):
		return exitPartly
	case errors.As(err, &failed):
		return exitFailed
	case errors.As(err, &right), errors.As(err, &password), errors.Is(err, fs.ErrPermission),
		kafkaDenied(err), natsDenied(err), rabbitDenied(err):
		return exitRight
	case errors.Is(err, ErrNone), errors.Is(err, broker.ErrNoTopic), errors.Is(err, broker.ErrNoGroup):
		return exitNone
	case wrongState(err):
		return exitState
	}
	return serverCode(err)
}

// kafkaDenied returns true for a wrong password or a missing right.
func kafkaDenied(err error) bool {
	var answered *kerr.Error
	return errors.As(err, &answered) && slices.Contains([]*kerr.Error{kerr.SaslAuthenticationFailed,
		kerr.TopicAuthorizationFailed, kerr.GroupAuthorizationFailed, kerr.ClusterAuthorizationFailed},
		answered)
}

// natsDenied returns true for a wrong password or a missing right.
func natsDenied(err error) bool {
	return slices.ContainsFunc([]error{nats.ErrAuthorization, nats.ErrAuthExpired, nats.ErrAuthRevoked,
		nats.ErrAccountAuthExpired,
		nats.ErrPermissionViolation}, func(no error) bool { return errors.Is(err, no) })
}

// rabbitDenied returns true for a wrong password or a missing right, such as the right to use the virtual
// host.
func rabbitDenied(err error) bool {
	var answered *amqp.Error
	return errors.As(err, &answered) &&
		(answered.Code == amqp.AccessRefused || answered.Code == amqp.NotAllowed)
}

func wrongState(err error) bool {
	var schema *store.SchemaError
	var liteSource *sqlitestore.SourceError
	var liteChanged *sqlitestore.ChangedError
	var pgSource *pgstore.SourceError
	var pgChanged *pgstore.ChangedError
	var encoding *store.EncodingError
	return errors.Is(err, store.ErrMoved) || errors.Is(err, rabbitbroker.ErrSettings) ||
		errors.As(err, &schema) || errors.As(err, &liteSource) || errors.As(err, &liteChanged) ||
		errors.As(err, &pgSource) || errors.As(err, &pgChanged) || errors.As(err, &encoding) || noTable(err)
}

// noTable returns true if a table is missing. SQLite has no error code for that.
func noTable(err error) bool {
	var lite *sqlite.Error
	return errors.As(err, &lite) && strings.Contains(lite.Error(), "no such table")
}

// serverCode returns the exit code for an answer of a server, or for a server without an answer.
func serverCode(err error) int {
	var pg *pgconn.PgError
	if errors.As(err, &pg) {
		switch pgstore.Code(err) {
		case "28P01", "28000", "42501":
			return exitRight
		case "3D000", "3F000":
			return exitNone
		case "42P01", "42703":
			return exitState
		case "57P03", "57P01", "57P02", "53300":
			return unreachable
		}
		return other
	}
	var registry *sr.ResponseError
	if errors.As(err, &registry) {
		switch {
		case registry.StatusCode == http.StatusUnauthorized, registry.StatusCode == http.StatusForbidden:
			return exitRight
		case registry.StatusCode >= http.StatusInternalServerError:
			return unreachable
		}
		return other
	}
	var network net.Error
	if errors.Is(err, broker.ErrUnavailable) || errors.As(err, &network) || pgstore.Outage(err) {
		return unreachable
	}
	return other
}

// Away returns true for errors that are temporary: an unreachable, starting or overloaded server, or locked
// tables.
func Away(err error) bool {
	var busy *pgstore.BusyError
	return Code(err) == unreachable || err != nil && pgstore.Outage(err) || errors.As(err, &busy)
}
