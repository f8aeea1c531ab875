// This file has the story: all messages, sagas and steps of a key, an ID or a correlation ID, in all
// databases.

package view

import (
	"bytes"
	"cmp"
	"context"
	"net/http"
	"slices"
	"strings"

	"github.com/skald-go/skald"
	"github.com/skald-go/skald/console/internal/page"
	"github.com/skald-go/skald/operate"
	"github.com/skald-go/skald/store"
)

// storyPage is the page of a story.
type storyPage struct {
	Asked string             `json:"asked"`
	Parts []storyPart        `json:"sources"`
	Away  []page.Unreachable `json:"away"`
	Line  []event            `json:"timeline"`
}

// storyPart is the part of a story in one source.
type storyPart struct {
	Source      string                 `json:"source"`
	Sagas       []operate.SagaProgress `json:"sagas"` // orchestrated and choreographed
	Kept        []messageLine          `json:"kept"`
	Quarantined []quarantined          `json:"quarantine"`
	Steps       []operate.SagaStep     `json:"steps"`
	Outbox      []row                  `json:"outbox"`                  // unpublished rows
	Unread      string                 `json:"outbox_unread,omitempty"` // the error of reading Outbox
	// Written has the rows of the outbox, published or not. Finished has the messages with a mark.
	Written  []writtenLine  `json:"written"`
	Finished []finishedLine `json:"finished"`
	// More is true if the search by ID and correlation ID ended after 10,000 parked messages and dead
	// letters.
	More bool `json:"more"`
	// Cut is true if there are more messages of the key than the page shows, or if the search in quarantine
	// ended before its end.
	Cut bool `json:"cut"`
	// Lookups is the number of pairs of a key and a consumer with kept messages. Only the first mostLookups
	// pairs were read.
	Lookups int `json:"lookups"`

	from      *page.Source
	held      []store.Parked
	rows      []store.WrittenRow
	consumers []string
}

func (v *storyPage) known() bool {
	return slices.ContainsFunc(v.Parts,
		func(p storyPart) bool {
			return len(p.Sagas)+len(p.Kept)+len(p.Quarantined)+len(p.Steps)+
				len(p.Outbox)+len(p.Written)+len(p.Finished) > 0
		})
}

// Of returns the story of the key, ID or correlation ID in the argument "q".
func Of(q *page.Request) (page.View, error) {
	asked := q.Arg("q")
	v, err := storyOf(q, asked)
	// A key may end with a space. A typed search may do so by accident: then search again without the space.
	if typed := strings.TrimSpace(asked); err == nil && typed != asked && !v.known() {
		return storyOf(q, typed)
	}
	return v, err
}

func storyOf(q *page.Request, asked string) (*storyPage, error) {
	v := &storyPage{Asked: asked, Parts: []storyPart{}, Away: []page.Unreachable{}, Line: []event{}}
	if strings.TrimSpace(v.Asked) == "" {
		return nil, page.NewRefusal(http.StatusBadRequest,
			"give a key, an id or a correlation")
	}
	if len(v.Asked) > 2<<10 {
		return nil, page.NewRefusal(http.StatusBadRequest, "a key has at most 1 KiB")
	}
	key, err := page.ToKey(v.Asked)
	if err != nil {
		key = []byte(v.Asked) // the text is no valid base64, so it is a key
	}
	sagas, away := page.Each(q.Context(), q.Sources, "",
		func(ctx context.Context, s *page.Source) ([]operate.SagaProgress, error) {
			return operate.ReadSagaProgress(ctx, s.DB, string(key), s.At)
		})
	v.Away = append(v.Away, away...)
	gone := map[string]bool{} // sources that did not answer; do not query them again
	for _, a := range away {
		gone[a.Source] = true
	}
	by := &search{asked: v.Asked, sagas: []string{string(key)}, keys: [][]byte{key}}
	of := map[string][]operate.SagaProgress{}
	for _, g := range sagas {
		of[g.Name] = g.Is
		by.correlations = append(by.correlations, correlationsOf(g.Is)...)
		for i := range g.Is {
			by.keys = append(by.keys, g.Is[i].Keys...)
			if id := g.Is[i].ID; id != "" && len(by.sagas) <= mostSagasOfKey {
				by.sagas = append(by.sagas, id)
			}
		}
	}
	slices.SortFunc(by.keys, bytes.Compare)
	by.keys = slices.CompactFunc(by.keys, bytes.Equal)
	parts, away := page.Each(q.Context(), q.Sources, "",
		func(ctx context.Context, s *page.Source) (storyPart, error) {
			if gone[s.Name] {
				return storyPart{}, page.ErrBusy // away has this source already
			}
			part, err := by.look(ctx, s)
			if err == nil {
				by.outbox(ctx, s, &part, func(err error) string { return q.Sources.Why(ctx, s.Name, err) })
			}
			return part, err
		})
	for _, a := range away {
		if !slices.ContainsFunc(v.Away, func(b page.Unreachable) bool { return a.Source == b.Source }) {
			v.Away = append(v.Away, a)
		}
	}
	for _, g := range parts {
		g.Is.Sagas = append([]operate.SagaProgress{}, of[g.Name]...)
		v.Parts = append(v.Parts, g.Is)
	}
	v.marks(q)
	v.Line = timeline(v.Parts)
	return v, nil
}

// marks searches the marks of each source for the messages that were found in all sources.
func (v *storyPage) marks(q *page.Request) {
	ids, types := identitiesOf(v.Parts)
	at := map[string]int{}
	for i := range v.Parts {
		at[v.Parts[i].Source] = i
	}
	found, away := page.Each(q.Context(), q.Sources, "",
		func(ctx context.Context, s *page.Source) ([]finishedLine, error) {
			i, answered := at[s.Name]
			if !answered { // v.Away has this source already
				return nil, nil
			}
			return readFinished(ctx, s, v.Parts[i].consumers, ids, types)
		})
	for _, g := range found {
		if i, answered := at[g.Name]; answered {
			v.Parts[i].Finished = append(v.Parts[i].Finished, g.Is...)
		}
	}
	v.Away = append(v.Away, away...)
}

// search searches one source for a story.
type search struct {
	asked string
	// sagas has the IDs under which services may have recorded steps: the key, and the IDs of sagas with this
	// key.
	sagas []string
	keys  [][]byte
	// correlations has the correlation IDs of messages of the sagas.
	correlations []string
}

func (h *search) means(m *skald.Message) bool {
	return m.ID == h.asked || m.CorrelationID == h.asked || m.CausationID == h.asked ||
		m.Subject == h.asked ||
		m.Key != nil && slices.ContainsFunc(h.keys, func(key []byte) bool { return bytes.Equal(key, m.Key) })
}

func (h *search) look(ctx context.Context, s *page.Source) (part storyPart, err error) {
	part = storyPart{Source: s.Name, Kept: []messageLine{}, Quarantined: []quarantined{},
		Steps:  []operate.SagaStep{},
		Outbox: []row{}, Written: []writtenLine{}, Finished: []finishedLine{}, from: s}
	now, err := s.State(ctx)
	if err == nil {
		for _, c := range now.Consumers[:min(mostConsumers, len(now.Consumers))] {
			part.consumers = append(part.consumers, c.Name)
		}
		err = h.findKept(ctx, s, &part, now.Consumers)
	}
	if err == nil {
		err = h.quarantined(ctx, s, &part)
	}
	if err == nil {
		err = h.steps(ctx, s, &part)
	}
	for i := range part.held {
		part.Kept = append(part.Kept, messageLineOf(&part.held[i]))
	}
	return part, err
}

// findKept finds parked messages and dead letters. Indexes support the search by key. The search by ID and
// correlation ID reads a limited number of messages.
func (h *search) findKept(ctx context.Context, s *page.Source, part *storyPart,
	consumers []page.Consumer) error {
	what := store.ParkedQuery{Bare: true, Limit: page.Rows, About: h.asked, Scan: page.Scan}
	got, err := s.DB.List(ctx, store.List{Parked: &what})
	if err != nil {
		return err
	}
	part.held, part.More = got.Parked, got.ParkedTo > 0
	for _, c := range consumers {
		for _, key := range h.keys {
			if c.Parked+c.Dead == 0 {
				continue
			}
			if part.Lookups++; part.Lookups > mostLookups {
				continue
			}
			list, err := store.ListParked(ctx, s.DB,
				store.ParkedQuery{Consumer: c.Name, Key: key, Bare: true, Limit: page.Rows + 1})
			if err != nil {
				return err
			}
			part.held = append(part.held, list...)
		}
	}
	slices.SortFunc(part.held, func(a, b store.Parked) int { return cmp.Compare(a.Place, b.Place) })
	part.held = slices.CompactFunc(part.held, func(a, b store.Parked) bool { return a.Place == b.Place })
	part.Cut = part.Cut || len(part.held) > page.Rows
	part.held = part.held[:min(page.Rows, len(part.held))]
	return nil
}

// quarantined finds messages in quarantine. An index supports the search by ID. The search by key and
// correlation ID reads a limited number of messages.
func (h *search) quarantined(ctx context.Context, s *page.Source, part *storyPart) error {
	seen := map[int64]bool{}
	for _, q := range []store.QuarantineQuery{{ID: h.asked, Bare: true, Limit: page.Rows},
		{Bare: true, Limit: mostQuarantined}} {
		list, err := store.ListQuarantined(ctx, s.DB, q)
		if err != nil {
			return err
		}
		for i := range list {
			one := &list[i]
			found := q.ID != "" || h.means(&one.Message)
			if found && !seen[one.Number] && len(part.Quarantined) < page.Rows {
				seen[one.Number] = true
				part.Quarantined = append(part.Quarantined, quarantinedOf(s.Name, one))
			}
		}
		part.Cut = part.Cut || len(list) == q.Limit
	}
	return nil
}

// Limits of a search in one source.
const (
	mostQuarantined = 1000 // messages in quarantine that are read
	mostConsumers   = 20   // consumers for which steps and marks are read
	mostSagasOfKey  = 8    // sagas for which steps are read by ID
	mostLookups     = 40   // pairs of a consumer and a key for which kept messages are read
)

// steps reads the steps of all sagas in one query.
func (h *search) steps(ctx context.Context, s *page.Source, part *storyPart) error {
	if len(part.consumers) == 0 {
		return nil
	}
	list, err := operate.Steps(ctx, s.DB,
		operate.StepSelection{Consumers: part.consumers, Sagas: h.sagas, Limit: page.Rows})
	for i := range list {
		list[i].Result, list[i].Outcome = nil, nil // a story has no payloads
	}
	part.Steps = append(part.Steps, list...)
	return err
}
