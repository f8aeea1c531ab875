package inbox

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/skald-go/skald"
	"github.com/skald-go/skald/internal/held"
	"github.com/skald-go/skald/store"
)

// maxResult bounds what a handler may answer, encoded.
const maxResult = 64 << 10

// known answers a message whose identity is not fresh: it is finished, or is put where somebody decides. The quarantine is
// written before the message is acknowledged, and a repeat changes nothing in it.
func (in *Inbox[TTx]) known(ctx context.Context, e *entry, unit store.Unit[TTx], v store.Verdict, print int64) result {
	why := judge(v, print)
	what := conflict
	switch why {
	case store.TooOld:
		what = tooOld
	case store.Conflict:
	default:
		return in.repeat(ctx, e, unit, v)
	}
	stands, err := unit.Rollback(ctx, store.Effect{Quarantine: apartOf(in.group, e, why, print), Free: in.freed(e)})
	switch {
	case err != nil:
		return in.failure(ctx, e, in.db.Apply, fmt.Errorf("put %s into quarantine: %w", e.id.ID, err))
	case !stands[0]:
		return result{entry: e, what: stale} // it was claimed, and somebody else has it
	}
	in.tellApart(ctx, e, why)
	return result{entry: e, what: what}
}

func (in *Inbox[TTx]) tellApart(ctx context.Context, e *entry, why store.Outcome) {
	in.o.Logger.WarnContext(ctx, "inbox: message put into quarantine; see: skald inbox status", "consumer", in.group, "why", why.String(),
		"topic", e.Topic, "lane", e.Lane, "position", e.Position, "source", e.id.Source, "id", e.id.ID, "type", e.Type)
}

// again tells whether a repeat is to send again what was said.
func (in *Inbox[TTx]) again(e *entry, v store.Verdict) bool {
	return v.Said != "" && in.o.Again != nil && in.o.Again(e.Message)
}

// harmless tells of a message that was finished before whether nothing more is to be done about it.
func (in *Inbox[TTx]) harmless(e *entry, v store.Verdict) (yes bool) {
	defer func() {
		if recover() != nil {
			yes = false // the attempt at it will say so
		}
	}()
	return judge(v, in.print(e)) != store.Conflict && !in.again(e, v)
}

// repeat is done with that it was done before; what was said then is sent again where that is asked for.
func (in *Inbox[TTx]) repeat(ctx context.Context, e *entry, unit store.Unit[TTx], v store.Verdict) result {
	if !in.again(e, v) {
		_, _ = unit.Rollback(ctx) // nothing was written: a lost connection changes nothing
		return result{entry: e, what: duplicate}
	}
	rows, err := unsaid(v.Said)
	if err == nil {
		_, err = unit.Rollback(ctx, store.Effect{Rows: rows})
	}
	if err != nil {
		return in.failure(ctx, e, in.db.Apply, fmt.Errorf("say again what %s said: %w", e.id.ID, err))
	}
	return result{entry: e, what: duplicate}
}

// said is messages as one text.
func said(ms []skald.Message) (string, error) {
	list := make([]json.RawMessage, len(ms))
	for i := range ms {
		text, err := held.Encode(&ms[i])
		if err != nil {
			return "", err
		}
		list[i] = json.RawMessage(text)
	}
	b, err := json.Marshal(list)
	return string(b), err
}

func unsaid(text string) ([]skald.Message, error) {
	var list []json.RawMessage
	if err := json.Unmarshal([]byte(text), &list); err != nil {
		return nil, fmt.Errorf("read what was said: %w", err)
	}
	out := make([]skald.Message, len(list))
	for i, one := range list {
		var err error
		if out[i], err = held.Decode(string(one)); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// finish commits what the handler did and answered.
func (in *Inbox[TTx]) finish(ctx context.Context, e *entry, unit store.Unit[TTx], intake store.Intake, r Result) result {
	leaves, err := in.leaves(ctx, e, r, intake)
	if err != nil {
		return in.failure(ctx, e, unit.Rollback, fmt.Errorf("answer of %s: %w", e.id.ID, err))
	}
	return in.commit(ctx, e, unit, leaves, handled)
}

func (in *Inbox[TTx]) commit(ctx context.Context, e *entry, unit store.Unit[TTx], leaves store.Effect, what ending) result {
	var err error
	if leaves.Answer == nil && leaves.Step == nil && leaves.Free == nil && leaves.Release == nil && len(leaves.Rows) == 0 {
		err = in.end(ctx, e, unit)
	} else {
		err = in.end(ctx, e, unit, leaves)
	}
	if err == nil {
		return result{entry: e, what: what}
	}
	return in.failure(ctx, e, in.db.Apply, fmt.Errorf("commit %s: %w", e.id.ID, err))
}

// leaves is what a result leaves behind besides the handler's rows.
func (in *Inbox[TTx]) leaves(ctx context.Context, e *entry, r Result, intake store.Intake) (out store.Effect, err error) {
	if len(r.Say) > 0 {
		if out.Rows, err = in.with.Messages(skald.WithCause(ctx, e.Message), r.Say); err != nil {
			return out, err
		}
	}
	result, err := encoded(ctx, in.o.Codec, r.Value)
	if err != nil {
		return out, err
	}
	switch {
	case e.outcome == "":
		out.Step = answered(e.takes(), r.Code, result)
	case e.takes() != nil:
		out.Step = called(e.takes(), e.outcome, r.Code, result)
	case e.step != nil:
		out.Step = e.called(store.StepUndone)
	}
	out.Free = in.freed(e)
	mark := intake.Marks[0]
	mark.Code, mark.Result = r.Code, result
	if len(out.Rows) > 0 && in.o.Again != nil && in.o.Again(e.Message) {
		if mark.Said, err = said(out.Rows); err != nil {
			return out, err
		}
	}
	if mark.Code != 0 || mark.Result != "" || mark.Said != "" {
		out.Answer = &mark
	}
	return out, nil
}

// encoded is a result as it is stored.
func encoded(ctx context.Context, codec skald.Codec, v any) (string, error) {
	if v == nil {
		return "", nil
	}
	if codec == nil {
		codec = skald.JSON{}
	}
	var m skald.Message
	if err := codec.Encode(ctx, &m, v); err != nil {
		return "", fmt.Errorf("encode the result: %w", err)
	}
	if len(m.Data) > maxResult {
		return "", fmt.Errorf("the result is %d bytes, at most %d are kept with a mark: keep it in a table of yours", len(m.Data), maxResult)
	}
	return string(m.Data), nil
}
