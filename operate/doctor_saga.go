package operate

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/skald-go/skald"
	"github.com/skald-go/skald/internal/saga/plan"
	"github.com/skald-go/skald/internal/sagarow"
	"github.com/skald-go/skald/internal/shortlog"
	"github.com/skald-go/skald/store"
)

// sagas adds a finding for each saga definition and each flow. It counts sagas that wait for an operator, for
// an engine or for an event.
func (d *Doctor) sagas(ctx context.Context, s DoctorStore) error {
	const about = "store"
	status, err := s.Status(ctx, store.StatusQuery{Sagas: true})
	if err != nil {
		return err
	}
	if len(status.Sagas)+len(status.Tracked) == 0 {
		d.Add(about, "sagas", skald.Fine, "there are no sagas", "")
		return nil
	}
	for i := range status.Tracked {
		d.tracked(&status.Tracked[i])
	}
	if len(status.Sagas) == 0 {
		return nil
	}
	for _, c := range status.Sagas {
		grade, remedy := skald.Fine, ""
		saw := fmt.Sprintf("%d running, %d compensating; of them %d stuck, %d paused, %d failing", c.Running,
			c.Compensating, c.Stuck, c.Paused, c.Failing)
		left, err := leftOf(ctx, s, &c)
		if err != nil {
			return err
		}
		saw += left
		if c.Stuck > 0 {
			grade, remedy = skald.Doubtful,
				fmt.Sprintf("run: skald saga list --stuck --name '%s', then skald saga explain", c.Name)
		}
		if c.Stuck == 0 && c.FailingFor > longFailing {
			grade, remedy = skald.Doubtful,
				fmt.Sprintf("run: skald saga list --failing --name %s, then skald saga explain; "+
					"docs/operations.md: SkaldSagaFailing", shortlog.Shell(c.Name))
		}
		if c.FailingFor > longFailing {
			saw += fmt.Sprintf("; one has failed for %v", c.FailingFor.Round(time.Second))
		}
		if c.Overdue > 0 {
			grade, remedy = skald.Failed,
				"start the service whose engine has this definition; skald saga explain names it; "+
					"docs/operations.md: SkaldSagaOverdue"
			late, err := lateOf(ctx, s, c.Name)
			if err != nil {
				return err
			}
			saw += fmt.Sprintf("; no engine runs %d of them, although they have been due for a minute, or were left to another build 15 minutes ago%s",
				c.Overdue, late)
		}
		d.Add(about, "sagas of "+c.Name, grade, saw, remedy)
	}
	return d.heldEntities(ctx, s, status.Sagas)
}

// longFailing is the time after which a failing saga makes the finding Doubtful. The alert SkaldSagaFailing
// has the same limit.
const longFailing = 15 * time.Minute

// maxLeft limits the sagas that leftOf and lateOf read.
const maxLeft = 1000

// leftOf describes sagas that one build has left to another build. That is normal during a deploy, so it does
// not change the grade.
func leftOf(ctx context.Context, s store.Lister, c *store.SagaCounts) (string, error) {
	if c.Failing == 0 {
		return "", nil
	}
	list, err := store.ListSagas(ctx, s, store.SagaQuery{Name: c.Name, Failing: true, Light: true,
		Error: sagarow.LeftToOthers, Limit: maxLeft, Scan: 10 * maxLeft})
	if right := new(store.RightError); errors.As(err, &right) {
		return "", nil // the user of a relay may not read this table
	}
	if err != nil || len(list) == 0 {
		return "", err
	}
	some := fmt.Sprint(len(list))
	if len(list) == maxLeft {
		some += " or more"
	}
	return fmt.Sprintf("; builds left %s to others (skald saga list --name %s --error '%s')", some,
		shortlog.Shell(c.Name), strings.TrimSuffix(sagarow.LeftToOthers, ": ")), nil
}

// tracked adds a finding for the sagas of a flow. The worst grade is Doubtful: if the tracker is late, sagas
// only seem to be overdue.
func (d *Doctor) tracked(c *store.TrackedCounts) {
	var remedies []string
	saw := fmt.Sprintf("%d running, %d compensating", c.Running, c.Compensating)
	if c.Overdue > 0 {
		saw += fmt.Sprintf("; %d overdue, %s the longest", c.Overdue, c.OverdueKey)
		remedies = append(remedies, "skald status -- "+shortlog.Shell(c.OverdueKey))
	}
	if c.Drifted > 0 {
		saw += fmt.Sprintf(
			"; %d received an event within the last day that the flow does not allow, most recently %s",
			c.Drifted, c.DriftedKey)
		remedies = append(remedies, "skald status -- "+shortlog.Shell(c.DriftedKey))
	}
	grade, remedy := skald.Fine, ""
	if len(remedies) > 0 {
		grade = skald.Doubtful
		remedy = "run: " + strings.Join(slices.Compact(remedies), ", ") +
			"; docs/operations.md: SkaldTrackedOverdue, SkaldTrackedDrift"
	}
	d.Add("store", "sagas of flow "+c.Flow, grade, saw, remedy)
}

// lateOf describes the overdue sagas of a name: their number for each definition, and why no engine runs
// them. The user of a relay may not read the definitions, so that lateOf cannot give the reason.
func lateOf(ctx context.Context, s store.Lister, name string) (string, error) {
	list, err := store.ListSagas(ctx, s, store.SagaQuery{Name: name, Light: true, Limit: maxLeft,
		Status: []string{string(plan.Running), string(plan.Compensating)}})
	var noted store.Listed
	if err == nil {
		noted, err = s.List(ctx, store.List{Definitions: true})
	}
	if right := new(store.RightError); errors.As(err, &right) {
		return "; this user may not read which engines have their definition", nil
	}
	if err != nil {
		return "", err
	}
	late := map[string][]*store.Saga{}
	for i := range list {
		if one := &list[i]; sagarow.Late(one, one.Read) {
			late[one.Hash] = append(late[one.Hash], one)
		}
	}
	out := ""
	for _, hash := range slices.Sorted(maps.Keys(late)) {
		out += fmt.Sprintf("; %d of definition %s", len(late[hash]), hash)
		if why := whyNoEngine(late[hash][0], noted.Definitions); why != "" {
			out += ": " + strings.TrimSuffix(why, ".")
			continue
		}
		at := slices.IndexFunc(noted.Definitions, func(d store.SagaDefinition) bool {
			return d.Name == name && d.Hash == hash
		})
		if at < 0 {
			out += ", which no engine has stored"
		} else {
			out += ", which an engine last stored at " + formatTime(noted.Definitions[at].Noted)
		}
	}
	return out, nil
}
