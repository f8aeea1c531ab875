// This file says whose a group is, where members tell each other for which database and schema they work.
// Two services that gave their consumers one name would else take each other's messages.

package feed

import (
	"cmp"
	"fmt"
	"strings"

	"github.com/skald-go/skald/broker"
)

// A Claim is what a member tells the others of its group about itself.
type Claim struct {
	Member    string `json:"-"`
	SessionID string `json:"-"`
	Owner     string `json:"owner,omitempty"`   // as broker.Group has it; empty: it works with any
	Settled   bool   `json:"settled,omitempty"` // it found nobody of another owner, and takes partitions
}

// before tells whether c counts more than d: who took partitions does, then the smaller session. So all
// members that know of the same claims choose the same.
func (c Claim) before(d Claim) bool {
	if c.Settled != d.Settled {
		return c.Settled
	}
	return c.SessionID < d.SessionID
}

// Check fails if the group is not that of mine, but of another member's owner.
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

// Same tells whether members with these owners share a group's partitions.
func Same(a, b string) bool { return a == "" || b == "" || a == b }

// A OwnerDatabase is the owner that a broker keeps of a group.
type OwnerDatabase struct {
	ID   string `json:"database,omitempty"` // empty: none
	Name string `json:"name,omitempty"`     // for people
}

// mostName is how much of a name the brokers keep, in bytes: Kafka has room for 4,096 in all.
const mostName = 200

// Of is the owner that a broker keeps of g.
func Of(g *broker.Group) OwnerDatabase {
	name := g.OwnerName
	if len(name) > mostName {
		name = strings.ToValidUTF8(name[:mostName], "")
	}
	return OwnerDatabase{ID: g.Owner, Name: name}
}

// Belongs fails if a group belongs to another database than its member's.
func Belongs(g *broker.Group, to OwnerDatabase) error {
	if g.Owner == "" || to.ID == "" || to.ID == g.Owner {
		return nil
	}
	return &broker.OwnerError{Group: g.Name, Owner: to.ID, OwnerName: to.Name, Asks: g.Owner,
		AsksName: g.OwnerName}
}

// Adoptable tells whether g may take a group from an owner to which it belongs. It fails if the group belongs
// to a third one.
func Adoptable(g *broker.Group, to OwnerDatabase, from string) (bool, error) {
	if to.ID == from {
		return true, nil
	}
	return false, Belongs(g, to)
}
