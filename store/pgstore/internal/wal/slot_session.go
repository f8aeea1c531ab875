package wal

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strconv"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgproto3"

	"github.com/skald-go/skald/internal/backoff"
	"github.com/skald-go/skald/store/pgstore/internal/sqlexec"
)

// Listen reads the slot until ctx is done. The Run of a relay calls it. If Listen cannot read the slot, it
// logs that once and retries every few seconds. Meanwhile the relay polls.
func (r *Reader) Listen(ctx context.Context, log *slog.Logger) {
	state := &stateLog{Reader: r, log: log}
	for fails := 1; ctx.Err() == nil; fails++ {
		began := time.Now()
		err := r.session(ctx, state)
		if ctx.Err() != nil {
			break
		}
		if time.Since(began) > 10*time.Second {
			fails = 1
		}
		if r.noteClosed(err, false); fails > 1 || !sqlexec.Outage(err) && !errors.Is(err, errChanged) {
			// not after the first outage, which may be a single lost connection
			state.lost(ctx, err)
		}
		pause(ctx, backoff.After(fails, 50*time.Millisecond, 4*time.Second))
	}
	r.noteClosed(nil, false)
}

// errChanged ends a stream that may have missed commits. At the begin of the next stream, the relay looks for
// rows.
var errChanged = errors.New("commits may have been missed")

// stateLog logs once that there are no notifications, and once that they work again.
type stateLog struct {
	*Reader
	log    *slog.Logger
	logged bool
}

func (l *stateLog) lost(ctx context.Context, why error) {
	if !l.logged {
		l.logged = true
		l.log.WarnContext(ctx, "relay: no notifications of commits; it polls meanwhile", "slot",
			l.o.Slot, "error", why)
	}
}

func (l *stateLog) restored(ctx context.Context) {
	if l.logged {
		l.logged = false
		l.log.InfoContext(ctx, "relay: notifications of commits work again", "slot", l.o.Slot)
	}
}

func pause(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}

// session connects, prepares the slot and reads it until the connection fails.
func (r *Reader) session(ctx context.Context, state *stateLog) error {
	conn, err := r.connect(ctx)
	if err != nil {
		return err
	}
	defer func() {
		end, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
		defer cancel()
		_ = conn.Close(end)
	}()
	is, number, err := r.prepare(ctx, &walSlot{r, conn}, state)
	if err != nil {
		return err
	}
	hijacked, err := StartStream(ctx, conn, r.o.Slot)
	if err != nil {
		return fmt.Errorf("read slot %s: %w", r.o.Slot, err)
	}
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	r.noteOpen(is, number, stop)
	state.restored(ctx)
	if err := (&Stream{Conn: hijacked, Told: r.Receive, At: r.position}).follow(ctx); err != nil {
		return fmt.Errorf("read slot %s: %w", r.o.Slot, err)
	}
	return nil
}

// connect opens a connection for replication.
func (r *Reader) connect(ctx context.Context) (*pgconn.PgConn, error) {
	ctx, cancel := context.WithTimeout(ctx, deadAfter)
	defer cancel()
	config := r.config.Copy()
	if r.o.BeforeConnect != nil {
		if err := r.o.BeforeConnect(ctx, config); err != nil {
			return nil, fmt.Errorf("before connecting: %w", err)
		}
	}
	conn, err := pgconn.ConnectConfig(ctx, &config.Config)
	if err != nil {
		return nil, addRemedy(err, "the role needs REPLICATION: ALTER ROLE … REPLICATION")
	}
	return conn, nil
}

// StartStream starts replication from slot, with the publication of the same name.
func StartStream(ctx context.Context, conn *pgconn.PgConn, slot string) (*pgconn.HijackedConn, error) {
	ctx, cancel := context.WithTimeout(ctx, deadAfter)
	defer cancel()
	const start = `START_REPLICATION SLOT %s LOGICAL 0/0 (proto_version '1', publication_names %s, binary 'true')`
	name := sqlexec.Quoted(slot)
	conn.Frontend().Send(&pgproto3.Query{String: fmt.Sprintf(start, name, sqlexec.Quote(name))})
	if err := conn.Frontend().Flush(); err != nil {
		return nil, err
	}
	for {
		msg, err := conn.ReceiveMessage(ctx)
		if err != nil {
			return nil, err
		}
		switch msg := msg.(type) {
		case *pgproto3.CopyBothResponse:
			return conn.Hijack()
		case *pgproto3.ErrorResponse:
			return nil, pgconn.ErrorResponseToPgError(msg)
		}
	}
}

// prepare creates the publication and the slot if they are missing. It waits until no other session reads
// the slot, and moves the slot to the present position of the server. It returns the number of a transaction
// that is younger than any commit before that position.
func (r *Reader) prepare(ctx context.Context, s *walSlot, state *stateLog) (database origin, number uint32,
	err error) {
	if err := s.name(ctx); err != nil {
		return database, 0, err
	}
	log, waits := state.log, false
	for ctx.Err() == nil {
		st, err := s.state(ctx)
		switch {
		case err != nil:
			return database, 0, err
		case !st.there && st.published != "":
			r.noteClosed(fmt.Errorf("slot %s is being created, which waits for open transactions", r.o.Slot),
				false)
			if err := s.make(ctx, st.failover); err != nil {
				return database, 0, err
			}
			log.InfoContext(ctx, "relay: created a replication slot", "slot", r.o.Slot, "failover",
				st.failover)
		case st.there && st.lost:
			if err := s.drop(ctx); err != nil {
				return database, 0, err
			}
			log.WarnContext(ctx, "relay: the server invalidated the replication slot; creating it again",
				"slot", r.o.Slot)
		case st.active:
			if r.noteClosed(nil, true); !waits {
				waits = true
				log.InfoContext(ctx, "relay: another session reads the replication slot: standing by",
					"slot", r.o.Slot)
			}
			pause(ctx, standbyEach)
		case st.published == "":
			why := fmt.Errorf("publication %s does not have all rows of the outbox: ALTER PUBLICATION %s ADD TABLE %sskald_outbox, with publish = 'insert' and without WHERE",
				r.o.Slot, sqlexec.Quoted(r.o.Slot), r.pg.Prefix)
			r.noteClosed(why, false)
			state.lost(ctx, why)
			if st.there {
				_ = s.advance(ctx) // so that the server can delete old WAL
			}
			pause(ctx, repairEach)
		default:
			number, busy, err := s.catchUp(ctx)
			if err != nil || !busy {
				return origin{st.server, st.published}, number, err
			}
		}
	}
	return database, 0, context.Cause(ctx)
}

// walSlot sends statements about the slot through a connection for replication.
type walSlot struct {
	*Reader
	conn *pgconn.PgConn
}

// queryRow sends one statement and returns the first row.
func (s *walSlot) queryRow(ctx context.Context, sql string) ([]string, error) {
	ctx, cancel := context.WithTimeout(ctx, deadAfter)
	defer cancel()
	return s.askLong(ctx, sql)
}

// askLong does as ask for a statement that waits for other transactions.
func (s *walSlot) askLong(ctx context.Context, sql string) ([]string, error) {
	results, err := s.conn.Exec(ctx, sql).ReadAll()
	if err != nil {
		return nil, err
	}
	i := slices.IndexFunc(results, func(r *pgconn.Result) bool { return len(r.Rows) > 0 })
	if i < 0 {
		return nil, nil
	}
	row := results[i].Rows[0]
	out := make([]string, len(row))
	for i := range row {
		out[i] = string(row[i])
	}
	return out, nil
}

func (s *walSlot) name(ctx context.Context) error {
	if s.text != nil {
		return nil
	}
	slot := s.o.Slot
	if slot == "" {
		row, err := s.queryRow(ctx, ReaderStatements(s.pg, "")["WALName"])
		if err != nil || len(row) == 0 {
			return fmt.Errorf("name the slot: %w", err)
		}
		slot = row[0]
	}
	s.Reader.name(slot)
	return nil
}

// slotState is the state of the slot and its publication.
type slotState struct {
	server, published             string
	there, active, lost, failover bool
}

// state reads the state of the slot and creates a missing publication. It returns an error if a relay cannot
// use the slot.
func (s *walSlot) state(ctx context.Context) (st slotState, err error) {
	row, err := s.queryRow(ctx, s.text["WALState"])
	if err != nil || len(row) != 11 {
		return st, fmt.Errorf("look at slot %s: %w", s.o.Slot, err)
	}
	version, err := strconv.Atoi(row[2])
	if err != nil {
		return st, fmt.Errorf("look at slot %s: %w", s.o.Slot, err)
	}
	yes := func(i int) bool { return row[i] == "t" }
	st = slotState{server: row[1], published: row[4], there: yes(5), active: row[9] != "0",
		lost: row[10] == "lost", failover: version >= 170000}
	switch {
	case row[0] != "logical":
		return st, fmt.Errorf("wal_level is %s: ALTER SYSTEM SET wal_level = logical, and restart the server",
			row[0])
	case row[1] == "":
		return st, errors.New("the server is a standby: let the URL lead to the primary, as by target_session_attrs=read-write")
	case st.there && (row[6] != "pgoutput" || !yes(8)):
		return st, fmt.Errorf("slot %s exists already, with plugin %q in database %q: use another --slot", s.o.Slot,
			row[6], row[7])
	case !yes(3):
		if err := s.publish(ctx); err != nil {
			return st, err
		}
		return s.state(ctx)
	}
	return st, nil
}

func (s *walSlot) publish(ctx context.Context) error {
	_, err := s.queryRow(ctx, s.text["WALPublish"])
	if sqlexec.SQLState(err) == "42710" { // another relay created it
		return nil
	}
	return addRemedy(err, "let the tables' owner run: "+s.text["WALPublish"])
}

func (s *walSlot) make(ctx context.Context, failover bool) error {
	text := s.text["WALMakeSlot"]
	if failover {
		text = s.text["WALMakeFailoverSlot"]
	}
	ctx, cancel := context.WithTimeout(ctx, makeMost)
	defer cancel()
	_, err := s.askLong(ctx, text)
	if sqlexec.SQLState(err) == "42710" {
		return nil
	}
	return addRemedy(err, "let a superuser or a role with REPLICATION run: "+text)
}

func (s *walSlot) drop(ctx context.Context) error {
	_, err := s.queryRow(ctx, s.text["WALDropSlot"])
	// another relay dropped it, or created it again
	if code := sqlexec.SQLState(err); code == "42704" || code == "55006" {
		return nil
	}
	return err
}

func (s *walSlot) advance(ctx context.Context) error {
	_, err := s.queryRow(ctx, s.text["WALAdvance"])
	return err
}

// catchUp moves the slot to the present position, and then gets a new transaction number. The stream has
// every commit after that position; transactions that committed earlier have smaller numbers. If inUse is
// true, another session uses or changed the slot.
func (s *walSlot) catchUp(ctx context.Context) (number uint32, inUse bool, err error) {
	switch err := s.advance(ctx); {
	case sqlexec.SQLState(err) == "55006", sqlexec.SQLState(err) == "42704":
		return 0, true, nil
	case sqlexec.SQLState(err) == "55000": // the slot is invalid
		return 0, true, s.drop(ctx)
	case err != nil:
		return 0, false, fmt.Errorf("advance slot %s: %w", s.o.Slot, err)
	}
	row, err := s.queryRow(ctx, s.text["WALNumber"])
	if err != nil || len(row) == 0 {
		return 0, false, fmt.Errorf("take a transaction number: %w", err)
	}
	n, err := strconv.ParseUint(row[0], 10, 64)
	return uint32(n), false, err
}

// addRemedy adds remedy to err if a right is missing, and another remedy if a limit of the server is
// reached.
func addRemedy(err error, remedy string) error {
	switch sqlexec.SQLState(err) {
	case "53400":
		remedy = "raise max_replication_slots"
	case "53300":
		remedy = "raise max_wal_senders or max_connections"
	case "42501", "28000":
	default:
		return err
	}
	return fmt.Errorf("%w; %s", err, remedy)
}
