package demo

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"

	"github.com/skald-go/skald/examples/shop/sample"
	"github.com/skald-go/skald/httpidem"
)

// post sends an order until the service accepts it, and records the answer. It returns the ID of the order,
// or "" if ctx ended first.
func (c *shoppers) post(ctx context.Context, o sample.Order) (id string) {
	var got answer
	insist(ctx, c.Logger, o.Key, func() (err error) {
		if got, err = c.ask(ctx, o); err == nil && got.code != http.StatusCreated {
			err = fmt.Errorf("%d %s", got.code, got.body.String())
		}
		return err
	})
	var placed struct{ ID string }
	if json.Unmarshal(got.body.Bytes(), &placed) != nil || ctx.Err() != nil {
		return ""
	}
	insist(ctx, c.Logger, o.Key,
		func() error { return c.Wishes.Note(ctx, o.Key, got.code, got.body.String()) })
	return placed.ID
}

// ask calls the handler of the Order service directly, without a network.
func (c *shoppers) ask(ctx context.Context, o sample.Order) (got answer, err error) {
	body, err := json.Marshal(o.Request)
	if err != nil {
		return got, fmt.Errorf("order %s: %w", o.Key, err)
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, "/orders", bytes.NewReader(body))
	if err != nil {
		return got, err
	}
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set(httpidem.KeyHeader, o.Key)
	got.header = http.Header{}
	c.Door.ServeHTTP(&got, r)
	return got, nil
}

// answer records the response of a handler.
type answer struct {
	header http.Header
	code   int
	body   bytes.Buffer
}

func (a *answer) Header() http.Header { return a.header }
func (a *answer) WriteHeader(code int) {
	if a.code == 0 {
		a.code = code
	}
}

func (a *answer) Write(p []byte) (int, error) {
	a.WriteHeader(http.StatusOK)
	return a.body.Write(p)
}
