package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/skald-go/skald/saga"
	"github.com/skald-go/skald/store/pgstore"
)

const (
	// asEngine in the environment makes this program an engine that starts sagas itself: the database, the
	// lease and how many are in flight are the arguments.
	asEngine = "SKALD_BENCH_ENGINE"

	inFlight = 512
	// left are the sagas that the dead engine had: nobody else has written those that are as they were.
	left      = `create table left_behind as select name, key, version from skald_saga where ended_at is null`
	recovered = `select count(*), count(*) filter (where s.version = l.version), count(*) filter (where s.ended_at is null)
		from left_behind as l join skald_saga as s on s.name = l.name and s.key = l.key`

	takenOver, allEnded, leftThere = "seconds until taken over", "seconds until ended", "sagas in flight"
)

// beEngine starts sagas until it is killed.
func beEngine(url, lease, flight string) error {
	ctx := context.Background()
	pool, err := pgxpool.New(ctx, url)
	if err != nil {
		return err
	}
	d, err := time.ParseDuration(lease)
	if err != nil {
		return err
	}
	n, err := strconv.Atoi(flight)
	if err != nil {
		return err
	}
	s, pay := &sagas{pool, pgstore.New(pool, nil)}, payingTrips()
	e, err := saga.NewEngine[pgx.Tx](s.db, &saga.EngineOptions{Logger: quietly(), Lease: d}, pay)
	if err != nil {
		return err
	}
	ended := make(chan error, n+1)
	go func() { ended <- e.Run(ctx) }()
	for range n {
		go func() {
			for {
				if err := s.one(ctx, e, pay); err != nil {
					ended <- err
					return
				}
			}
		}()
	}
	return <-ended
}

// killed measures how long the sagas of an engine that is killed wait for another one, which stands by.
func (b *bench) killed(name string, lease time.Duration) contender {
	return contender{name: name, turn: func(ctx context.Context, m *meter) (err error) {
		s, err := b.sagas(ctx)
		if err != nil {
			return err
		}
		m.r.Concurrency = inFlight
		e, err := saga.NewEngine[pgx.Tx](s.db, &saga.EngineOptions{Logger: quietly(), Lease: lease},
			payingTrips())
		if err != nil {
			return err
		}
		if err := m.begin(ctx); err != nil {
			return err
		}
		if err := s.dies(ctx, lease); err != nil {
			return err
		}
		m.a = m.b.probe.snap(ctx) // the clock starts with the death, not with a wait for a quiet machine
		return s.takeOver(ctx, m, e)
	}}
}

// dies runs an engine in a process of its own, and kills it in the middle of its work.
func (s *sagas) dies(ctx context.Context, lease time.Duration) (err error) {
	exe, err := os.Executable()
	if err != nil {
		return err
	}
	cmd := exec.CommandContext(ctx, exe, s.pool.Config().ConnString(), lease.String(), strconv.Itoa(inFlight))
	cmd.Env, cmd.Stderr = append(os.Environ(), asEngine+"=1"), os.Stderr
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("start an engine: %w", err)
	}
	gone := make(chan error, 1)
	go func() { gone <- cmd.Wait() }()
	defer func() {
		if cmd.Process.Kill() == nil {
			<-gone
		}
	}()
	for done := 0; done < inFlight; {
		if err := s.pool.QueryRow(ctx, "select count(*) from skald_saga where status = 'done'").Scan(
			&done); err != nil {
			return err
		}
		select {
		case err := <-gone:
			return fmt.Errorf("the engine ended: %w", err)
		case <-time.After(50 * waitStep):
		}
	}
	return nil
}

// takeOver watches what the dead engine has left, from its death on.
func (s *sagas) takeOver(ctx context.Context, m *meter, e *saga.Engine[pgx.Tx]) error {
	stop, ended := start(ctx, e)
	defer stop()
	if _, err := s.pool.Exec(ctx, left); err != nil {
		return fmt.Errorf("look at what is left: %w", err)
	}
	m.r.Extra = map[string]float64{}
	for end := m.a.at.Add(m.b.limit + time.Minute); ; {
		var all, waiting, live int
		if err := s.pool.QueryRow(ctx, recovered).Scan(&all, &waiting, &live); err != nil {
			return fmt.Errorf("look at what is left: %w", err)
		}
		since := time.Since(m.a.at)
		if _, ok := m.r.Extra[takenOver]; !ok && waiting == 0 {
			m.r.Extra[takenOver] = since.Seconds()
		}
		if live == 0 && waiting == 0 {
			m.r.Extra[allEnded], m.r.Extra[leftThere] = since.Seconds(), float64(all)
			m.end(ctx, all)
			stop()
			return errors.Join(<-ended, s.paidThrice(ctx))
		}
		select {
		case err := <-ended:
			return fmt.Errorf("the engine ended: %w", err)
		case <-time.After(10 * waitStep):
		}
		if time.Now().After(end) {
			return fmt.Errorf("of %d sagas %d are not taken over, and %d have not ended", all, waiting, live)
		}
	}
}

// paidThrice: no saga has lost a row of a step, or has one twice.
func (s *sagas) paidThrice(ctx context.Context) error {
	var bad int64
	err := s.pool.QueryRow(ctx, `select count(*) from (
		select from skald_saga as s left join payment as p on p.msg_id = s.key group by s.key having count(p.msg_id) <> 3) as x`).Scan(&bad)
	if err == nil && bad > 0 {
		err = fmt.Errorf("%d sagas have not left three rows each", bad)
	}
	return err
}

func recoveries() comparison {
	const usual, short = "lease of 10 s, as it comes", "lease of 2 s"
	c := comparison{
		name:  "saga-recovery",
		title: fmt.Sprintf("an engine is killed (kill -9) with %d sagas in flight, and another one of the same lease goes on with them", inFlight),
		set: func(_ context.Context, b *bench) ([]contender, error) {
			return []contender{b.killed(usual, 10*time.Second), b.killed(short, 2*time.Second)}, nil
		},
	}
	for _, of := range []string{usual, short} {
		for _, what := range []string{leftThere, takenOver, allEnded} {
			c.bars = append(c.bars, bar{what: of + ": " + what, of: of, value: extra(what)})
		}
	}
	return c
}
