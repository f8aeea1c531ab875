package view

import (
	"errors"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/skald-go/skald/console/internal/page"
	"github.com/skald-go/skald/operate"
)

// sagaFilters lists the URL arguments that filter orchestrated sagas.
func sagaFilters() []string {
	return []string{"name", "key", "id", "status", "stuck", "failing", "paused", "step", "error", "older"}
}

// sagaSelect returns the selection of orchestrated sagas that the arguments of the request describe.
func sagaSelect(q *page.Request) (s operate.SagaSelection, err error) {
	s = operate.SagaSelection{Name: q.Arg("name"), Key: q.Arg("key"), ID: q.Arg("id"),
		Status: q.Arg("status"), Stuck: q.Flag("stuck"), Paused: q.Flag("paused"),
		Failing: q.Flag("failing"), Step: q.Arg("step"), Error: q.Arg("error")}
	if text := q.Arg("older"); text != "" {
		d, err := ageOf(text)
		if err != nil {
			return s, page.NewRefusal(http.StatusBadRequest, "older is a time such as 90m or 2d")
		}
		s.StartedBefore = time.Now().Add(-d)
	}
	return s, q.Word("status")
}

const mostDays = 36_500 // a larger number may exceed the range of time.Duration

// ageOf parses a duration. It also accepts days, such as "2d".
func ageOf(text string) (time.Duration, error) {
	if days, ok := strings.CutSuffix(text, "d"); ok {
		n, err := strconv.ParseFloat(days, 64)
		if err == nil && !(n >= 0 && n <= mostDays) { // comparisons with NaN are false
			err = errors.New("out of bounds")
		}
		return time.Duration(n * 24 * float64(time.Hour)), err
	}
	return time.ParseDuration(text)
}

// manyButton writes a link to the plan of a verb on all sagas that match the filter.
func manyButton(p *page.Page, verb, source string, names ...string) {
	args := []string{"verb", verb, "in", source, "many", "1"}
	for _, name := range names {
		args = append(args, name, p.Arg(name))
	}
	p.Put(`<a class="button" href="%s">%s all that match the filter …</a> `, p.At("/act", args...),
		page.Title(verb))
}

// selectFlows returns the selection of choreographed sagas that the arguments of the request describe.
func selectFlows(q *page.Request) operate.FlowSelection {
	return operate.FlowSelection{Flow: q.Arg("flow"), State: q.Arg("state"), Overdue: q.Flag("overdue")}
}
