// This file stores the owner of a group in the bucket.

package natsbroker

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/skald-go/skald/broker"
	"github.com/skald-go/skald/broker/internal/feed"
)

// belongs returns an error if the group has another owner in the bucket than g.Owner. If the group has no
// owner, belongs stores g.Owner.
func (b *Broker) belongs(ctx context.Context, kv jetstream.KeyValue, g *broker.Group) error {
	if g.Owner == "" {
		return nil
	}
	for {
		is, rev, err := b.ownerOf(ctx, kv, g.Name)
		if err != nil || rev > 0 && is.ID != "" {
			return errors.Join(err, feed.Belongs(g, is))
		}
		if err = b.storeOwner(ctx, kv, g, rev); err == nil || !stale(err) || ctx.Err() != nil {
			return err
		}
	}
}

// ownerOf returns the owner of a group, and the revision of its key. If the group has no owner, the revision
// is 0.
func (b *Broker) ownerOf(ctx context.Context, kv jetstream.KeyValue, group string) (is feed.OwnerDatabase,
	rev uint64, err error) {
	e, err := kv.Get(ctx, ownerKey(group))
	if errors.Is(err, jetstream.ErrKeyNotFound) {
		return is, 0, nil
	}
	if err == nil {
		err = json.Unmarshal(e.Value(), &is)
	}
	if err != nil {
		return is, 0, fmt.Errorf("read the owner of group %q: %w", group, b.orUnavailable(err))
	}
	return is, e.Revision(), nil
}

func (b *Broker) storeOwner(ctx context.Context, kv jetstream.KeyValue, g *broker.Group, rev uint64) error {
	text, err := json.Marshal(feed.StoredOwner(g))
	if err == nil && rev == 0 {
		_, err = kv.Create(ctx, ownerKey(g.Name), text)
	} else if err == nil {
		_, err = kv.Update(ctx, ownerKey(g.Name), text, rev)
	}
	if err != nil {
		return fmt.Errorf("store the owner of group %q: %w", g.Name, b.orUnavailable(err))
	}
	return nil
}

// Adopt stores the new owner. Before that, it waits until the group's members have left or are dead, or until
// ctx ends.
func (b *Broker) Adopt(ctx context.Context, g broker.Group, from string) error {
	if !feed.OK(g.Name) {
		return fmt.Errorf("adopt group %q: %w", g.Name, errName)
	}
	kv, err := b.bucket(ctx)
	if err != nil {
		return fmt.Errorf("adopt group %q: %w", g.Name, err)
	}
	is, rev, err := b.ownerOf(ctx, kv, g.Name)
	if err != nil {
		return fmt.Errorf("adopt: %w", err)
	}
	if rev == 0 {
		return fmt.Errorf("adopt group %q: %w", g.Name, broker.ErrNoGroup)
	}
	takes, err := feed.Adoptable(&g, is, from)
	if err != nil || !takes {
		return err
	}
	prefix := memberKey(g.Name, "")
	members, err := b.keys(ctx, prefix+"*")
	for i := 0; err == nil && i < len(members); i++ {
		if err = awaitGone(ctx, kv, members[i], b.orUnavailable); err != nil {
			err = fmt.Errorf("member %s: stop it first: %w", strings.TrimPrefix(members[i], prefix), err)
		}
	}
	if err == nil {
		err = b.storeOwner(ctx, kv, &g, rev)
	}
	if err != nil {
		return fmt.Errorf("adopt group %q: %w", g.Name, err)
	}
	return nil
}
