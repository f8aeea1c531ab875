// This file processes the answers of JetStream to published messages.

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
	"github.com/skald-go/skald/broker/internal/cloudevents"
	"github.com/skald-go/skald/broker/internal/perkey"
)

// kindOf classifies an error that prevented the publication of a message. Refused means that a retry would
// fail too. Outage means that the state of the message is unknown.
func kindOf(err error) perkey.Kind {
	for _, no := range []error{broker.ErrNoTopic, errUnsafe, cloudevents.ErrCannotCarry,
		nats.ErrMaxPayload, nats.ErrBadSubject, nats.ErrBadHeaderMsg} {
		if errors.Is(err, no) {
			return perkey.Refused
		}
	}
	if errors.Is(err, perkey.ErrSilent) {
		return perkey.Failed
	}
	return perkey.Outage
}

// unsent returns the error for a message that nats.go did not accept.
func (p *publisher) unsent(err error) error {
	if kindOf(err) == perkey.Refused {
		return err
	}
	return p.orUnavailable(err)
}

// forbid handles an error that NATS sent without a message: the right to publish to a subject is missing.
// forbid refuses the unanswered messages to this subject.
func (p *publisher) forbid(err error) {
	if !errors.Is(err, nats.ErrPermissionViolation) {
		return // the affected calls return the error
	}
	p.noteConnect(err)
	p.Mu.Lock()
	defer p.Mu.Unlock()
	for it := range p.Lines.Flying() {
		if strings.Contains(strings.ToLower(err.Error()), `publish to "`+strings.ToLower(it.Out.msg.Subject)+
			`"`) {
			p.Lines.Down(it, perkey.Refused, fmt.Errorf("publish to %q: %w", it.Topic, err))
		}
	}
}

// errTooLarge is JetStream's code for a message above max_msg_size of its stream.
const errTooLarge jetstream.ErrorCode = 10054

// errNotStored is JetStream's code for a message for which its stream has no room: max_msgs or max_bytes,
// with discard new. Other streams are not affected.
const errNotStored jetstream.ErrorCode = 10077

// handleAnswer processes the answer of JetStream to one message.
func (p *publisher) handleAnswer(m *nats.Msg) {
	token, _ := strconv.ParseUint(m.Subject[len(p.inbox):], 10, 64) // 0 if it is no number; no message has 0
	p.Mu.Lock()
	defer p.Mu.Unlock()
	it := p.Lines.Aloft(token)
	if it == nil {
		return
	}
	p.Lines.Land(it)
	var ack struct {
		Stream string              `json:"stream"`
		Error  *jetstream.APIError `json:"error"`
	}
	switch err := json.Unmarshal(m.Data, &ack); {
	case m.Header.Get("Status") == "503": // no responders: the stream is missing, or has no leader
		p.sendAgain(it)
	case err != nil || ack.Error == nil && ack.Stream == "":
		p.Lines.Fail(it, perkey.Outage, fmt.Errorf("publish to %q: %w: an answer that is not JetStream's",
			it.Topic, broker.ErrUnavailable))
	case ack.Error == nil:
		p.Lines.Done(it)
	case ack.Error.ErrorCode == errTooLarge:
		p.Lines.Fail(it, perkey.Refused, fmt.Errorf("publish to %q: %w", it.Topic, ack.Error))
	case ack.Error.Code >= 500 && ack.Error.ErrorCode != errNotStored:
		p.Lines.Fail(it, perkey.Outage, fmt.Errorf("publish to %q: %w: %w", it.Topic,
			broker.ErrUnavailable, ack.Error))
	default:
		delete(p.Topics, it.Topic)
		p.Lines.Fail(it, perkey.Failed, fmt.Errorf("publish to %q: %w", it.Topic, ack.Error))
	}
}

// sendAgain sends a message again after an answer without a responder. Before that, the topic is read again.
// If this is the second such answer, the message fails.
func (p *publisher) sendAgain(it *item) {
	delete(p.Topics, it.Topic)
	if it.Out.again || p.Lines.Closed() {
		p.Doubt(it, fmt.Errorf("publish to %q: its stream has no leader: %w", it.Topic, nats.ErrNoResponders))
		return
	}
	it.Out.again = true
	p.Lines.SendLast(it)
}
