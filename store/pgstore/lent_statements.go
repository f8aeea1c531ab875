package pgstore

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/skald-go/skald/store"
	"github.com/skald-go/skald/store/pgstore/internal/sqlexec"
)

func (*lent) Commit(context.Context) error   { return store.ErrLent }
func (*lent) Rollback(context.Context) error { return store.ErrLent }

// Begin sets a savepoint.
func (l *lent) Begin(ctx context.Context) (pgx.Tx, error) {
	l.mu.Lock()
	l.savepoints++
	name := fmt.Sprint("sp_", l.savepoints)
	l.mu.Unlock()
	if _, err := l.exec(ctx, "savepoint "+name); err != nil {
		return nil, err
	}
	l.counts(1)
	return &savepoint{of: l, name: name}, nil
}

// counts adds n, 1 or -1, to the number of open savepoints of Begin.
func (l *lent) counts(n int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.openPoints += n
}

// inspect inspects a statement of the handler before it is sent. It records whether the statement may leave
// state that affects a later function or a later message. It returns errPrepares for PREPARE TRANSACTION.
func (l *lent) inspect(sql string) error {
	if preparesTransaction(sql) {
		return errPrepares
	}
	left := stateLeftBy(sql)
	l.mu.Lock()
	defer l.mu.Unlock()
	l.unshared = l.unshared || left.inTransaction
	l.sets = l.sets || left.inSession
	return nil
}

// errPrepares is the result of PREPARE TRANSACTION. The server would refuse that statement and end the
// transaction.
var errPrepares = errors.New("PREPARE TRANSACTION: Skald lent the transaction and ends it: remove this statement")

func preparesTransaction(sql string) bool {
	words := strings.Fields(sql)
	return firstWord(sql) == "PREPARE" && len(words) > 1 && strings.EqualFold(words[1], "TRANSACTION")
}

// Conn returns the connection itself. Skald does not see the statements that the handler sends through that
// connection. So Conn sends the buffered rows, and from now on Write sends rows immediately.
func (l *lent) Conn() *pgx.Conn {
	l.mu.Lock()
	done := l.raw || l.over
	l.raw = true
	l.mu.Unlock()
	if !done {
		l.expose()
	}
	return l.live().Conn()
}

// expose sends the buffered rows before the handler gets the connection. The commit returns its error.
func (l *lent) expose() {
	ctx, cancel := context.WithTimeout(context.Background(), sqlexec.DefaultWait)
	defer cancel()
	err := l.runAlone(func() error {
		tx, err := l.open(ctx)
		if err == nil {
			err = l.flush(ctx, tx)
		}
		return err
	})
	if err != nil {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.fault = cmp.Or(l.fault, err)
	}
}

// LargeObjects returns those of pgx. They send statements that Skald does not see: see Conn.
func (l *lent) LargeObjects() pgx.LargeObjects {
	l.Conn()
	tx := l.live()
	return tx.LargeObjects()
}

func (l *lent) Exec(ctx context.Context, sql string, args ...any) (pgconn.CommandTag, error) {
	if err := l.inspect(sql); err != nil {
		return pgconn.CommandTag{}, err
	}
	return l.exec(ctx, sql, args...)
}

func (l *lent) exec(ctx context.Context, sql string, args ...any) (pgconn.CommandTag, error) {
	l.sending.Lock()
	defer l.sending.Unlock()
	tx, err := l.open(ctx)
	if err != nil {
		return pgconn.CommandTag{}, err
	}
	defer l.noteState()
	br, err := l.flushBefore(ctx, tx, &sql, &args)
	if err != nil && !undoes(sql) { // a ROLLBACK also undoes the rows that could not be sent
		return pgconn.CommandTag{}, err
	}
	if br == nil {
		return tx.Exec(ctx, sql, args...)
	}
	tag, err := br.Exec()
	return tag, cmp.Or(err, br.Close())
}

// undoes reports whether sql rolls back, to a savepoint or completely.
func undoes(sql string) bool { return firstWord(sql) == "ROLLBACK" }

func (l *lent) Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error) {
	tx, err := l.open(ctx)
	if err == nil {
		err = l.inspect(sql)
	}
	if err != nil {
		return failedRows(err)
	}
	br, err := l.flushBefore(ctx, tx, &sql, &args)
	if err != nil {
		return failedRows(err)
	}
	ask := tx.Query
	if br != nil {
		ask = func(context.Context, string, ...any) (pgx.Rows, error) { return br.Query() }
	}
	rows, err := ask(ctx, sql, args...)
	seen := &lentRows{Rows: rows, of: l, in: br}
	if err != nil {
		seen.end()
	}
	return seen, err
}

func failedRows(err error) (pgx.Rows, error) {
	return pgx.FailedBatchResults(&pgx.Batch{}, err).Query()
}

func (l *lent) QueryRow(ctx context.Context, sql string, args ...any) pgx.Row {
	rows, _ := l.Query(ctx, sql, args...) // the row has the error
	return lentRow{rows}
}

func (l *lent) SendBatch(ctx context.Context, b *pgx.Batch) pgx.BatchResults {
	tx, err := l.open(ctx)
	if err != nil {
		return pgx.FailedBatchResults(b, err)
	}
	// pgx itself refuses a batch that begins a transaction
	if b.Len() == 0 || pgx.FailedBatchResults(b, errEnded).Tx() != nil {
		return tx.SendBatch(ctx, b)
	}
	for _, q := range b.QueuedQueries {
		if err := l.inspect(q.SQL); err != nil {
			return pgx.FailedBatchResults(b, err)
		}
	}
	a := l.takeBuffered()
	if a.empty() {
		return &lentBatch{BatchResults: tx.SendBatch(ctx, b), of: l}
	}
	first := *b.QueuedQueries[0]
	fits, err := l.fitsPipeline(ctx, tx.Conn(), &first.SQL, &first.Arguments)
	if err != nil {
		l.rebuffer(a)
		return pgx.FailedBatchResults(b, err)
	}
	if !fits {
		if err := l.send(ctx, tx, a); err != nil {
			return pgx.FailedBatchResults(b, err)
		}
		return &lentBatch{BatchResults: tx.SendBatch(ctx, b), of: l}
	}
	br, err := l.sendWith(ctx, tx, a, b.QueuedQueries)
	if err != nil {
		return pgx.FailedBatchResults(b, err)
	}
	return &lentBatch{BatchResults: br, of: l}
}

func (l *lent) CopyFrom(ctx context.Context, table pgx.Identifier, columns []string,
	from pgx.CopyFromSource) (int64, error) {
	tx, err := l.open(ctx)
	if err == nil {
		err = l.flush(ctx, tx) // a pipeline cannot include COPY
	}
	if err != nil {
		return 0, err
	}
	defer l.noteState()
	return tx.CopyFrom(ctx, table, columns, from)
}

// Prepare does not send the buffered rows first, because it reads no rows.
func (l *lent) Prepare(ctx context.Context, name, sql string) (*pgconn.StatementDescription, error) {
	tx, err := l.open(ctx)
	if err == nil {
		err = l.inspect(sql)
	}
	if err != nil {
		return nil, err
	}
	defer l.noteState()
	return tx.Prepare(ctx, name, sql)
}

// flushBefore sends the buffered rows before a statement. If the statement fits into the same pipeline,
// flushBefore sends both, and the next result of the returned batch is the result of the statement. If the
// returned batch is nil, the caller must send the statement.
func (l *lent) flushBefore(ctx context.Context, tx pgx.Tx, sql *string,
	args *[]any) (pgx.BatchResults, error) {
	a := l.takeBuffered()
	if a.empty() {
		return nil, nil
	}
	fits, err := l.fitsPipeline(ctx, tx.Conn(), sql, args)
	if err != nil {
		l.rebuffer(a)
		return nil, err
	}
	if !fits {
		return nil, l.send(ctx, tx, a)
	}
	return l.sendWith(ctx, tx, a, []*pgx.QueuedQuery{{SQL: *sql, Arguments: *args}})
}

// sendWith sends the rows of a and then the queries qs in one pipeline. The next result of the returned
// batch is the result of the first query.
func (l *lent) sendWith(ctx context.Context, tx pgx.Tx, a ahead,
	qs []*pgx.QueuedQuery) (pgx.BatchResults, error) {
	calls := l.callsOf(a)
	b := &pgx.Batch{}
	for _, c := range calls {
		b.Queue(c.SQL, c.Args...)
	}
	b.QueuedQueries = append(b.QueuedQueries, qs...)
	br := tx.SendBatch(ctx, b)
	var err error
	for range calls {
		if err == nil {
			_, err = br.Exec()
		}
	}
	if err == nil {
		return br, l.finishSend(a, nil)
	}
	_ = br.Close()
	sent := l.finishSend(a, err)
	if bad := (pgx.ErrPreprocessingBatch{}); errors.As(err, &bad) &&
		!slices.ContainsFunc(calls, func(c sqlexec.Call) bool { return c.SQL == bad.SQL() }) {
		return nil, bad.Unwrap() // the error of the statement
	}
	return nil, sent
}

// longestAlong is the maximum length in bytes of a statement without arguments in a pipeline. pgx prepares
// and caches each statement of a pipeline, so a long text would use much memory.
const longestAlong = 1 << 10

// fitsPipeline reports whether a statement has the same effect in a pipeline after the rows as alone. pgx
// closes the connection if an argument in a pipeline does not match its parameter, so fitsPipeline checks
// the arguments first.
func (l *lent) fitsPipeline(ctx context.Context, conn *pgx.Conn, sql *string, args *[]any) (bool, error) {
	switch firstWord(*sql) {
	case "SELECT", "INSERT", "UPDATE", "DELETE", "WITH", "MERGE", "VALUES", "SAVEPOINT", "RELEASE", "ROLLBACK",
		"SET", "LOCK", "TRUNCATE":
	default:
		return false, nil // for example the name of a prepared statement
	}
	if !rewritten(ctx, conn, sql, args) {
		return false, nil
	}
	if len(*args) == 0 && (len(*sql) > longestAlong ||
		strings.Contains(strings.TrimRight(*sql, "; \t\r\n"), ";")) {
		return false, nil // several statements need another protocol
	}
	switch conn.Config().DefaultQueryExecMode {
	case pgx.QueryExecModeExec, pgx.QueryExecModeSimpleProtocol:
		return true, nil // pgx checks all arguments before it sends anything
	}
	if len(*args) == 0 && !strings.Contains(*sql, "$") {
		return true, nil
	}
	what, err := described(ctx, conn, *sql)
	if err != nil {
		return false, err
	}
	return (&pgx.ExtendedQueryBuilder{}).Build(conn.TypeMap(), what, *args) == nil, nil
}

// rewritten replaces named arguments in sql and args by positions. It returns false if args have an option
// that a pipeline does not support, or a name that causes an error in pgx.
func rewritten(ctx context.Context, conn *pgx.Conn, sql *string, args *[]any) bool {
	for i, arg := range (*args)[:min(len(*args), 4)] {
		switch arg := arg.(type) {
		case pgx.QueryExecMode, pgx.QueryResultFormats, pgx.QueryResultFormatsByOID:
			return false
		case pgx.QueryRewriter:
			if i > 0 {
				continue
			}
			text, list, err := arg.RewriteQuery(ctx, conn, *sql, (*args)[1:])
			if err != nil {
				return false
			}
			*sql, *args = text, list
			return true
		}
	}
	return true
}

const (
	describedKey  = "skald: statements of handlers"
	mostDescribed = 256
)

// described returns the types of the parameters of a statement: one round trip at its first use on a
// connection.
func described(ctx context.Context, conn *pgx.Conn, sql string) (*pgconn.StatementDescription, error) {
	data := conn.PgConn().CustomData()
	known, _ := data[describedKey].(map[string]*pgconn.StatementDescription)
	if what := known[sql]; what != nil {
		return what, nil
	}
	what, err := conn.PgConn().Prepare(ctx, "", sql, nil)
	if err != nil {
		return nil, err
	}
	if known == nil || len(known) >= mostDescribed {
		known = map[string]*pgconn.StatementDescription{}
		data[describedKey] = known
	}
	known[sql] = what
	return what, nil
}

func firstWord(sql string) string {
	sql = strings.TrimLeft(sql, " \t\r\n(")
	end := strings.IndexFunc(sql, func(r rune) bool { return r|0x20 < 'a' || r|0x20 > 'z' })
	if end < 0 {
		end = len(sql)
	}
	return strings.ToUpper(sql[:end])
}
