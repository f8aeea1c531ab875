package saga_test

import (
	"strings"
	"testing"

	"github.com/skald-go/skald"
	"github.com/skald-go/skald/saga"
	"github.com/skald-go/skald/store/memstore"
)

// TestReplyThatIsACommandIsRefused: NewEngine refuses a reply with the topic and type of a command, because
// the engine would take the command for the reply.
func TestReplyThatIsACommandIsRefused(t *testing.T) {
	send := func(saga.Run[order]) stand { return stand{} }
	same := skald.Event[string]{Topic: packIt.Topic, Type: packIt.Type}
	command := func(e skald.Event[stand], replies saga.Replies[string],
		undo saga.Option) *saga.Definition[order] {
		return saga.New(e.Type, &saga.Options[order]{Key: orderID},
			saga.Command("send", e, send, replies, undo))
	}
	for name, defs := range map[string][]saga.Defined{
		"its own":   {command(packIt, saga.Reply(same), saga.NoEffect())},
		"a refusal": {command(packIt, saga.Reply(packed, saga.RefusedBy(same, nil)), saga.NoEffect())},
		"its undo's": {command(packIt, saga.Reply(packed),
			saga.UndoBy(unpackIt, send, saga.Reply(same)))},
		"another saga's": {command(packIt, saga.Reply(packed), saga.NoEffect()),
			command(unpackIt, saga.Reply(same), saga.NoEffect())},
		"by another order": {command(unpackIt, saga.Reply(same), saga.NoEffect()),
			command(packIt, saga.Reply(packed), saga.NoEffect())},
	} {
		_, err := saga.NewEngine(memstore.New(nil), nil, defs...)
		if err == nil || !strings.Contains(err.Error(), `the command of step "send" of the saga "pack"`) ||
			!strings.Contains(err.Error(), `has the type "pack" on the topic "packing"`) {
			t.Errorf("%s: NewEngine returns %v", name, err)
		}
	}
	if _, err := saga.NewEngine(memstore.New(nil), nil, packing()); err != nil {
		t.Errorf("a right one: %v", err)
	}
}
