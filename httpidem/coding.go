// This file compares the Content-Encoding of a stored answer with a request's Accept-Encoding.

package httpidem

import (
	"net/http"
	"strconv"
	"strings"
)

// accepts reports whether a request accepts the Content-Encoding of an answer. A request without
// Accept-Encoding accepts no encoding, because most clients that omit it cannot decode one.
func accepts(request, answer http.Header) bool {
	wanted := map[string]bool{}
	for part := range strings.SplitSeq(strings.Join(request.Values("Accept-Encoding"), ","), ",") {
		name, params, _ := strings.Cut(part, ";")
		if name = strings.ToLower(strings.TrimSpace(name)); name != "" {
			wanted[name] = !refusedBy(params)
		}
	}
	for part := range strings.SplitSeq(strings.Join(answer.Values("Content-Encoding"), ","), ",") {
		name := strings.TrimPrefix(strings.ToLower(strings.TrimSpace(part)), "x-")
		if name == "" || name == "identity" {
			continue
		}
		if is, named := wanted[name]; !is && (named || !wanted["*"]) {
			return false
		}
	}
	return true
}

// refusedBy reports whether the parameters of an encoding have the weight 0.
func refusedBy(params string) bool {
	for param := range strings.SplitSeq(params, ";") {
		name, value, _ := strings.Cut(param, "=")
		if strings.EqualFold(strings.TrimSpace(name), "q") {
			q, err := strconv.ParseFloat(strings.TrimSpace(value), 64)
			return err == nil && q == 0
		}
	}
	return false
}

// negotiates reports whether an answer to r has a Content-Encoding that r accepts.
func negotiates(r *http.Request, answer http.Header) bool {
	return answer.Get("Content-Encoding") != "" && accepts(r.Header, answer)
}
