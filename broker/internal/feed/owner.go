// Owners of groups. Members publish the database and schema that they work for. Otherwise two services with
// the same consumer name would take each other's messages.

package feed

import (
	"cmp"
	"fmt"
	"strings"

	"github.com/skald-go/skald/broker"
)

// Claim is the information that a member publishes to the others of its group.
type Claim struct {
	Member    string `json:"-"`
	SessionID string `json:"-"`
	Owner     string `json:"owner,omitempty"`   // broker.Group.Owner; empty: accepts any owner
	Settled   bool   `json:"settled,omitempty"` // it found no member of another owner, and takes partitions
}

// before reports whether c takes precedence over d: a settled claim does, then the smaller session id. So
// all members with the same claims choose the same owner.
func (c Claim) before(d Claim) bool {
	if c.Settled != d.Settled {
		return c.Settled
	}
	return c.SessionID < d.SessionID
}

// Check returns an error if a member of another owner takes precedence over mine.
func Check(group string, mine Claim, others []Claim) error {
	first := mine
	for _, c := range others {
		if c.Owner != "" && c.before(first) {
			first = c
		}
	}
	if mine.Owner == "" || first.Owner == mine.Owner {
		return nil
	}
	return fmt.Errorf("group %q has a member %s that works for another database or schema: give this consumer another name, or stop that one: %w",
		group, cmp.Or(first.Member, "without a name"), broker.ErrOwner)
}

// Same reports whether members with these owners may share a group.
func Same(a, b string) bool { return a == "" || b == "" || a == b }

// OwnerDatabase is the owner of a group as the broker stores it.
type OwnerDatabase struct {
	ID   string `json:"database,omitempty"` // empty: none
	Name string `json:"name,omitempty"`     // for people
}

// mostName limits the stored name, in bytes: Kafka's limit for everything is 4,096.
const mostName = 200

// StoredOwner returns the owner to store for g.
func StoredOwner(g *broker.Group) OwnerDatabase {
	name := g.OwnerName
	if len(name) > mostName {
		name = strings.ToValidUTF8(name[:mostName], "")
	}
	return OwnerDatabase{ID: g.Owner, Name: name}
}

// Belongs returns an error if a group belongs to another database than g's.
func Belongs(g *broker.Group, to OwnerDatabase) error {
	if g.Owner == "" || to.ID == "" || to.ID == g.Owner {
		return nil
	}
	return &broker.OwnerError{Group: g.Name, Owner: to.ID, OwnerName: to.Name, Requester: g.Owner,
		RequesterName: g.OwnerName}
}

// Adoptable reports whether g may adopt a group of owner from. It returns an error if the group belongs to
// a third owner.
func Adoptable(g *broker.Group, to OwnerDatabase, from string) (bool, error) {
	if to.ID == from {
		return true, nil
	}
	return false, Belongs(g, to)
}
