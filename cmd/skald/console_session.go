package main

import (
	"crypto/rand"
	"crypto/subtle"
	"net/http"
	"sync"
)

// session is the only session of a console. The printed URL has a token that opens the session once. Without
// the token, other users of this machine can reach the address, but have no access.
type session struct {
	pages  http.Handler
	name   string // recorded in the audit
	jar    string // the name of the cookie; unique, because browsers share cookies between ports
	cookie string
	mu     sync.Mutex
	token  string // empty after its use
}

func newSession() *session {
	id := rand.Text()[:8]
	return &session{name: "console session " + id, jar: "skald_console_" + id, cookie: rand.Text(),
		token: rand.Text()}
}

const (
	tokenArg   = "token"
	cookieHint = "this console has one session: open the URL that `skald console` printed. " +
		"Its token works once; restart the console for a new token"
)

// ServeHTTP serves requests with the cookie of the session. A request with the token gets that cookie.
func (s *session) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if c, err := r.Cookie(s.jar); err == nil && same(c.Value, s.cookie) {
		s.pages.ServeHTTP(w, r)
		return
	}
	query := r.URL.Query()
	if r.Method != http.MethodGet || !s.open(query.Get(tokenArg)) {
		w.Header().Set("Cache-Control", "no-store")
		http.Error(w, cookieHint, http.StatusForbidden)
		return
	}
	http.SetCookie(w, &http.Cookie{Name: s.jar, Value: s.cookie, Path: "/", HttpOnly: true,
		SameSite: http.SameSiteStrictMode})
	query.Del(tokenArg)
	to := *r.URL
	to.RawQuery = query.Encode()
	http.Redirect(w, r, to.RequestURI(), http.StatusSeeOther)
}

// open returns true for the printed token, and invalidates it.
func (s *session) open(token string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.token == "" || !same(token, s.token) {
		return false
	}
	s.token = ""
	return true
}

func same(a, b string) bool { return subtle.ConstantTimeCompare([]byte(a), []byte(b)) == 1 }
