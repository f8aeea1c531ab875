// This file finds the sagas that hold an entity, and those that wait for it.

package operate

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/skald-go/skald/internal/saga/plan"
	"github.com/skald-go/skald/internal/sagarow"
	"github.com/skald-go/skald/internal/shortlog"
	"github.com/skald-go/skald/store"
)

// mostEntities bounds how many entities are named, and how many holders are looked up.
const mostEntities = 10

// holdsOf are the places in line of a saga and of its children, those first where others stand before it.
// P is nil where no engine has noted its definition.
func holdsOf(ctx context.Context, db store.Lister, s *store.Saga, p *plan.Plan) ([]store.Hold, error) {
	if !s.Ended.IsZero() || p != nil && !p.Locks() {
		return nil, nil
	}
	out, err := store.ListHolds(ctx, db, store.HoldQuery{Holder: s.ID})
	if err != nil {
		return nil, err
	}
	if o, err := sagarow.OriginOf(*s); err == nil && o.Top() != nil { // a child's are those of its family
		of, err := store.ListHolds(ctx, db, store.HoldQuery{Holder: o.Top().ID})
		if err != nil {
			return nil, err
		}
		out = append(out, slices.DeleteFunc(of, func(h store.Hold) bool {
			return h.Saga.Name != s.Name || h.Saga.Key != s.Key
		})...)
	}
	slices.SortStableFunc(out, func(a, b store.Hold) int {
		return cmp.Compare(min(b.Before, 1), min(a.Before, 1))
	})
	return out, nil
}

// entityHolder is the saga that holds an entity.
type entityHolder struct {
	place  store.Hold
	row    *store.Saga // the saga; of a family, the one at its top. Nil: it is not kept any more
	before int         // how many stand before who waits
}

// entityHolders looks up who holds the first of what others have before a saga, in the order of places.
func entityHolders(ctx context.Context, db store.Lister, places []store.Hold) (out []entityHolder,
	err error) {
	known := map[string]*store.Saga{}
	for _, h := range places[:min(len(places), mostEntities)] {
		if h.Before == 0 {
			break
		}
		first, err := store.ListHolds(ctx, db,
			store.HoldQuery{Entity: &store.Lock{Space: h.Space, Key: h.Key}, Limit: 1})
		if err != nil {
			return nil, err
		}
		if len(first) == 0 || first[0].Holder == h.Holder { // they have left meanwhile
			continue
		}
		by := entityHolder{place: first[0], before: h.Before}
		row, is := known[by.place.Holder]
		if !is {
			if row, err = holdsHolderOf(ctx, db, &by.place); err != nil {
				return nil, err
			}
			known[by.place.Holder] = row
		}
		by.row = row
		out = append(out, by)
	}
	return out, nil
}

// holdsHolderOf is the saga whose ID is that of the holder: the one that asked, or the one at the top of its
// family.
func holdsHolderOf(ctx context.Context, db store.Lister, h *store.Hold) (*store.Saga, error) {
	s, err := lightSaga(ctx, db, h.Saga.Name, h.Saga.Key)
	if err != nil || s == nil || s.ID == h.Holder {
		return s, err
	}
	o, err := sagarow.OriginOf(*s)
	if err != nil || o.Top() == nil || o.Top().ID != h.Holder {
		return nil, nil
	}
	top, err := lightSaga(ctx, db, o.Top().Name, o.Top().Key)
	if err == nil && top != nil && top.ID != h.Holder {
		return nil, nil
	}
	return top, err
}

func lightSaga(ctx context.Context, db store.Lister, name, key string) (*store.Saga, error) {
	list, err := store.ListSagas(ctx, db, store.SagaQuery{Name: name, Key: key, Light: true})
	if err != nil || len(list) == 0 {
		return nil, err
	}
	return &list[0], nil
}

// explainHold says which entities a saga waits for, and who holds those, or which it holds, and who waits for
// them. Waits: a Lock of it does still; passed: it has one, which does not.
func explainHold(places []store.Hold, holders []entityHolder, waits, passed bool, at string) (out []string) {
	free := slices.IndexFunc(places, func(h store.Hold) bool { return h.Before == 0 })
	if free < 0 {
		free = len(places)
	}
	if passed && free > 0 {
		out = append(out, fmt.Sprintf("It goes on without %s: it keeps its place in line for that until its end.",
			entities(places[:free])))
	} else {
		out = explainHolders(holders, at)
	}
	first := places[free:]
	if len(first) == 0 {
		return out
	}
	text := "It holds " + entities(first) + ", until its end."
	if free > 0 || waits {
		text = "It stands first in line for " + entities(first) + "."
	}
	var behind []string
	for _, h := range first {
		if h.Behind > 0 {
			behind = append(behind, fmt.Sprintf("%s: %d", entity(h), h.Behind))
		}
	}
	if len(behind) > 0 {
		text += " How many wait behind it: " + someEntities(behind) + "."
	}
	return append(out, text)
}

// explainHolders says who holds which entities, and how each of those sagas stands.
func explainHolders(all []entityHolder, at string) (lines []string) {
	for i := range all {
		h := &all[i]
		same := func(o entityHolder) bool { return o.place.Holder == h.place.Holder }
		if slices.ContainsFunc(all[:i], same) {
			continue
		}
		var names []string
		for _, o := range all {
			if !same(o) {
				continue
			}
			name := entity(o.place)
			if o.before > 1 {
				name += fmt.Sprintf(" (%d stand before this saga)", o.before)
			}
			names = append(names, name)
		}
		is := "is"
		if len(names) > 1 {
			is = "are"
		}
		text := fmt.Sprintf("%s %s held since %s by ", strings.Join(names, ", "), is,
			timeText(h.place.Since))
		if h.row == nil {
			text += fmt.Sprintf("%s %s, which is not kept any more.", h.place.Saga.Name, h.place.Saga.Key)
		} else {
			text += fmt.Sprintf("%s %s, which is %s", h.row.Name, h.row.Key, entityStands(h.row))
		}
		if h.row != nil {
			text += " " + moreEntities(h.row, at)
		}
		lines = append(lines, text)
	}
	return lines
}

// entity names one.
func entity(h store.Hold) string { return shortlog.Shell(h.Space) + " " + keyWord([]byte(h.Key)) }

// entities names them, at most Most.
func entities(hs []store.Hold) string {
	names := make([]string, len(hs))
	for i := range hs {
		names[i] = entity(hs[i])
	}
	return someEntities(names)
}

// someEntities names the first of many.
func someEntities(names []string) string {
	if n := len(names) - mostEntities; n > 0 {
		return fmt.Sprintf("%s and %d more", strings.Join(names[:mostEntities], ", "), n)
	}
	return strings.Join(names, ", ")
}

// entityStands says how a saga stands, as the end of a sentence, and what fails in it.
func entityStands(s *store.Saga) string {
	text := s.Status
	if s.Stuck {
		text += ", stuck"
	}
	if s.Paused {
		text += ", paused"
	}
	if s.Step != "" {
		text += ", at " + s.Step
	}
	text += "."
	switch {
	case s.Error != "" && s.Failed > 0:
		text += fmt.Sprintf(" That failed %s, last with: %s.", timesText(s.Failed),
			firstLine(s.Error))
	case s.Error != "":
		text += fmt.Sprintf(" There it says: %s.", firstLine(s.Error))
	}
	return text
}

// moreEntities is what to type for more of a saga.
func moreEntities(s *store.Saga, at string) string {
	if at != "" {
		at = " " + at
	}
	return "More: skald saga explain" + at + " -- " + shortlog.Shell(s.Name) + " " + shortlog.Shell(s.Key)
}
