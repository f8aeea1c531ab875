package main

import (
	"crypto/rand"
	"crypto/subtle"
	"net/http"
	"sync"
)

// A session is that of whoever started the console. The URL that is printed has a token that opens it once;
// other users of the machine may reach the address, and have no token.
type session struct {
	pages  http.Handler
	name   string // noted with what is done
	jar    string // the name of its cookie: browsers give those of one address to each of its ports
	cookie string
	mu     sync.Mutex
	token  string // empty once it was used
}

func newSession() *session {
	id := rand.Text()[:8]
	return &session{name: "console session " + id, jar: "skald_console_" + id, cookie: rand.Text(),
		token: rand.Text()}
}

const (
	tokenArg   = "token"
	cookieHint = "this console answers who started it: open the URL that `skald console` has printed. " +
		"Its token works once; start the console again for another one"
)

// ServeHTTP lets a request of the session in, and begins the session for the token.
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

// open tells whether token is the one that was printed, and takes it back.
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
