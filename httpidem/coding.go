package httpidem

import (
	"net/http"
	"strconv"
	"strings"
)

// accepts returns true if a request accepts the Content-Encoding of an answer. A request without
// Accept-Encoding accepts none, because most clients without it cannot decode one.
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

// refusedBy returns true if the parameters of a coding have the weight 0.
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

// negotiates returns true if an answer to r has a Content-Encoding that r accepts.
func negotiates(r *http.Request, answer http.Header) bool {
	return answer.Get("Content-Encoding") != "" && accepts(r.Header, answer)
}
