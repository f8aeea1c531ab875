package natsbroker

import (
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/skald-go/skald/broker"
	"github.com/skald-go/skald/internal/perkey"
)

// kindOf says what an error means that was not an answer to the message itself.
func kindOf(err error) perkey.Kind {
	for _, no := range []error{broker.ErrNoTopic, errSetting, errCannotCarry, nats.ErrMaxPayload, nats.ErrBadSubject, nats.ErrBadHeaderMsg} {
		if errors.Is(err, no) {
			return perkey.Refused
		}
	}
	return perkey.Outage
}

// unsent is why nats.go did not take a message.
func (p *publisher) unsent(err error) error {
	if kindOf(err) == perkey.Refused {
		return err
	}
	return p.orAway(err)
}

// forbid is told what NATS refused without an answer to the message: what went to that subject is refused.
func (p *publisher) forbid(err error) {
	if !errors.Is(err, nats.ErrPermissionViolation) {
		return // told by the calls that it hits
	}
	p.hear(err)
	p.mu.Lock()
	defer p.mu.Unlock()
	for it := range p.lines.Flying() {
		if strings.Contains(strings.ToLower(err.Error()), `publish to "`+strings.ToLower(it.Out.msg.Subject)+`"`) {
			p.lines.Down(it, perkey.Refused, fmt.Errorf("publish to %q: %w", it.Topic, err))
		}
	}
}

// errTooLarge is JetStream's code for a message above its stream's max_msg_size.
const errTooLarge jetstream.ErrorCode = 10054

// answer hears from JetStream about one message.
func (p *publisher) answer(m *nats.Msg) {
	token, _ := strconv.ParseUint(m.Subject[len(p.inbox):], 10, 64) // no message has 0
	p.mu.Lock()
	defer p.mu.Unlock()
	it := p.lines.Aloft(token)
	if it == nil {
		return
	}
	p.lines.Land(it)
	var ack struct {
		Stream string              `json:"stream"`
		Error  *jetstream.APIError `json:"error"`
	}
	switch err := json.Unmarshal(m.Data, &ack); {
	case m.Header.Get("Status") == "503": // nobody listens: no such stream, or nobody leads it
		p.relook(it)
	case err != nil || ack.Error == nil && ack.Stream == "":
		p.lines.Fail(it, perkey.Outage, fmt.Errorf("publish to %q: %w: an answer that is none of JetStream's", it.Topic, broker.ErrAway))
	case ack.Error == nil:
		p.lines.Done(it)
	case ack.Error.ErrorCode == errTooLarge:
		p.lines.Fail(it, perkey.Refused, fmt.Errorf("publish to %q: %w", it.Topic, ack.Error))
	case ack.Error.Code >= 500:
		p.lines.Fail(it, perkey.Outage, fmt.Errorf("publish to %q: %w: %w", it.Topic, broker.ErrAway, ack.Error))
	default:
		delete(p.topics, it.Topic)
		p.lines.Fail(it, perkey.Failed, fmt.Errorf("publish to %q: %w", it.Topic, ack.Error))
	}
}

// relook sends once more what nobody listened to, after another look at the topic.
func (p *publisher) relook(it *item) {
	delete(p.topics, it.Topic)
	if it.Out.again || p.lines.Closed() {
		p.lines.Fail(it, perkey.Outage, fmt.Errorf("publish to %q: %w: nobody leads its stream", it.Topic, broker.ErrAway))
		return
	}
	it.Out.again = true
	p.lines.Again(it)
}

func (p *publisher) refuse(it *item, k perkey.Kind, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.lines.Fail(it, k, err)
}
