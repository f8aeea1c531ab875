package main_test

import (
	"context"
	"fmt"
	"path/filepath"
	"testing"

	"github.com/jackc/pgx/v5"
)

// Whatever is locked doctor answers, and says by whom: a table of Skald's that is locked, a prepared
// transaction that was forgotten.
func TestDoctorWhileTablesAreLocked(t *testing.T) {
	t.Parallel()
	at, conn := postgres(t)
	start(t, nil, "migrate", "--store", at).expect(0)
	var pid int
	must(t, conn.QueryRow(t.Context(), "SELECT pg_backend_pid()").Scan(&pid))
	tx, err := conn.Begin(t.Context())
	must(t, err)
	do(t, tx.Conn(), "LOCK TABLE skald_parked IN ACCESS EXCLUSIVE MODE")
	waiter, err := pgx.Connect(t.Context(), at)
	must(t, err)
	ended := make(chan error, 1)
	ctx, stop := context.WithCancel(t.Context())
	go func() {
		_, err := waiter.Exec(ctx, "SELECT count(*) FROM skald_parked")
		ended <- err
	}()
	watch, err := pgx.Connect(t.Context(), at)
	must(t, err)
	defer func() { must(t, watch.Close(context.Background())) }()
	for waits := false; !waits; {
		must(t, watch.QueryRow(t.Context(),
			"SELECT EXISTS (SELECT FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock')").Scan(&waits))
	}
	doctor(t, 8, map[string]string{"store/blocked": fmt.Sprintf("warning session %d", pid),
		"store/backlog": "failed no answer within 2s", "store/settings": "failed no answer"}, "--store", at)
	must(t, tx.Rollback(t.Context()))
	must(t, <-ended)
	stop()
	must(t, waiter.Close(context.Background()))
	doctor(t, 0, map[string]string{"store/blocked": "ok", "store/prepared transactions": "ok",
		"store/free disk": "any GiB are free"}, "--store", at)
}

// A consumer that gives no sign of session has failed; one that was given up for a week is a warning; rows
// that nobody relays have failed.
func TestDoctorOnConsumers(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "shop.db")
	at := "sqlite:" + path
	start(t, nil, "migrate", "--store", at).expect(0)
	heard := func(consumer, seconds string) {
		exec1(t, path,
			fmt.Sprintf("INSERT INTO skald_consumer (consumer, heard_at, progress_at) SELECT '%s', n, n FROM (SELECT CAST(unixepoch('subsec') * 1000 AS INTEGER) - %s * 1000 AS n)", consumer, seconds))
	}
	heard("mail", "1")
	doctor(t, 0, map[string]string{"store/consumer mail": "ok last heartbeat",
		"store/free disk": "any GiB are free"}, "--store", at)
	heard("billing", "600")
	doctor(t, 8, map[string]string{"store/consumer billing": "failed SkaldConsumerGone",
		"store/consumer mail": "ok"}, "--store", at)
	doctor(t, 0, map[string]string{"store/consumer mail": "ok"}, "--store", at, "--consumer", "mail")
	heard("old", "864000")
	doctor(t, 0, map[string]string{"store/consumer old": "warning given up"}, "--store", at,
		"--consumer", "old")
}
