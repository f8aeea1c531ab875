package kafkabroker

import (
	"context"
	"fmt"
	"strings"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/skald-go/skald/broker"
)

// ownerMark separates the two parts of a member's client ID: the ID of the client, and the owner of the
// group. All users that may describe the group can read the client IDs of its members.
const ownerMark = "#owner-"

// clientID returns the client ID of a member with that owner.
func (b *Broker) clientID(owner string) string {
	id, _ := b.cl.OptValue(kgo.ClientID).(string)
	if owner == "" {
		return id
	}
	return id + ownerMark + owner
}

// checkOwner returns an error if the group has a member of another owner, or offsets that another owner
// committed. Two members that join at the same moment may both pass; the check at the assignment of
// partitions then finds the conflict.
func (b *Broker) checkOwner(ctx context.Context, g broker.Group) error {
	if g.Owner == "" {
		return nil
	}
	all, err := within(ctx, func() (kadm.DescribedGroups, error) {
		return b.adm.DescribeGroups(ctx, g.Name)
	})
	if err != nil {
		return fmt.Errorf("read the members of group %q: %w", g.Name, orUnavailable(err))
	}
	if err := all.Error(); err != nil && !isAny(err, kerr.GroupIDNotFound) { // the group is new
		return fmt.Errorf("read the members of group %q: %w", g.Name,
			withRight(orUnavailable(err), "READ", "the group"))
	}
	for _, m := range all[g.Name].Members {
		if _, owner, told := strings.Cut(m.ClientID, ownerMark); told && owner != g.Owner {
			return fmt.Errorf("group %q has a member at %s (%s) for another database or schema: rename this consumer, or stop the other one: %w",
				g.Name, m.ClientHost, m.ClientID, broker.ErrOwner)
		}
	}
	committed, err := b.committedOffsets(ctx, g.Name)
	if err != nil {
		return err
	}
	return committed.check(&g)
}
