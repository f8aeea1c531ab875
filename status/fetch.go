package status

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
)

// fetch reads from another service the sagas of the key, and the messages that block them there. If there are
// many keys, it sends several requests. It omits keys that are longer than Skald allows.
func (h *handler) fetch(ctx context.Context, at *url.URL, key string, keys [][]byte) (all part, err error) {
	keys = slices.DeleteFunc(slices.Clone(keys), func(k []byte) bool { return len(k) > maxKey })
	for some := range slices.Chunk(keys, maxKeys) {
		p, err := h.fetchPart(ctx, at, key, some)
		if err != nil {
			return part{}, err
		}
		all.Sagas, all.Held = p.Sagas, append(all.Held, p.Held...)
	}
	return all, nil
}

// fetchPart sends one request. It returns an error for each response except a valid answer.
func (h *handler) fetchPart(ctx context.Context, at *url.URL, key string, keys [][]byte) (p part, err error) {
	to := at.JoinPath(url.PathEscape(key), "held")
	ask := url.Values{}
	for _, k := range keys {
		ask.Add("key", base64.RawURLEncoding.EncodeToString(k))
	}
	to.RawQuery = ask.Encode()
	q, err := http.NewRequestWithContext(ctx, http.MethodGet, to.String(), http.NoBody)
	if err != nil {
		return part{}, err
	}
	r, err := h.o.Client.Do(q)
	if err != nil {
		return part{}, err
	}
	defer func() { err = errors.Join(err, r.Body.Close()) }()
	if r.StatusCode != http.StatusOK {
		return part{}, fmt.Errorf("it answered %s", r.Status)
	}
	text, err := io.ReadAll(io.LimitReader(r.Body, maxAnswer+1))
	if err != nil {
		return part{}, err
	}
	switch err := json.Unmarshal(text, &p); {
	case len(text) > maxAnswer:
		return part{}, fmt.Errorf("it answered more than %d bytes", maxAnswer)
	case err != nil:
		return part{}, fmt.Errorf("its answer is not the JSON of a status: %w", err)
	case p.Key != key || p.Held == nil || p.Sagas == nil:
		return part{}, fmt.Errorf("it answered for the key %.40q", p.Key)
	}
	return p, nil
}
