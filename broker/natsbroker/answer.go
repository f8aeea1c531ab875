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

// kindOf returns the consequence of an error that is no answer to one message.
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

// unsent returns the reason why nats.go did not accept a message.
func (p *publisher) unsent(err error) error {
	if kindOf(err) == perkey.Refused {
		return err
	}
	return p.orUnavailable(err)
}

// forbid refuses the messages to a subject that NATS refused without an answer to the message.
func (p *publisher) forbid(err error) {
	if !errors.Is(err, nats.ErrPermissionViolation) {
		return // the affected calls report it
	}
	p.hear(err)
	p.Mu.Lock()
	defer p.Mu.Unlock()
	for it := range p.Lines.Flying() {
		if strings.Contains(strings.ToLower(err.Error()), `publish to "`+strings.ToLower(it.Out.msg.Subject)+
			`"`) {
			p.Lines.Down(it, perkey.Refused, fmt.Errorf("publish to %q: %w", it.Topic, err))
		}
	}
}

// errTooLarge is JetStream's code for a message above its stream's max_msg_size.
const errTooLarge jetstream.ErrorCode = 10054

// errNotStored is JetStream's code for a message without room in its stream: max_msgs or max_bytes with
// discard new. It concerns only that stream.
const errNotStored jetstream.ErrorCode = 10077

// answer processes the answer of JetStream to one message.
func (p *publisher) answer(m *nats.Msg) {
	token, _ := strconv.ParseUint(m.Subject[len(p.inbox):], 10, 64) // 0 is no message
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
	case m.Header.Get("Status") == "503": // no responder: the stream is missing, or has no leader
		p.relook(it)
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

// relook sends a message without a responder again, after it has read the topic again.
func (p *publisher) relook(it *item) {
	delete(p.Topics, it.Topic)
	if it.Out.again || p.Lines.Closed() {
		p.Doubt(it, fmt.Errorf("publish to %q: its stream has no leader: %w", it.Topic, nats.ErrNoResponders))
		return
	}
	it.Out.again = true
	p.Lines.SendLast(it)
}
