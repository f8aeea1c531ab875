package sqlexec

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strconv"
	"strings"
)

// This file runs calls over a database/sql driver other than pgx, which has no pipeline. lib/pq sends several
// statements in one round trip if they have no arguments, and returns a result for each. So Skald puts the
// arguments into the text, and all calls need one round trip there, too.

// ErrForeign reports that the connection is not a connection of pgx.
var ErrForeign = errors.New("the driver is not that of github.com/jackc/pgx/v5/stdlib")

// answerOf is the column of an additional row before the result of a call. The row has the index of that
// call.
const answerOf = "skald_call"

// script joins the calls into one text, with their arguments as literals.
func script(calls []Call) (string, error) {
	var b strings.Builder
	for i, c := range calls {
		text, err := Inlined(c.SQL, c.Args)
		if err != nil {
			return "", err
		}
		if c.Done != nil && c.Scan == nil { // the driver counts the changed rows of the last statement only
			text += " RETURNING 1"
		}
		if c.answers() || i > 0 && calls[i-1].Fail != nil {
			// also after a call with Fail, so that this Fail does not get the error of the next call
			b.WriteString("SELECT " + strconv.Itoa(i) + " AS " + answerOf + ";\n")
		}
		b.WriteString(text + ";\n")
	}
	return b.String(), nil
}

// SendText runs the SQL text prefix and then the calls in tx, in one round trip.
func SendText(ctx context.Context, tx *sql.Tx, prefix string, calls []Call) error {
	text, err := script(calls)
	if err != nil {
		return err
	}
	rows, err := tx.QueryContext(ctx, prefix+text)
	if err == nil {
		err = errors.Join(readRows(rows, calls), rows.Close())
	}
	if SQLState(err) == "42601" && strings.Contains(err.Error(), "multiple commands") {
		return fmt.Errorf("%w, and it does not send several statements at once: open the database with sql.Open(\"pgx\", …), or that of lib/pq: %w", ErrForeign, err)
	}
	return err
}

// readRows passes each result to its call.
func readRows(rows *sql.Rows, calls []Call) error {
	for at := -1; ; {
		columns, err := rows.Columns()
		if err != nil {
			return err
		}
		told := len(columns) == 1 && columns[0] == answerOf
		touched := int64(0)
		for rows.Next() {
			switch {
			case told:
				err = rows.Scan(&at)
			case at >= 0 && calls[at].Scan != nil:
				err = calls[at].Scan(rows)
			}
			if err != nil {
				return err
			}
			touched++
		}
		if !told && at >= 0 && calls[at].Done != nil {
			calls[at].Done(touched)
		}
		if !told && at >= 0 && calls[at].Fail == nil {
			at = -1
		}
		if !rows.NextResultSet() {
			if err := rows.Err(); err != nil && at >= 0 && calls[at].Fail != nil {
				return calls[at].Fail(err)
			}
			return rows.Err()
		}
	}
}

func (c Call) answers() bool { return c.Scan != nil || c.Done != nil || c.Fail != nil }

// runText runs the calls as one transaction, in three round trips.
func runText(ctx context.Context, conn *sql.Conn, calls []Call) error {
	tx, err := conn.BeginTx(ctx, &sql.TxOptions{Isolation: sql.LevelReadCommitted})
	if err != nil {
		return err
	}
	if err := SendText(ctx, tx, "", calls); err != nil {
		_ = tx.Rollback()
		return err
	}
	return tx.Commit()
}

// withinText implements Runner.Within. BEGIN is a separate round trip; the transaction has no locks yet, so
// it can wait without harm.
func withinText(ctx context.Context, conn *sql.Conn, session Call, f func(send Sender) error) error {
	tx, err := conn.BeginTx(ctx, &sql.TxOptions{Isolation: sql.LevelReadCommitted})
	if err != nil {
		return err
	}
	send := func(ctx context.Context, calls ...Call) error { return SendText(ctx, tx, "", calls) }
	if err = send(ctx, session); err == nil {
		err = f(send)
	}
	if err != nil {
		_ = tx.Rollback()
		return err
	}
	return tx.Commit()
}
