package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/skald-go/skald/examples/shop/order"
	"github.com/skald-go/skald/examples/shop/place"
	"github.com/skald-go/skald/examples/shop/sample"
	"github.com/skald-go/skald/httpidem"
)

const (
	clients = 8 // concurrent orders
	tries   = 6 // for a request without an answer
)

type loading struct {
	url  string
	wait time.Duration
	http *http.Client

	fresh atomic.Int64
	mu    sync.Mutex
	ids   []string
}

func load(ctx context.Context, args []string, out, _ io.Writer) error {
	l := &loading{http: &http.Client{Timeout: patience}}
	f := flags("load")
	f.StringVar(&l.url, "url", "", "of the Order service, http://127.0.0.1:8080")
	f.DurationVar(&l.wait, "wait", 0, "how long to wait for the orders to end")
	n := f.Int("orders", 100, "how many")
	seed := f.Uint64("seed", 1, "other numbers are other orders; the same number again places nothing twice")
	if _, err := parse(f, args, 0); err != nil {
		return err
	}
	if !strings.HasPrefix(l.url, "http://") && !strings.HasPrefix(l.url, "https://") || *n < 1 {
		return &place.UsageError{What: "load needs --url http://… and --orders of 1 or more"}
	}
	l.url = strings.TrimSuffix(l.url, "/")
	began := time.Now()
	if err := l.placeAll(ctx, sample.Orders(*seed, *n)); err != nil {
		return err
	}
	took := time.Since(began)
	fmt.Fprintf(out, "%d orders placed, %d of them new, in %.1f s: %.0f/s\n", *n, l.fresh.Load(),
		took.Seconds(), float64(*n)/took.Seconds())
	if l.wait == 0 {
		return nil
	}
	return l.waitForAll(ctx, out)
}

func (l *loading) placeAll(ctx context.Context, orders []sample.Order) error {
	next := make(chan sample.Order)
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	var wg sync.WaitGroup
	for range clients {
		wg.Go(func() {
			later := sample.Later{Do: func(id string, w sample.Wish) {
				if err := l.wish(ctx, id, w); err != nil {
					stop(err)
				}
			}}
			for o := range next {
				id, err := l.place(ctx, o)
				if err != nil {
					stop(err)
				}
				later.Placed(id, o.Wish)
			}
			later.Rest()
		})
	}
feed:
	for _, o := range orders {
		select {
		case next <- o:
		case <-ctx.Done():
			break feed
		}
	}
	close(next)
	wg.Wait()
	return context.Cause(ctx)
}

func (l *loading) place(ctx context.Context, o sample.Order) (id string, err error) {
	body, err := json.Marshal(o.Request)
	if err != nil {
		return "", fmt.Errorf("place order: %w", err)
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, l.url+"/orders", bytes.NewReader(body))
	if err != nil {
		return "", &place.UsageError{What: err.Error()}
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Idempotency-Key", o.Key)
	var placed order.Summary
	replayed, _, err := l.do(req, &placed)
	if err != nil {
		return "", fmt.Errorf("place order: %w", err)
	}
	if !replayed {
		l.fresh.Add(1)
	}
	l.mu.Lock()
	l.ids = append(l.ids, placed.ID)
	l.mu.Unlock()
	return placed.ID, nil
}

// wish sends a customer's later requests about an order. An answer that it is too late is not an error.
func (l *loading) wish(ctx context.Context, id string, w sample.Wish) error {
	if w.Address != "" {
		body, err := json.Marshal(map[string]string{"address": w.Address})
		if err != nil {
			return fmt.Errorf("change order: %w", err)
		}
		if err := l.ask(ctx, http.MethodPut, "/orders/"+id+"/address", body); err != nil {
			return fmt.Errorf("change order: %w", err)
		}
	}
	if w.Cancel {
		if err := l.ask(ctx, http.MethodPost, "/orders/"+id+"/cancel", nil); err != nil {
			return fmt.Errorf("cancel order: %w", err)
		}
	}
	return nil
}

func (l *loading) ask(ctx context.Context, method, path string, body []byte) error {
	req, err := http.NewRequestWithContext(ctx, method, l.url+path, bytes.NewReader(body))
	if err != nil {
		return err
	}
	var status order.Status
	if _, code, err := l.do(req, &status); err != nil && code != http.StatusConflict {
		return err
	}
	return nil
}

// do sends a request, and repeats it if no answer came in time. The server does a repeated request only
// once.
func (l *loading) do(req *http.Request, into any) (replayed bool, code int, err error) {
	for range tries {
		var answer *http.Response
		answer, err = l.once(req, into)
		busy := false // a request with the same key is in progress
		if answer != nil {
			replayed, code = answer.Header.Get(httpidem.ReplayedHeader) != "", answer.StatusCode
			busy = answer.Header.Get("Retry-After") != ""
		}
		if err == nil || !os.IsTimeout(err) && !busy || req.Context().Err() != nil {
			break
		}
		if req.GetBody != nil {
			body, bad := req.GetBody()
			if bad != nil {
				return replayed, code, bad
			}
			req.Body = body
		}
	}
	return replayed, code, err
}

func (l *loading) once(req *http.Request, into any) (resp *http.Response, err error) {
	resp, err = l.http.Do(req)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, resp.Body.Close()) }()
	if resp.StatusCode >= 300 {
		text, _ := io.ReadAll(io.LimitReader(resp.Body, 1000))
		return resp, fmt.Errorf("%s: %s", resp.Status, bytes.TrimSpace(text))
	}
	return resp, json.NewDecoder(resp.Body).Decode(into)
}

// waitForAll polls each order until it has ended.
func (l *loading) waitForAll(ctx context.Context, out io.Writer) error {
	ctx, cancel := context.WithTimeout(ctx, l.wait)
	defer cancel()
	ends := map[order.State]int{}
	for _, id := range l.ids {
		state, err := l.end(ctx, id)
		if err != nil {
			return err
		}
		ends[state]++
	}
	fmt.Fprintf(out, "%d confirmed, %d cancelled\n", ends[order.Confirmed], ends[order.Cancelled])
	return nil
}

func (l *loading) end(ctx context.Context, id string) (order.State, error) {
	for {
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, l.url+"/orders/"+id, nil)
		if err != nil {
			return "", err
		}
		var status order.Summary
		if _, _, err := l.do(req, &status); err != nil {
			return "", fmt.Errorf("state of order %s: %w", id, err)
		}
		if status.State.Ended() {
			return status.State, nil
		}
		select {
		case <-ctx.Done():
			return "", fmt.Errorf("%w: order %s is still %s", errFailed, id, status.State)
		case <-time.After(50 * time.Millisecond):
		}
	}
}
