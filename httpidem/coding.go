package httpidem

import (
	"net/http"
	"strconv"
	"strings"
)

// accepts tells whether a request asks for the Content-Encoding of an answer. One without Accept-Encoding
// asks for none: clients that send no such header mostly cannot read one.
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

// refusedBy tells of the parameters of a coding whether their weight is 0.
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

// negotiates tells whether an answer to r has a Content-Encoding that r asked for.
func negotiates(r *http.Request, answer http.Header) bool {
	return answer.Get("Content-Encoding") != "" && accepts(r.Header, answer)
}
