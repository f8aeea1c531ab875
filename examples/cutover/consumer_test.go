package cutover

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"os"
	"os/signal"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/skald-go/skald"
	"github.com/skald-go/skald/broker"
	"github.com/skald-go/skald/broker/kafkabroker"
	"github.com/skald-go/skald/inbox"
	"github.com/skald-go/skald/store"
	"github.com/skald-go/skald/store/pgstore"
)

// A setting is what both kinds of consumers are told.
type setting struct {
	kind, name          string // "old" or "new"
	database, seeds     string
	topic, retry, group string
}

const roleEnv = "CUTOVER_CONSUMER"

func (s setting) env() string {
	return roleEnv + "=" + strings.Join([]string{s.kind, s.name, s.database, s.seeds, s.topic, s.retry,
		s.group}, "\x1f")
}

func settingOf(text string) (setting, error) {
	f := strings.Split(text, "\x1f")
	if len(f) != 7 {
		return setting{}, fmt.Errorf("%s: %q", roleEnv, text)
	}
	return setting{f[0], f[1], f[2], f[3], f[4], f[5], f[6]}, nil
}

// consume is a process: it works until it is told to stop, or killed.
func consume(text string) error {
	s, err := settingOf(text)
	if err != nil {
		return err
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	pool, err := pgxpool.New(ctx, s.database)
	if err != nil {
		return err
	}
	defer pool.Close()
	if s.kind == "old" {
		return s.byHand(ctx, pool)
	}
	return s.inbox(ctx, pool)
}

// errFrozen is why a movement is refused, for good.
var errFrozen = errors.New("the account is frozen")

// effect is what a message does, in whoever's transaction. Now and then it fails.
func (s setting) effect(ctx context.Context, tx pgx.Tx, id, account string) error {
	if account == frozen {
		return errFrozen
	}
	_, err := tx.Exec(ctx, `INSERT INTO effect (message_id, kind) VALUES ($1, $2)`, id, s.kind)
	if err == nil {
		_, err = tx.Exec(ctx, `UPDATE account SET movements = movements + 1 WHERE id = $1`, account)
	}
	if err == nil && rand.IntN(20) == 0 {
		err = errors.New("now and then it fails")
	}
	return err
}

const (
	idHeader      = "message-id"
	typeHeader    = "kind"
	attemptHeader = "attempts"
)

// inbox is the consumer that is new.
func (s setting) inbox(ctx context.Context, pool *pgxpool.Pool) error {
	bus, err := kafkabroker.New(s.seeds, &kafkabroker.Options{Envelope: &broker.Envelope{
		// one source, whichever topic it comes from
		ID: "header:" + idHeader, Type: "header:" + typeHeader, Source: "/bank"}})
	if err != nil {
		return err
	}
	in := inbox.New(pgstore.New(pool, nil), bus, s.group, &inbox.Options{
		Timeouts: inbox.Timeouts{Handle: 2 * time.Second,
			Wait: time.Second}, // what a killed one had claimed is free 10 s behind both
		Instance: inbox.Instance{Member: s.name},
		Identity: inbox.Identity{Attempt: inbox.AttemptByHeader(attemptHeader)},
		Retry:    inbox.Retry{MaxInterval: time.Second},
		Logger:   slog.New(slog.NewTextHandler(os.Stderr, nil))})
	in.LegacyDedup(processed)
	for _, topic := range []string{s.topic, s.retry} {
		in.Handle(topic, "moved", func(ctx context.Context, tx pgx.Tx, m skald.Message) error {
			err := s.effect(ctx, tx, m.ID, string(m.Key))
			if errors.Is(err, errFrozen) {
				return skald.Reject(err)
			}
			return err
		})
	}
	return skald.Run(ctx, in)
}

// processed asks the team's table about a message, and notes it there.
func processed(ctx context.Context, tx pgx.Tx, id store.Identity, _ skald.Message) (known bool, err error) {
	tag, err := tx.Exec(ctx, `INSERT INTO processed_messages (message_id) VALUES ($1) ON CONFLICT DO NOTHING`,
		id.ID)
	return tag.RowsAffected() == 0, err
}

// byHand is the consumer of before: the dedup table is written with the effect, a message that fails goes to
// a retry topic, and offsets are committed behind it.
func (s setting) byHand(ctx context.Context, pool *pgxpool.Pool) error {
	cl, err := kgo.NewClient(kgo.SeedBrokers(strings.Split(s.seeds, ",")...), kgo.ConsumerGroup(s.group),
		kgo.ConsumeTopics(s.topic, s.retry),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()), kgo.DisableAutoCommit(),
		kgo.SessionTimeout(6*time.Second), kgo.HeartbeatInterval(500*time.Millisecond))
	if err != nil {
		return err
	}
	defer cl.Close()
	for ctx.Err() == nil {
		fetched := cl.PollRecords(ctx, 20)
		for _, r := range fetched.Records() {
			if err := s.handle(ctx, pool, cl, r); err != nil {
				return err // whoever starts it again has what is not committed
			}
		}
		if len(fetched.Records()) > 0 {
			// On a slow machine its session may have ended: then they come again, to whoever has them now,
			// and are known.
			if err := cl.CommitRecords(context.WithoutCancel(ctx), fetched.Records()...); err != nil {
				fmt.Fprintln(os.Stderr, "commit:", err)
			}
		}
	}
	return nil
}

func (s setting) handle(ctx context.Context, pool *pgxpool.Pool, cl *kgo.Client, r *kgo.Record) error {
	ctx = context.WithoutCancel(ctx) // what was fetched is finished
	id := header(r, idHeader)
	err := pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) error {
		tag, err := tx.Exec(ctx,
			`INSERT INTO processed_messages (message_id) VALUES ($1) ON CONFLICT DO NOTHING`, id)
		if err != nil || tag.RowsAffected() == 0 {
			return err
		}
		if err = s.effect(ctx, tx, id, string(r.Key)); errors.Is(err, errFrozen) {
			_, err = tx.Exec(ctx, `INSERT INTO refusal (message_id) VALUES ($1)`, id)
		}
		return err
	})
	if err == nil {
		return nil
	}
	attempts, _ := strconv.Atoi(header(r, attemptHeader))
	again := &kgo.Record{Topic: s.retry, Key: r.Key, Value: r.Value, Headers: []kgo.RecordHeader{
		{Key: idHeader, Value: []byte(id)}, {Key: typeHeader, Value: []byte("moved")},
		{Key: attemptHeader, Value: []byte(strconv.Itoa(attempts + 1))}}}
	return cl.ProduceSync(ctx, again).FirstErr()
}

func header(r *kgo.Record, name string) string {
	for _, h := range r.Headers {
		if h.Key == name {
			return string(h.Value)
		}
	}
	return ""
}
