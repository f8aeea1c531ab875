package sqlexec

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/skald-go/skald/store"
)

const lentKey = "skald: lent to a function"

// NoteLent records that a function gets conn. A SET ROLE or another setting of the function may outlive its
// transaction.
func NoteLent(conn *pgx.Conn) { conn.PgConn().CustomData()[lentKey] = true }

// errLeftover counts as an outage, because the next connection does not have the setting.
var errLeftover = errors.New("a function that was lent this connection may have left a role or a setting in its session, " +
	"so the connection is closed: let handlers and steps use SET LOCAL")

// changed reports whether the session has another role or user than at its start, or settings that affect
// Skald's statements.
const changed = `SELECT current_setting('role') <> 'none' OR session_user <> $1 OR EXISTS (SELECT FROM pg_settings
	WHERE source = 'session' AND name IN ('search_path', 'statement_timeout'))`

// Leftover closes conn and returns an outage if a function used conn earlier and left a setting that may be
// the cause. Otherwise it returns cause. Call it for a transaction of Skald's own, and for the begin of a
// transaction that is lent.
func Leftover(ctx context.Context, conn *pgx.Conn, cause error) error {
	if conn.PgConn().CustomData()[lentKey] == nil || !OfSetting(cause) {
		return cause
	}
	if Undo(ctx, conn) == nil && !conn.IsClosed() {
		within, stop := context.WithTimeout(context.WithoutCancel(ctx), DefaultWait)
		defer stop()
		var left bool
		err := conn.QueryRow(within, changed, pgx.QueryExecModeExec, conn.Config().User).Scan(&left)
		if err == nil && !left {
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
