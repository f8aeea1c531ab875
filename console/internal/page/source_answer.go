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

// unanswered converts the error of a query to an error with an HTTP status and a text for the user.
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

// Why returns a text for the user about the error of a source. An error of a server may contain private
// data, so Why writes it only to the log.
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
