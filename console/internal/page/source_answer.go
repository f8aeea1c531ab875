package page

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"

	"github.com/skald-go/skald/operate"
	"github.com/skald-go/skald/store"
)

// unanswered converts the error of a single source to a refusal with a status.
func (t *set) unanswered(ctx context.Context, name string, err error) error {
	var refusal *refusalError
	var usage *operate.UsageError
	var none *operate.NoMatchError
	var unknown *operate.UnknownConsumerError
	switch {
	case errors.As(err, &refusal):
		return refusal
	case errors.As(err, &usage):
		return NewRefusal(http.StatusBadRequest, "%s", usage.Reason)
	case errors.As(err, &none):
		return NewRefusal(http.StatusNotFound, "%s", none.Reason)
	case errors.As(err, &unknown):
		return NewRefusal(http.StatusNotFound, "%s", unknown.Error())
	}
	return NewRefusal(http.StatusServiceUnavailable, "%s: %s", name, t.Why(ctx, name, err))
}

// Why returns the text of a source's error for the page. A server's error may contain private names, so it
// goes only to the log.
func (t *set) Why(ctx context.Context, name string, err error) string {
	switch {
	case errors.Is(err, ErrBusy):
		return "busy: too many concurrent requests"
	case errors.Is(err, context.DeadlineExceeded):
		return fmt.Sprintf("no answer within %v", t.deadline)
	case errors.Is(err, context.Canceled):
		return "the request ended"
	case store.Incurable(err):
		return strings.ToValidUTF8(err.Error(), "?")
	}
	t.log.WarnContext(ctx, "console: no answer", "source", name, "error", err)
	return "its database did not answer: see the log of the console"
}
