// The story of a key, an id or a correlation: an order's timeline over several databases.

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

// storyPage is everything that the sources have about a key, an id or a correlation.
type storyPage struct {
	Asked string             `json:"asked"`
	Parts []storyPart        `json:"sources"`
	Away  []page.Unreachable `json:"away"`
	Line  []event            `json:"timeline"`
}

// storyPart is the part of one source.
type storyPart struct {
	Source      string                 `json:"source"`
	Sagas       []operate.SagaProgress `json:"sagas"` // orchestrated and choreographed
	Kept        []messageLine          `json:"kept"`
	Quarantined []quarantined          `json:"quarantine"`
	Steps       []operate.SagaStep     `json:"steps"`
	Outbox      []row                  `json:"outbox"`                  // unpublished rows
	Unread      string                 `json:"outbox_unread,omitempty"` // why Outbox could not be read
	// Written has the rows that are still in the outbox, published or not. Finished has messages with a
	// mark.
	Written  []writtenLine  `json:"written"`
	Finished []finishedLine `json:"finished"`
	// More is true if only the first 10,000 kept messages were scanned for the id or correlation.
	More bool `json:"more"`
	// Cut is true if more messages of the key exist than are shown, or more are in quarantine than were
	// scanned.
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

// Of returns the page of the key, id or correlation in the argument "q".
func Of(q *page.Request) (page.View, error) {
	asked := q.Arg("q")
	v, err := storyOf(q, asked)
	// a key may end with a space, and a typed search, too
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
		key = []byte(v.Asked) // it only looks like base64
	}
	sagas, away := page.Each(q.Context(), q.Sources, "",
		func(ctx context.Context, s *page.Source) ([]operate.SagaProgress, error) {
			return operate.ReadSagaProgress(ctx, s.DB, string(key), s.At)
		})
	v.Away = append(v.Away, away...)
	gone := map[string]bool{} // do not wait for them again
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
				return storyPart{}, page.ErrBusy // it is listed already
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

// marks looks up the messages of all sources in the marks of each source.
func (v *storyPage) marks(q *page.Request) {
	ids, types := identitiesOf(v.Parts)
	at := map[string]int{}
	for i := range v.Parts {
		at[v.Parts[i].Source] = i
	}
	found, away := page.Each(q.Context(), q.Sources, "",
		func(ctx context.Context, s *page.Source) ([]finishedLine, error) {
			i, answered := at[s.Name]
			if !answered { // listed as away
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

// search searches for messages by keys, and by an id or a correlation.
type search struct {
	asked string
	// sagas has the ids under which participants may have recorded steps: the key and the ids of its sagas.
	sagas []string
	keys  [][]byte
	// correlations has the correlations of messages of the sagas.
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
		err = h.kept(ctx, s, &part, now.Consumers)
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

// kept finds kept messages: by key with an index, and by id or correlation in a limited scan.
func (h *search) kept(ctx context.Context, s *page.Source, part *storyPart,
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

// quarantined finds messages in quarantine: by id with an index, and by key or correlation in a limited scan.
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

const mostQuarantined = 1000 // messages in quarantine to scan

const (
	mostConsumers  = 20 // the most consumers with steps and marks to read
	mostSagasOfKey = 8  // sagas whose steps are read by id
	mostLookups    = 40 // reads of kept messages, by consumer and key, for consumers that have some
)

// steps reads the steps of all sagas in one query.
func (h *search) steps(ctx context.Context, s *page.Source, part *storyPart) error {
	if len(part.consumers) == 0 {
		return nil
	}
	list, err := operate.Steps(ctx, s.DB,
		operate.StepSelection{Consumers: part.consumers, Sagas: h.sagas, Limit: page.Rows})
	for i := range list {
		list[i].Result, list[i].Outcome = nil, nil // payloads are not shown
	}
	part.Steps = append(part.Steps, list...)
	return err
}
