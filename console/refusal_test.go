package console_test

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"
)

// Impossible numbers are refused before anything is recorded, on the page and in its form.
func TestNumbersOfARate(t *testing.T) {
	db := kept(t, 2)
	b := open(t, of(db), nil)
	const query = "consumer=payment&in=orders&verb=redrive&fingerprint=" + failing
	form := b.form(b.page("/act?"+query), "/act")
	form.Set("reason", "the bank is back")
	for name, values := range map[string][]string{"max_errors": {"NaN", "7", "Inf", "-1", "x"},
		"rate": {"NaN", "Inf", "0.0000000001", "1e300", "-1"}} {
		for _, value := range values {
			form.Del("rate")
			form.Del("max_errors")
			form.Set(name, value)
			for _, w := range []int{b.do(http.MethodPost, "/act", form).Code, b.do(http.MethodGet,
				"/act?"+query+"&"+name+"="+value, nil, "Accept", "application/json").Code} {
				if w != http.StatusBadRequest {
					t.Errorf("%s=%s: %d", name, value, w)
				}
			}
		}
	}
	if state(t, db, "d-0") != "dead" || len(audits(t, db)) > 0 {
		t.Errorf("something was noted: %v", audits(t, db))
	}
}

// Each failure is a problem by RFC 9457, and a page that names the remedy.
func TestProblems(t *testing.T) {
	db := kept(t, 1)
	b := open(t, of(db), nil)
	form := b.form(b.page("/act?consumer=payment&id=d-0&in=orders&source=%2Fshop&verb=drop"), "/act")
	unseen := b.form(b.page("/act?consumer=payment&id=d-0&in=orders&source=%2Fshop&verb=drop"), "/act")
	unseen.Set("reason", "why not")
	unseen.Set("seen", "other")
	long := b.form(b.page("/act?consumer=payment&id=other&in=orders&source=%2Fshop&verb=drop"), "/act")
	long.Set("reason", strings.Repeat("ü", 1001))
	for _, c := range []struct {
		method, path string
		form         map[string][]string
		code         int
		allow        string
	}{
		{"GET", "/nothing", nil, 404, ""}, {"POST", "/nothing", nil, 404, ""},
		{"POST", "/dead", nil, 405, "GET, HEAD"}, {"DELETE", "/act", nil, 405, "GET, HEAD, POST"},
		{"GET", "/run/stop", nil, 405, "POST"}, {"POST", "/act", unseen, 409, ""},
		{"POST", "/act", form, 422, ""}, {"POST", "/act", long, 422, ""},
		{"GET", "/act?in=orders&verb=compensate&many=1&key=o-1", nil, 400, ""},
	} {
		w := b.do(c.method, c.path, c.form, "Accept", "application/json")
		var got struct {
			Status        int
			Title, Detail string
		}
		if err := json.Unmarshal(w.Body.Bytes(), &got); err != nil || w.Code != c.code ||
			got.Status != c.code || got.Detail == "" || got.Title != http.StatusText(c.code) ||
			w.Header().Get("Content-Type") != "application/problem+json" ||
			w.Header().Get("Allow") != c.allow {
			t.Errorf("%s %s: %d, %v: %s", c.method, c.path, w.Code, w.Header(), w.Body)
		}
		if w := b.do(c.method, c.path, c.form); w.Code != c.code ||
			!strings.Contains(w.Body.String(), "<nav ") {
			t.Errorf("%s %s: %d: %s", c.method, c.path, w.Code, w.Body)
		}
	}
	long.Set("reason", strings.Repeat("ü", 1000))
	if w := b.do(http.MethodPost, "/act", long); w.Code != http.StatusSeeOther ||
		state(t, db, "other") != "gone" {
		t.Errorf("a reason of 1,000 letters: %d: %s", w.Code, w.Body)
	}
}

// A proxy may change the host that a browser's Origin is compared with.
func TestBehindAProxy(t *testing.T) {
	db := kept(t, 1)
	b := open(t, of(db), nil)
	form := b.form(b.page("/act?consumer=payment&id=d-0&in=orders&source=%2Fshop&verb=drop"), "/act")
	form.Set("reason", "nobody needs it")
	if w := b.do(http.MethodPost, "/act", form, "Origin", "https://ops.example", "Sec-Fetch-Site",
		"same-origin"); w.Code != http.StatusSeeOther || state(t, db, "d-0") != "gone" {
		t.Errorf("%d: %s", w.Code, w.Body)
	}
}
