package place

import (
	"errors"
	"io/fs"
	"net"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/nats-io/nats.go"
	amqp "github.com/rabbitmq/amqp091-go"
	"github.com/twmb/franz-go/pkg/kerr"
	"modernc.org/sqlite"

	"github.com/skald-go/skald/broker"
	"github.com/skald-go/skald/broker/rabbitbroker"
	"github.com/skald-go/skald/store"
	"github.com/skald-go/skald/store/pgstore"
	"github.com/skald-go/skald/store/sqlitestore"
)

// ErrNone: there is no such database or schema.
var ErrNone = errors.New("no such database")

// A NoneError says that there is nothing which a command could be about. It is ErrNone.
type NoneError struct{ What string }

func (e *NoneError) Error() string        { return e.What }
func (e *NoneError) Is(target error) bool { return target == ErrNone }

// A UsageError says that a command was called wrongly.
type UsageError struct{ What string }

func (e *UsageError) Error() string { return e.What }

// The exit codes of the shop's and Skald's commands.
const (
	ExitOther       = 1
	ExitUsage       = 2
	ExitRight       = 3 // wrong password, missing right
	ExitNone        = 4 // no such database, schema, topic or message
	ExitState       = 5 // missing table, wrong version, objects of others
	ExitUnreachable = 6
	ExitPartly      = 7 // of what was meant, part was done
	ExitFailed      = 8 // a check failed
)

// ExitCode is the exit code for err; 0 for nil.
func ExitCode(err error) int {
	var usage *UsageError
	var failed *FailedError
	var name *pgstore.NameError
	var right *store.RightError
	var password *PasswordError
	var partly *PartlyError
	var retention *store.RetentionError
	switch {
	case err == nil:
		return 0
	case errors.As(err, &usage), errors.As(err, &name), errors.As(err, &retention):
		return ExitUsage
	case errors.As(err, &partly):
		return ExitPartly
	case errors.As(err, &failed):
		return ExitFailed
	case errors.As(err, &right), errors.As(err, &password), errors.Is(err, fs.ErrPermission), kafkaSaysNo(err), natsSaysNo(err), rabbitSaysNo(err):
		return ExitRight
	case errors.Is(err, ErrNone), errors.Is(err, broker.ErrNoTopic):
		return ExitNone
	case wrongState(err):
		return ExitState
	}
	return serverCode(err)
}

// kafkaSaysNo: a wrong password, or a missing right.
func kafkaSaysNo(err error) bool {
	var answered *kerr.Error
	return errors.As(err, &answered) && slices.Contains([]*kerr.Error{kerr.SaslAuthenticationFailed,
		kerr.TopicAuthorizationFailed, kerr.GroupAuthorizationFailed, kerr.ClusterAuthorizationFailed}, answered)
}

// natsSaysNo: a wrong password, or a missing right.
func natsSaysNo(err error) bool {
	return slices.ContainsFunc([]error{nats.ErrAuthorization, nats.ErrAuthExpired, nats.ErrAuthRevoked, nats.ErrAccountAuthExpired,
		nats.ErrPermissionViolation}, func(no error) bool { return errors.Is(err, no) })
}

// rabbitSaysNo: a wrong password, a missing right, or no right to the virtual host.
func rabbitSaysNo(err error) bool {
	var answered *amqp.Error
	return errors.As(err, &answered) && (answered.Code == amqp.AccessRefused || answered.Code == amqp.NotAllowed)
}

func wrongState(err error) bool {
	var schema *store.SchemaError
	var liteSource *sqlitestore.SourceError
	var liteChanged *sqlitestore.ChangedError
	var pgSource *pgstore.SourceError
	var pgChanged *pgstore.ChangedError
	var encoding *store.EncodingError
	return errors.Is(err, store.ErrMoved) || errors.Is(err, rabbitbroker.ErrSettings) || errors.As(err, &schema) || errors.As(err, &liteSource) || errors.As(err, &liteChanged) ||
		errors.As(err, &pgSource) || errors.As(err, &pgChanged) || errors.As(err, &encoding) || noTable(err)
}

// noTable: SQLite has no code for it.
func noTable(err error) bool {
	var lite *sqlite.Error
	return errors.As(err, &lite) && strings.Contains(lite.Error(), "no such table")
}

// serverCode tells what a server said, or that it said nothing.
func serverCode(err error) int {
	var pg *pgconn.PgError
	if errors.As(err, &pg) {
		switch pgstore.Code(err) {
		case "28P01", "28000", "42501":
			return ExitRight
		case "3D000", "3F000":
			return ExitNone
		case "42P01", "42703":
			return ExitState
		case "57P03", "57P01", "57P02", "53300":
			return ExitUnreachable
		}
		return ExitOther
	}
	var network net.Error
	if errors.Is(err, broker.ErrAway) || errors.As(err, &network) || pgstore.Outage(err) {
		return ExitUnreachable
	}
	return ExitOther
}

// Away tells of a server that cannot be reached, is not ready or had no time, or of tables that others had in use: what
// failed is worth another try.
func Away(err error) bool {
	var busy *pgstore.BusyError
	return ExitCode(err) == ExitUnreachable || err != nil && pgstore.Outage(err) || errors.As(err, &busy)
}

// A FailedError says that a check was made and failed.
type FailedError struct{ Err error }

func (e *FailedError) Error() string { return e.Err.Error() }
func (e *FailedError) Unwrap() error { return e.Err }

// A PartlyError says that of what was meant only part was done, although nothing failed: somebody else was first with the rest.
type PartlyError struct{ What string }

func (e *PartlyError) Error() string { return e.What }
