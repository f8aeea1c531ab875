package redislock_test

import (
	"bufio"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/redis/go-redis/v9"

	"github.com/skald-go/skald/internal/need"
	"github.com/skald-go/skald/lock"
	"github.com/skald-go/skald/rediscmd/goredis"
	"github.com/skald-go/skald/redislock"
	"github.com/skald-go/skald/store/pgstore"
)

// story is the environment variable with names for the paused process: the schema and the prefix of the
// leases.
const story = "SKALD_TEST_PAUSE_STORY"

const leaseKey = "order\x007"

func TestMain(m *testing.M) {
	if name := os.Getenv(story); name != "" {
		os.Exit(paused(name))
	}
	os.Exit(m.Run())
}

// ledger is the store of the story: PostgreSQL and Redis.
type ledger struct {
	pool   *pgxpool.Pool
	redis  *redis.Client
	schema string
}

func open(ctx context.Context, postgres, at, schema string) (*ledger, error) {
	o, err := redis.ParseURL(at)
	if err != nil {
		return nil, err
	}
	pool, err := pgxpool.New(ctx, postgres)
	return &ledger{pool, redis.NewClient(o), schema}, err
}

func (l *ledger) locker(ttl time.Duration) (*redislock.Locker, error) {
	return redislock.New(goredis.New(l.redis), &redislock.Options{TTL: ttl, Wait: 5 * time.Minute,
		Timeout: time.Minute, Prefix: l.schema + ":", Logger: quiet()})
}

// work is the long work of one process. It ignores its context, as a process that is paused at the worst
// moment does.
func (l *ledger) work(ctx context.Context, who string, ttl time.Duration, long func()) error {
	k, err := l.locker(ttl)
	if err != nil {
		return err
	}
	w := lock.Work{Scope: "export", Key: who, Entities: []lock.Entity{{Space: "order", Key: "7"}}}
	_, _, err = redislock.Do(ctx, k, pgstore.New(l.pool, &pgstore.Options{Schema: l.schema}), w,
		func(context.Context, lock.Tokens) (string, error) {
			long()
			return who, nil
		}, func(ctx context.Context, tx pgx.Tx, who string) (string, error) {
			_, err := tx.Exec(ctx, "INSERT INTO "+l.schema+".exported VALUES ($1)", who)
			return who, err
		})
	return err
}

// paused is process A. It prints its progress, and continues when it reads a line.
func paused(name string) int {
	l, err := open(context.Background(), os.Getenv("SKALD_TEST_POSTGRES"), os.Getenv("SKALD_TEST_REDIS"),
		name)
	if err == nil {
		err = l.work(context.Background(), "A", 300*time.Millisecond, func() {
			fmt.Println("working")
			_, _ = bufio.NewReader(os.Stdin).ReadString('\n')
		})
	}
	var overtaken *lock.OvertakenError
	switch {
	case errors.As(err, &overtaken):
		fmt.Println("overtaken")
	case err != nil:
		fmt.Println("failed:", err)
	default:
		fmt.Println("written")
	}
	return 0
}

// TestPausedHolder plays these steps: A has the lease; A is paused for longer than that; the lease ends; B
// gets it; A continues, finishes and releases the lease that it lost; B still has its lease. Finally the
// database refuses A's write, which no lease can do.
func TestPausedHolder(t *testing.T) {
	postgres, at := need.Postgres(t), need.Redis(t)
	schema := "pause_" + strings.ToLower(rand.Text()[:10])
	l, err := open(t.Context(), postgres, at, schema)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_, err := l.pool.Exec(context.Background(), "DROP SCHEMA "+schema+" CASCADE")
		l.pool.Close()
		if err = errors.Join(err, l.redis.Close()); err != nil {
			t.Error(err)
		}
	})
	if _, err := pgstore.Migrate(t.Context(), l.pool, &pgstore.MigrateOptions{Schema: schema}); err != nil {
		t.Fatal(err)
	}
	if _, err := l.pool.Exec(t.Context(), "CREATE TABLE "+schema+
		".exported (who text NOT NULL)"); err != nil {
		t.Fatal(err)
	}

	a := exec.Command(os.Args[0])
	a.Env = append(os.Environ(), story+"="+schema, "SKALD_TEST_POSTGRES="+postgres, "SKALD_TEST_REDIS="+at)
	in, err1 := a.StdinPipe()
	out, err2 := a.StdoutPipe()
	if err := errors.Join(err1, err2, a.Start()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = a.Process.Kill() })
	said := bufio.NewScanner(out)
	if !said.Scan() || said.Text() != "working" {
		t.Fatalf("A prints %q", said.Text())
	}
	tokenOfA := l.redis.Get(t.Context(), schema+":"+leaseKey).Val()
	if err := a.Process.Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}

	err = l.work(t.Context(), "B", time.Hour, func() { // it waits for A's lease to end
		tokenOfB := l.redis.Get(t.Context(), schema+":"+leaseKey).Val()
		if tokenOfB == "" || tokenOfB == tokenOfA {
			t.Errorf("B has the lease with the token %q, A had %q", tokenOfB, tokenOfA)
		}
		if err := a.Process.Signal(syscall.SIGCONT); err != nil {
			t.Error(err)
		}
		if _, err := fmt.Fprintln(in, "go on"); err != nil {
			t.Error(err)
		}
		said.Scan()
		if _ = a.Wait(); said.Text() != "overtaken" {
			t.Errorf("A prints %q", said.Text())
		}
		if now := l.redis.Get(t.Context(), schema+":"+leaseKey).Val(); now != tokenOfB {
			t.Errorf("A's release left the token %q of B's lease %q", now, tokenOfB)
		}
	})
	if err != nil {
		t.Errorf("B: %v", err)
	}
	var written string
	if err := l.pool.QueryRow(t.Context(), "SELECT string_agg(who, ' ') FROM "+schema+
		".exported").Scan(&written); err != nil || written != "B" {
		t.Errorf("written: %q, %v", written, err)
	}
	if n := l.redis.Exists(t.Context(), schema+":"+leaseKey).Val(); n != 0 {
		t.Error("B's lease remains after its release")
	}
}
