// This file prevents two databases from sharing a group. Each member publishes the database and schema that
// it works for. Otherwise two services with the same consumer name would each receive only a part of the
// messages.

package feed

import (
	"cmp"
	"fmt"
	"strings"

	"github.com/skald-go/skald/broker"
)

// Claim is the information about its database that a member publishes to its group.
type Claim struct {
	Member    string `json:"-"`
	SessionID string `json:"-"`
	Owner     string `json:"owner,omitempty"`   // broker.Group.Owner; "" accepts any owner
	Settled   bool   `json:"settled,omitempty"` // the member found no other owner, and takes partitions
}

// precedes returns true if c takes precedence over d. A settled claim takes precedence, and then the smaller
// session id. So all members that see the same claims choose the same owner.
func (c Claim) precedes(d Claim) bool {
	if c.Settled != d.Settled {
		return c.Settled
	}
	return c.SessionID < d.SessionID
}

// Check returns an error if a member of another owner takes precedence over the claim mine.
func Check(group string, mine Claim, others []Claim) error {
	first := mine
	for _, c := range others {
		if c.Owner != "" && c.precedes(first) {
			first = c
		}
	}
	if mine.Owner == "" || first.Owner == mine.Owner {
		return nil
	}
	return fmt.Errorf("group %q has a member %s that works for another database or schema: give this consumer another name, or stop that one: %w",
		group, cmp.Or(first.Member, "without a name"), broker.ErrOwner)
}

// Same returns true if members with these owners may share a group.
func Same(a, b string) bool { return a == "" || b == "" || a == b }

// OwnerDatabase is the owner of a group in the form that the broker stores.
type OwnerDatabase struct {
	ID   string `json:"database,omitempty"` // "" if the group has no owner
	Name string `json:"name,omitempty"`     // a readable name
}

// mostName limits the stored name, in bytes. Kafka stores it in metadata of at most 4,096 bytes.
const mostName = 200

// StoredOwner returns the owner to store for g.
func StoredOwner(g *broker.Group) OwnerDatabase {
	name := g.OwnerName
	if len(name) > mostName {
		name = strings.ToValidUTF8(name[:mostName], "")
	}
	return OwnerDatabase{ID: g.Owner, Name: name}
}

// Belongs returns an error if the group has another owner than g.Owner.
func Belongs(g *broker.Group, to OwnerDatabase) error {
	if g.Owner == "" || to.ID == "" || to.ID == g.Owner {
		return nil
	}
	return &broker.OwnerError{Group: g.Name, Owner: to.ID, OwnerName: to.Name, Requester: g.Owner,
		RequesterName: g.OwnerName}
}

// Adoptable returns true if the group belongs to oldOwner, so that g may adopt it. It returns an error if
// the group belongs to a third owner.
func Adoptable(g *broker.Group, to OwnerDatabase, oldOwner string) (bool, error) {
	if to.ID == oldOwner {
		return true, nil
	}
	return false, Belongs(g, to)
}
