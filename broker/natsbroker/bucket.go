// This file reads and creates the key-value bucket that stores the state of groups.

package natsbroker

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"github.com/nats-io/nuid"

	"github.com/skald-go/skald/broker"
	"github.com/skald-go/skald/broker/internal/feed"
)

const (
	name         = "skald"
	bucketStream = "KV_" + name        // the stream of the bucket
	subjects     = "$KV." + name + "." // the prefix of the subjects of keys
	incarnation  = "incarnation"
)

// row is the state of a partition of a group in the bucket. A member changes a row only at the revision that
// it has read. So a process that was suspended while another member took the partition cannot write.
type row struct {
	Member    string `json:"member,omitempty"` // the owner, or ""
	SessionID string `json:"life,omitempty"`
	Position  uint64 `json:"position"` // all messages up to here are finished
	Stream    string `json:"stream"`   // creation time of the stream; with another one, Position is invalid
}

// presence is the entry of a member in the bucket. A member renews it at intervals.
type presence struct {
	SessionID string        `json:"life"`
	Topics    []string      `json:"topics"`
	Session   time.Duration `json:"session"`
	feed.Claim
}

// stale returns true if a row has another revision than the one that was read. A bucket with replicas also
// returns a second code, while another client changes the row.
func stale(err error) bool {
	var answered *jetstream.APIError
	return errors.Is(err, jetstream.ErrKeyExists) || errors.As(err, &answered) &&
		slices.Contains([]jetstream.ErrorCode{
			jetstream.JSErrCodeStreamWrongLastSequence, jetstream.JSErrCodeStreamWrongLastSequenceConstant},
			answered.ErrorCode)
}

// bucketOpen returns the bucket, or an error if it does not exist or may lose rows. The function classify
// classifies errors of NATS.
func bucketOpen(ctx context.Context, js jetstream.JetStream, classify func(error) error) (jetstream.KeyValue,
	error) {
	kv, err := js.KeyValue(ctx, name)
	if errors.Is(err, jetstream.ErrBucketNotFound) {
		return nil, fmt.Errorf(
			"there is no key-value bucket %q: MakeTopics creates it with the topics: %w",
			name, broker.ErrNoTopic)
	}
	if err != nil {
		return nil, fmt.Errorf("read the bucket %q: %w", name, classify(err))
	}
	status, err := kv.Status(ctx)
	if err != nil {
		return nil, fmt.Errorf("read the bucket %q: %w", name, classify(err))
	}
	if status.TTL() > 0 || status.Config().Storage != jetstream.FileStorage {
		return nil, fmt.Errorf(
			"the bucket %q has a ttl or storage memory, so groups may lose their positions: %w",
			name, errUnsafe)
	}
	return kv, nil
}

// bucketMake creates the bucket and stores a random incarnation in it, if they are missing.
func bucketMake(ctx context.Context, js jetstream.JetStream, replicas int) error {
	kv, err := js.KeyValue(ctx, name)
	if errors.Is(err, jetstream.ErrBucketNotFound) {
		kv, err = js.CreateKeyValue(ctx, jetstream.KeyValueConfig{
			Bucket: name, Description: "Skald: this NATS, and how far groups have come", History: 1,
			Storage: jetstream.FileStorage, Replicas: replicas,
		})
	}
	if errors.Is(err, jetstream.ErrBucketExists) {
		kv, err = js.KeyValue(ctx, name)
	}
	if err == nil {
		_, err = kv.Create(ctx, incarnation, []byte(nuid.Next()))
	}
	if errors.Is(err, jetstream.ErrKeyExists) {
		return nil
	}
	return err
}

// keys returns the keys that match filter.
func keys(ctx context.Context, kv jetstream.KeyValue, filter string) (out []string, err error) {
	list, err := kv.ListKeysFiltered(ctx, filter)
	if err != nil {
		return nil, err
	}
	for key := range list.Keys() {
		out = append(out, key)
	}
	return out, nil
}

// errInUse is wrapped by errors about a group that has a member.
var errInUse = errors.New("it has a member")

// awaitGone waits until a member has left, or did not renew its presence for the time of its session. The
// function classify classifies errors of NATS.
func awaitGone(ctx context.Context, kv jetstream.KeyValue, key string, classify func(error) error) error {
	heard, since := uint64(0), time.Time{}
	for {
		e, err := kv.Get(ctx, key)
		var p presence
		switch {
		case errors.Is(err, jetstream.ErrKeyNotFound):
			return nil
		case err != nil && ctx.Err() != nil:
			return fmt.Errorf("%w: %w", errInUse, ctx.Err())
		case err != nil:
			return classify(err)
		case json.Unmarshal(e.Value(), &p) != nil:
			return nil // the presence has an unknown format
		case e.Revision() != heard:
			heard, since = e.Revision(), time.Now()
		case time.Since(since) > p.Session:
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("%w: %w", errInUse, ctx.Err())
		case <-time.After(100 * time.Millisecond):
		}
	}
}
