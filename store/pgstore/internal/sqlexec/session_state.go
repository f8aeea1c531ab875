package sqlexec

import (
	"context"
	"database/sql"
	"database/sql/driver"

	"github.com/jackc/pgx/v5"
)

// Reported has the settings of a session that the server sends to the client after each change, in the order
// of reportedNames. Reading these settings costs no round trip.
type Reported [10]string

func reportedNames() [10]string {
	return [...]string{"application_name", "client_encoding", "DateStyle", "IntervalStyle", "TimeZone",
		"default_transaction_read_only", "is_superuser", "search_path" /* since 18 */, "session_authorization",
		"standard_conforming_strings"}
}

// ReportedBy returns the reported settings of conn at present.
func ReportedBy(conn *pgx.Conn) (r Reported) {
	for i, name := range reportedNames() {
		r[i] = conn.PgConn().ParameterStatus(name)
	}
	return r
}

// ReportedBySQL returns the reported settings of conn at present; the zero value for a driver other than pgx.
func ReportedBySQL(conn *sql.Conn) (r Reported) {
	_ = WithDriverConn(conn, func(c *pgx.Conn) error {
		r = ReportedBy(c)
		return nil
	})
	return r
}

// GuardLentState does as GuardLent. The call also sets hasState to true if the session may have state that
// remains after the transaction. Then the caller must call LeftBehind after the commit.
func (d *DB) GuardLentState(hasState *bool) Call {
	guard := d.GuardLent()
	guard.SQL = d.SQL["GuardLentState"]
	var one int
	return guard.Into(&one, hasState)
}

// LeftBehind reports whether the session has temporary objects, channels of LISTEN or cursors WITH HOLD: one
// round trip. It also returns true after an error. Call it outside of a transaction.
func (d *DB) LeftBehind(ctx context.Context, conn *sql.Conn) (left bool) {
	ctx, stop := context.WithTimeout(context.WithoutCancel(ctx), DefaultWait)
	defer stop()
	err := conn.QueryRowContext(ctx, d.SQL["LeftBehind"]).Scan(&left)
	return left || err != nil
}

// Discard closes the connection of conn. It closes the pgx connection itself, because with
// stdlib.OpenDBFromPool database/sql would return that connection to the pgx pool.
func Discard(ctx context.Context, conn *sql.Conn) {
	_ = WithDriverConn(conn, func(c *pgx.Conn) error {
		Close(ctx, c)
		return nil
	})
	_ = conn.Raw(func(any) error { return driver.ErrBadConn })
}
