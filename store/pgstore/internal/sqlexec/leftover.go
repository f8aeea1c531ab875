package sqlexec

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/skald-go/skald/store"
)

const startKey = "skald: session before the first function"

// session reads the role, the user and the settings that hinder Skald's statements. A pool may set them when
// it connects, as ALTER ROLE … SET may.
const session = `SELECT concat_ws(E'\n', current_setting('role'), session_user, current_setting('search_path'),
	current_setting('statement_timeout'))`

// Started returns the call that records the session of conn before a function gets conn for the first time.
// Later it returns false. Leftover compares the session with the record.
func Started(conn *pgx.Conn) (c Call, first bool) {
	data := conn.PgConn().CustomData()
	if data[startKey] != nil {
		return c, false
	}
	return Call{SQL: session, Scan: func(row Scanner) error {
		var at string
		err := row.Scan(&at)
		if err == nil {
			data[startKey] = at
		}
		return err
	}}, true
}

// errLeftover counts as an outage, because the next connection does not have the setting.
var errLeftover = errors.New("a function that was lent this connection may have left a role or a setting in its session, " +
	"so the connection is closed: let handlers and steps use SET LOCAL")

// Leftover closes conn and returns an outage if a function used conn earlier and left a role or a setting
// that may be the cause. Otherwise it returns cause. Call it for a transaction of Skald's own, and for the
// begin of a transaction that is lent.
func Leftover(ctx context.Context, conn *pgx.Conn, cause error) error {
	at, lent := conn.PgConn().CustomData()[startKey].(string)
	if !lent || !OfSetting(cause) {
		return cause
	}
	if Undo(ctx, conn) == nil && !conn.IsClosed() {
		within, stop := context.WithTimeout(context.WithoutCancel(ctx), DefaultWait)
		defer stop()
		var now string
		err := conn.QueryRow(within, session, pgx.QueryExecModeExec).Scan(&now)
		if err == nil && now == at {
			return cause
		}
	}
	Close(ctx, conn)
	return fmt.Errorf("%w: %v", errLeftover, cause) // without the SQLSTATE, which would be incurable
}

// OfSetting reports whether err may come from a role, a setting or a table that a function changed.
func OfSetting(err error) bool {
	if own := (*settingError)(nil); errors.As(err, &own) {
		return false
	}
	if right := (*store.RightError)(nil); errors.As(err, &right) {
		return true
	}
	switch SQLState(err) {
	case "42501", "42P01", "42703", "42883", "3F000", "57014":
		return true
	}
	return false
}
