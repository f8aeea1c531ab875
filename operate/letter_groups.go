package operate

import (
	"context"
	"time"

	"github.com/skald-go/skald/store"
)

// Group counts the dead letters of a consumer with the same fingerprint. The JSON field names are stable.
type Group struct {
	Consumer    string `json:"consumer"`
	Fingerprint string `json:"fingerprint"`
	Kind        string `json:"kind"`
	Type        string `json:"type"`
	Count       int    `json:"count"`
	Error       string `json:"error"` // the last error of the first letter

	First time.Time `json:"first_dead_at"`
	Last  time.Time `json:"last_dead_at"`
}

// Groups counts the selected dead letters by consumer and fingerprint. The groups are in the order of their
// first letters.
func Groups(ctx context.Context, db MessageStore, s Selection) (all []Group, err error) {
	s.Dead = true
	var g Grouping
	for p, err := range List(ctx, db, s, true) {
		if err != nil {
			return nil, err
		}
		g.Add(&p)
	}
	return g.All, nil
}

// Grouping counts dead letters by consumer and fingerprint.
type Grouping struct {
	All []Group // in the order of their first letters
	at  map[[2]string]int
}

// Add counts the dead letter p.
func (g *Grouping) Add(p *store.Parked) {
	of := [2]string{p.Consumer, p.Dead.Fingerprint}
	i, known := g.at[of]
	if !known {
		if g.at == nil {
			g.at = map[[2]string]int{}
		}
		i = len(g.All)
		g.at[of] = i
		g.All = append(g.All, Group{Consumer: p.Consumer, Fingerprint: p.Dead.Fingerprint, Kind: p.Dead.Kind,
			Type:  p.Message.Type,
			Error: p.Last.Why})
	}
	g.All[i].add(p.Dead.At)
}

func (g *Group) add(at time.Time) {
	if g.Count++; g.First.IsZero() || at.Before(g.First) {
		g.First = at
	}
	if at.After(g.Last) {
		g.Last = at
	}
}
