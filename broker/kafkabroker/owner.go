package kafkabroker

import (
	"context"
	"fmt"
	"strings"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/skald-go/skald/broker"
)

// ownerMark parts a client's id from the owner of its group. Kafka shows each member's client id to whoever
// may read the group.
const ownerMark = "#owner-"

// clientID is that of a member of an owner's.
func (b *Broker) clientID(owner string) string {
	id, _ := b.cl.OptValue(kgo.ClientID).(string)
	if owner == "" {
		return id
	}
	return id + ownerMark + owner
}

// checkOwner refuses to share a group with members of another owner, and a group whose offsets another owner
// has committed. Two that join at the same moment are
// told when partitions are assigned.
func (b *Broker) checkOwner(ctx context.Context, g broker.Group) error {
	if g.Owner == "" {
		return nil
	}
	all, err := b.adm.DescribeGroups(ctx, g.Name)
	if err != nil {
		return fmt.Errorf("look who is in group %q: %w", g.Name, orAway(err))
	}
	if err := all.Error(); err != nil && !faultAny(err, kerr.GroupIDNotFound) { // it is new
		return fmt.Errorf("look who is in group %q: %w", g.Name,
			lacking(orAway(err), "READ", "the group"))
	}
	for _, m := range all[g.Name].Members {
		if _, owner, told := strings.Cut(m.ClientID, ownerMark); told && owner != g.Owner {
			return fmt.Errorf("group %q has a member at %s (%s) that works for another database or schema: give this consumer another name, or stop that one: %w",
				g.Name, m.ClientHost, m.ClientID, broker.ErrOwner)
		}
	}
	committed, err := b.standing(ctx, g.Name)
	if err != nil {
		return err
	}
	return committed.check(&g)
}
