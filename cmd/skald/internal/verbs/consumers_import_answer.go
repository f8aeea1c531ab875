package verbs

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/skald-go/skald/httpidem"
	"github.com/skald-go/skald/inbox"
	"github.com/skald-go/skald/once"
)

// answered is the answer in one line of an imported file.
type answered struct {
	Code    int                `json:"code"`
	Body    *string            `json:"body"`
	Headers map[string]oneMany `json:"headers"`
	Refused string             `json:"refused"` // the reason of a final refusal; empty without a refusal
}

// oneMany is one or several values of a header.
type oneMany []string

func (m *oneMany) UnmarshalJSON(b []byte) error {
	var one string
	if json.Unmarshal(b, &one) == nil {
		*m = oneMany{one}
		return nil
	}
	return json.Unmarshal(b, (*[]string)(m))
}

// addTo adds the answer, if there is one, to the finished message. For the consumer of an HTTP endpoint, it
// also converts the ID to the form in which package httpidem stores an idempotency key.
func (a *answered) addTo(message *inbox.Finished, consumer string) (err error) {
	endpoint := strings.HasPrefix(consumer, httpidem.Scope(""))
	if endpoint && message.ID != "" {
		if message.ID, err = httpidem.Key(message.ID); err != nil {
			return err
		}
	}
	switch {
	case a.Code == 0 && a.Body == nil && a.Headers == nil && a.Refused == "":
		return nil
	case endpoint:
		message.Answer, err = a.ofEndpoint()
	default:
		message.Answer, err = a.ofOnce()
	}
	if err == nil && a.Refused != "" {
		message.Answer.Rejected, message.Answer.Reason = true, a.Refused
	}
	return err
}

func (a *answered) ofOnce() (*once.Answer, error) {
	if a.Headers != nil || a.Refused == "" && (a.Body == nil || a.Code != 0) ||
		a.Body != nil && !json.Valid([]byte(*a.Body)) {
		return nil, errors.New("an answer of once.Do is a JSON body, and a code only with refused; an answer with headers needs an endpoint: --consumer http:NAME")
	}
	out := &once.Answer{Code: int32(a.Code)}
	if a.Body != nil {
		out.Result = *a.Body
	}
	return out, nil
}

func (a *answered) ofEndpoint() (*once.Answer, error) {
	header, body := http.Header{}, ""
	for name, values := range a.Headers {
		for _, v := range values {
			header.Add(name, v)
		}
	}
	if a.Body != nil {
		body = *a.Body
	}
	kept, err := httpidem.Answered(a.Code, header, []byte(body))
	return &kept, err
}

// answeredIn adds the answer in a line of CSV to the finished message.
func answeredIn(names, line []string, message *inbox.Finished, consumer string) error {
	var a answered
	column := func(name string) (string, bool) {
		i := slices.Index(names, name)
		return line[max(i, 0)], i >= 0
	}
	if text, there := column("code"); there && text != "" {
		n, err := strconv.Atoi(text)
		if err != nil {
			return fmt.Errorf("code: %w", err)
		}
		a.Code = n
	}
	if text, there := column("body"); there && (text != "" || a.Code != 0) {
		a.Body = &text
	}
	if text, there := column("refused"); there {
		a.Refused = text
	}
	if text, there := column("headers"); there && text != "" {
		if err := json.Unmarshal([]byte(text), &a.Headers); err != nil {
			return fmt.Errorf("headers: %w", err)
		}
	}
	return a.addTo(message, consumer)
}
