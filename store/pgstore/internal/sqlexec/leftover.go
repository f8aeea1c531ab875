package sqlexec

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/skald-go/skald/store"
)

// This file detects a role or a setting that a handler left in the session of a connection.

const startKey = "skald: session before the first function"

// session reads the role, the user and the settings that can make Skald's statements fail. Leftover compares
// them with the values before the first handler, because a pool or ALTER ROLE … SET may also set them.
const session = `SELECT concat_ws(E'\n', current_setting('role'), session_user, current_setting('search_path'),
	current_setting('statement_timeout'))`

// Started returns the call that records the session of conn. It returns false if a call recorded the session
// already. Send the call before a handler uses conn for the first time.
func Started(conn *pgx.Conn) (c Call, needed bool) {
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

// errLeftover is an outage, because another connection does not have the setting.
var errLeftover = errors.New("a function that was lent this connection may have left a role or a setting in its session, " +
	"so the connection is closed: let handlers and steps use SET LOCAL")

// Leftover checks an error that Skald's own statement had on conn. If an earlier handler left a role or a
// setting on conn that may be the reason, Leftover closes conn and returns an outage. Otherwise it returns
// the error cause.
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
	return fmt.Errorf("%w: %v", errLeftover, cause) // %v drops the SQLSTATE: a retry helps here
}

// OfSetting reports whether err may come from a role, a setting or a temporary table of a handler.
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
