// This file explains which saga holds an entity, and how many sagas wait for the entity.

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

// maxEntities limits the entities that a text names, and the holders that entityHolders reads.
const maxEntities = 10

// holdsOf returns the places of a saga in the lines for entities. First come the places behind another
// saga. p is nil if no engine has stored the definition of the saga.
func holdsOf(ctx context.Context, db store.Lister, s *store.Saga, p *plan.Plan) ([]store.Hold, error) {
	if !s.Ended.IsZero() || p != nil && !p.Locks() {
		return nil, nil
	}
	out, err := store.ListHolds(ctx, db, store.HoldQuery{Holder: s.ID})
	if err != nil {
		return nil, err
	}
	// The places of a child saga are stored under the ID of its topmost parent.
	if o, err := sagarow.OriginOf(*s); err == nil && o.Top() != nil {
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
	place  store.Hold  // the first place in the line for the entity
	row    *store.Saga // the holder, or the topmost parent of the holder; nil if it is deleted
	before int         // the number of places before the waiting saga
}

// entityHolders reads the holders of the entities that a saga waits for, in the order of places. It reads
// at most maxEntities holders.
func entityHolders(ctx context.Context, db store.Lister, places []store.Hold) (out []entityHolder,
	err error) {
	known := map[string]*store.Saga{}
	for _, h := range places[:min(len(places), maxEntities)] {
		if h.Before == 0 {
			break
		}
		first, err := store.ListHolds(ctx, db,
			store.HoldQuery{Entity: &store.Lock{Space: h.Space, Key: h.Key}, Limit: 1})
		if err != nil {
			return nil, err
		}
		if len(first) == 0 || first[0].Holder == h.Holder { // the holder released the entity meanwhile
			continue
		}
		by := entityHolder{place: first[0], before: h.Before}
		row, is := known[by.place.Holder]
		if !is {
			if row, err = holderSaga(ctx, db, &by.place); err != nil {
				return nil, err
			}
			known[by.place.Holder] = row
		}
		by.row = row
		out = append(out, by)
	}
	return out, nil
}

// holderSaga returns the saga with the ID h.Holder. That is h.Saga or its topmost parent. It returns nil if
// this saga is deleted.
func holderSaga(ctx context.Context, db store.Lister, h *store.Hold) (*store.Saga, error) {
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

// explainPlaces describes the entities that a saga waits for, with their holders. It also describes the
// entities that the saga holds, with the number of sagas that wait for them. The argument waiting reports
// whether a Lock of the saga still waits. The argument passed reports whether a Lock of the saga no longer
// waits.
func explainPlaces(places []store.Hold, holders []entityHolder, waiting, passed bool,
	at string) (out []string) {
	free := slices.IndexFunc(places, func(h store.Hold) bool { return h.Before == 0 })
	if free < 0 {
		free = len(places)
	}
	if passed && free > 0 {
		out = append(out, fmt.Sprintf("It goes on without %s, and keeps its place in line until its end.",
			entities(places[:free])))
	} else {
		out = explainHolders(holders, at)
	}
	first := places[free:]
	if len(first) == 0 {
		return out
	}
	text := "It holds " + entities(first) + ", until its end."
	if free > 0 || waiting {
		text = "It is first in line for " + entities(first) + "."
	}
	var behind []string
	for _, h := range first {
		if h.Behind > 0 {
			behind = append(behind, fmt.Sprintf("%s: %d", entity(h), h.Behind))
		}
	}
	if len(behind) > 0 {
		text += " Waiting behind it: " + joinNames(behind) + "."
	}
	return append(out, text)
}

// explainHolders names the holder of each entity, and describes its state.
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
				name += fmt.Sprintf(" (%d places before this saga)", o.before)
			}
			names = append(names, name)
		}
		is := "is"
		if len(names) > 1 {
			is = "are"
		}
		text := fmt.Sprintf("%s %s held since %s by ", strings.Join(names, ", "), is,
			formatTime(h.place.Since))
		if h.row == nil {
			text += fmt.Sprintf("%s %s, which is deleted.", h.place.Saga.Name, h.place.Saga.Key)
		} else {
			text += fmt.Sprintf("%s %s, which is %s", h.row.Name, h.row.Key, sagaStateText(h.row))
		}
		if h.row != nil {
			text += " " + explainCommand(h.row, at)
		}
		lines = append(lines, text)
	}
	return lines
}

// entity returns the name of an entity as two arguments for a shell.
func entity(h store.Hold) string { return shortlog.Shell(h.Space) + " " + shellKey([]byte(h.Key)) }

// entities returns the names of at most maxEntities entities.
func entities(hs []store.Hold) string {
	names := make([]string, len(hs))
	for i := range hs {
		names[i] = entity(hs[i])
	}
	return joinNames(names)
}

// joinNames joins at most maxEntities names and counts the others.
func joinNames(names []string) string {
	if n := len(names) - maxEntities; n > 0 {
		return fmt.Sprintf("%s and %d more", strings.Join(names[:maxEntities], ", "), n)
	}
	return strings.Join(names, ", ")
}

// sagaStateText describes the state and the last error of a saga, as the end of a sentence.
func sagaStateText(s *store.Saga) string {
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
		text += fmt.Sprintf(" Its last error: %s.", firstLine(s.Error))
	}
	return text
}

// explainCommand returns the command that explains a saga.
func explainCommand(s *store.Saga, at string) string {
	return "More: skald saga explain" + spaced(at) + sagaArgs(s.Name, s.Key)
}
