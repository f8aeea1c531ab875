package gateway

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/skald-go/skald/httpidem"
)

// Client calls a Server. It sends a request once; to retry, the caller uses the same key.
type Client struct {
	url  string
	http *http.Client
}

var (
	_ Gateway = (*Client)(nil)
	_ Gateway = (*Ledger[int])(nil)
)

// NewClient returns a client of the server at url.
func NewClient(url string) *Client {
	return &Client{url, &http.Client{Transport: &httpidem.Transport{Bare: true}}}
}

// Charge takes money from a customer.
func (c *Client) Charge(ctx context.Context, key string, m Move) (Receipt, error) {
	r, _, err := c.ask(ctx, http.MethodPost, "/charges", key, &m)
	return r, err
}

// Refund gives money to a customer.
func (c *Client) Refund(ctx context.Context, key string, m Move) (Receipt, error) {
	r, _, err := c.ask(ctx, http.MethodPost, "/refunds", key, &m)
	return r, err
}

// Cancel invalidates a key.
func (c *Client) Cancel(ctx context.Context, key string) (Receipt, bool, error) {
	return c.ask(ctx, http.MethodDelete, "/moves/"+url.PathEscape(key), "", nil)
}

// Find looks a key up.
func (c *Client) Find(ctx context.Context, key string) (Receipt, bool, error) {
	return c.ask(ctx, http.MethodGet, "/moves/"+url.PathEscape(key), "", nil)
}

func (c *Client) ask(ctx context.Context, method, path, key string,
	body *Move) (r Receipt, there bool, err error) {
	var data io.Reader = http.NoBody
	if body != nil {
		if err := Check(key, *body); err != nil {
			return r, false, err
		}
		text, err := json.Marshal(body)
		if err != nil {
			return r, false, fmt.Errorf("ask the gateway: %w", err)
		}
		data = bytes.NewReader(text)
	}
	if key != "" {
		ctx = httpidem.WithKey(ctx, key)
	}
	req, err := http.NewRequestWithContext(ctx, method, c.url+path, data)
	if err != nil {
		return r, false, fmt.Errorf("ask the gateway: %w", err)
	}
	req.GetBody = nil // so that the transport does not repeat the request
	answer, err := c.http.Do(req)
	if err != nil {
		return r, false, fmt.Errorf("ask the gateway: %w", err)
	}
	defer func() { _ = answer.Body.Close() }()
	return read(answer)
}

func read(answer *http.Response) (r Receipt, there bool, err error) {
	text, err := io.ReadAll(io.LimitReader(answer.Body, 64<<10))
	if err != nil {
		return r, false, fmt.Errorf("read the gateway's answer: %w", err)
	}
	switch answer.StatusCode {
	case http.StatusOK:
		if err := json.Unmarshal(text, &r); err != nil {
			return r, false, fmt.Errorf("read the gateway's answer: %w", err)
		}
		return r, true, nil
	case http.StatusNoContent:
		return r, false, nil
	case http.StatusNotFound:
		return r, false, nil
	case http.StatusServiceUnavailable:
		after, _ := strconv.Atoi(answer.Header.Get("Retry-After"))
		return r, false, &BusyError{time.Duration(max(1, after)) * time.Second}
	}
	var body struct {
		Detail string `json:"detail"`
	}
	if json.Unmarshal(text, &body) != nil || body.Detail == "" {
		body.Detail = http.StatusText(answer.StatusCode)
	}
	switch answer.StatusCode {
	case http.StatusPaymentRequired:
		return r, false, &RefusedError{body.Detail}
	case http.StatusUnprocessableEntity:
		return r, false, ErrOther
	case http.StatusBadRequest:
		return r, false, fmt.Errorf("%w: %s", ErrInvalid, body.Detail)
	}
	return r, false, fmt.Errorf("the gateway returned the status %d: %w", answer.StatusCode,
		errors.New(body.Detail))
}
