package console_test

import (
	"bytes"
	"encoding/json"
	"mime/multipart"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

// An invalid filter is refused, because ignoring it would select everything.
func TestUnreadableFilter(t *testing.T) {
	db := kept(t, 2)
	b := open(t, of(db), nil)
	form := b.form(b.page("/act?verb=drop&in=orders&consumer=payment"), "/act")
	form.Set("reason", "only those of nosuch;eu")
	form.Del("consumer")
	for _, query := range []string{"consumer=nosuch;eu", "consumer=%zz", "consumer=%"} {
		for _, path := range []string{"/dead?", "/dead/groups?", "/parked?", "/audit?", "/sagas?",
			"/act?verb=drop&in=orders&"} {
			if w := b.do(http.MethodGet, path+query, nil); w.Code != http.StatusBadRequest ||
				!strings.Contains(w.Body.String(), "%3B for a semicolon") {
				t.Errorf("GET %s%s: %d: %s", path, query, w.Code, w.Body)
			}
		}
		if w := b.do(http.MethodPost, "/act?"+query, form); w.Code != http.StatusBadRequest {
			t.Errorf("POST with %s: %d: %s", query, w.Code, w.Body)
		}
	}
	if state(t, db, "d-0") != "dead" || len(audits(t, db)) > 0 {
		t.Errorf("something was done: %v", audits(t, db))
	}
}

// The arguments of a GET are only in its URL: a body is not read.
func TestBodyOfGet(t *testing.T) {
	b := open(t, of(kept(t, 2)), nil)
	var body bytes.Buffer
	parts := multipart.NewWriter(&body)
	if err := parts.WriteField("consumer", "nosuch"); err != nil {
		t.Fatal(err)
	}
	if err := parts.Close(); err != nil {
		t.Fatal(err)
	}
	all := body.Len()
	r := httptest.NewRequestWithContext(t.Context(), http.MethodGet,
		"http://127.0.0.1:7780/ops/act?verb=drop&in=orders&consumer=payment", &body)
	r.RemoteAddr = "127.0.0.1:4711"
	r.Header.Set("Content-Type", parts.FormDataContentType())
	r.Header.Set("Accept", "application/json")
	w := httptest.NewRecorder()
	b.h.ServeHTTP(w, r)
	var plan struct{ Selected int }
	if err := json.Unmarshal(w.Body.Bytes(), &plan); err != nil || plan.Selected != 3 || body.Len() != all {
		t.Errorf("%d: %s; %d of %d bytes are left", w.Code, w.Body, body.Len(), all)
	}
}

// A body of another type is refused with the expected type.
func TestTypeOfForm(t *testing.T) {
	b := open(t, of(kept(t, 1)), nil)
	form := b.form(b.page("/act?verb=drop&in=orders&consumer=payment&id=d-0&source=%2Fshop"), "/act")
	w := b.do(http.MethodPost, "/act", form, "Content-Type", "application/json", "X-Skald-Token",
		form.Get("token"))
	if w.Code != http.StatusUnsupportedMediaType ||
		!strings.Contains(w.Body.String(), "application/x-www-form-urlencoded") {
		t.Errorf("%d: %s", w.Code, w.Body)
	}
}
