package sagas

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/skald-go/skald/internal/saga/plan"
	"github.com/skald-go/skald/internal/saga/stored"
	"github.com/skald-go/skald/operate/internal/words"
	"github.com/skald-go/skald/store"
)

// mostEntities bounds how many entities are named, and how many holders are looked up.
const mostEntities = 10

// placesOf are the places in line of a saga and of its children, those first where others stand before it.
// P is nil where no engine has noted its definition.
func placesOf(ctx context.Context, db store.Lister, s *store.Saga, p *plan.Plan) ([]store.Hold, error) {
	if !s.Ended.IsZero() || p != nil && !p.Locks() {
		return nil, nil
	}
	out, err := store.ListHolds(ctx, db, store.HoldQuery{Holder: s.ID})
	if err != nil {
		return nil, err
	}
	if o, err := stored.OriginOf(*s); err == nil && o.Top() != nil { // a child's are those of its family
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

// A holder is who holds an entity.
type holder struct {
	place  store.Hold
	row    *store.Saga // the saga; of a family, the one at its top. Nil: it is not kept any more
	before int         // how many stand before who waits
}

// holdersOf looks up who holds the first of what others have before a saga, in the order of places.
func holdersOf(ctx context.Context, db store.Lister, places []store.Hold) (out []holder, err error) {
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
		by := holder{place: first[0], before: h.Before}
		row, is := known[by.place.Holder]
		if !is {
			if row, err = holderOf(ctx, db, &by.place); err != nil {
				return nil, err
			}
			known[by.place.Holder] = row
		}
		by.row = row
		out = append(out, by)
	}
	return out, nil
}

// holderOf is the saga whose ID is that of the holder: the one that asked, or the one at the top of its family.
func holderOf(ctx context.Context, db store.Lister, h *store.Hold) (*store.Saga, error) {
	s, err := lightSaga(ctx, db, h.Saga.Name, h.Saga.Key)
	if err != nil || s == nil || s.ID == h.Holder {
		return s, err
	}
	o, err := stored.OriginOf(*s)
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

// lines says which entities a saga waits for, and who holds those, or which it holds, and who waits for them.
func (r *SagaRead) lines(at string) (out []string) {
	free := slices.IndexFunc(r.places, func(h store.Hold) bool { return h.Before == 0 })
	if free < 0 {
		free = len(r.places)
	}
	waits := r.inLine()
	if passed := slices.ContainsFunc(r.state.Runs, func(run plan.Run) bool { return isLock(r.plan, &run) }) &&
		!waits; passed && free > 0 {
		out = append(out, fmt.Sprintf("It goes on without %s: it keeps its place in line for that until its end.",
			entitiesText(r.places[:free])))
	} else {
		out = explainHolders(r.holders, at)
	}
	first := r.places[free:]
	if len(first) == 0 {
		return out
	}
	text := "It holds " + entitiesText(first) + ", until its end."
	if free > 0 || waits {
		text = "It stands first in line for " + entitiesText(first) + "."
	}
	var behind []string
	for _, h := range first {
		if h.Behind > 0 {
			behind = append(behind, fmt.Sprintf("%s: %d", entityText(h), h.Behind))
		}
	}
	if len(behind) > 0 {
		text += " How many wait behind it: " + some(behind) + "."
	}
	return append(out, text)
}

// inLine tells whether a Lock of the saga still waits.
func (r *SagaRead) inLine() bool {
	return slices.ContainsFunc(r.state.Runs, func(run plan.Run) bool {
		return isLock(r.plan, &run) && (run.Phase == plan.Ready || run.Phase == plan.Waiting)
	})
}

// explainHolders says who holds which entities, and how each of those sagas stands.
func explainHolders(all []holder, at string) (lines []string) {
	for i := range all {
		h := &all[i]
		same := func(o holder) bool { return o.place.Holder == h.place.Holder }
		if slices.ContainsFunc(all[:i], same) {
			continue
		}
		var names []string
		for _, o := range all {
			if !same(o) {
				continue
			}
			name := entityText(o.place)
			if o.before > 1 {
				name += fmt.Sprintf(" (%d stand before it)", o.before)
			}
			names = append(names, name)
		}
		text := fmt.Sprintf("Held since %s by ", timeWord(h.place.Since))
		if h.row == nil {
			text += fmt.Sprintf("%s %s, which is not kept any more", h.place.Saga.Name, h.place.Saga.Key)
		} else {
			text += fmt.Sprintf("%s %s, which is %s", h.row.Name, h.row.Key, standsText(h.row))
		}
		text = strings.TrimSuffix(text, ".") + ": " + strings.Join(names, ", ") + "."
		if h.row != nil {
			text += " " + more(h.row, at)
		}
		lines = append(lines, text)
	}
	return lines
}

// explainLock says how a Lock stands that is not done: it waits for entities, or gives them up.
func explainLock(st *plan.State, r *plan.Run, places []store.Hold, typed func(verb, data string) string,
	failed string) string {
	name := stored.Name(r.Step, r.Occurrence)
	if st.Status == plan.Compensating {
		return fmt.Sprintf("%s gives up its entities.%s%s", name, failed, again(st, r))
	}
	if len(places) == 0 {
		return fmt.Sprintf("%s is to be run: it has no place in line yet.%s%s", name, failed, lockDue(st, r))
	}
	since := slices.MinFunc(places, func(a, b store.Hold) int { return a.Since.Compare(b.Since) }).Since
	return fmt.Sprintf("%s waits in line for %s, since %s.%s%s To go on without them, though others may change "+
		"them meanwhile: %s", name, entitiesText(places), timeWord(since), failed, lockDue(st, r),
		typed("skip", ""))
}

// lockDue says when the time of a Lock is up, or when it is tried again.
func lockDue(st *plan.State, r *plan.Run) string {
	if r.Phase == plan.Ready && !r.Due.IsZero() {
		return again(st, r)
	}
	end := *r
	end.Due = plan.LockEnd(r)
	return until(st, &end)
}

func isLock(p *plan.Plan, r *plan.Run) bool {
	if p == nil {
		return false
	}
	step, _ := p.Step(r.Step)
	return step.Kind == plan.Lock
}

// dueOf is when something comes of a run by itself. A Lock that waits looks again often: nothing comes of that.
func dueOf(p *plan.Plan, r *plan.Run) time.Time {
	if r.Phase == plan.Waiting && isLock(p, r) {
		return plan.LockEnd(r)
	}
	return r.Due
}

func entityText(h store.Hold) string { return words.Shell(h.Space) + " " + words.Key([]byte(h.Key)) }

func entitiesText(hs []store.Hold) string {
	names := make([]string, len(hs))
	for i := range hs {
		names[i] = entityText(hs[i])
	}
	return some(names)
}

// some names the first of many.
func some(names []string) string {
	if n := len(names) - mostEntities; n > 0 {
		return fmt.Sprintf("%s and %d more", strings.Join(names[:mostEntities], ", "), n)
	}
	return strings.Join(names, ", ")
}
