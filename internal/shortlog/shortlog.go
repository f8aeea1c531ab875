// Package shortlog formats texts for logs, terminals and shells. Other programs choose keys, IDs and error
// texts, so these may be very long, or have control characters.
package shortlog

import (
	"context"
	"log/slog"
	"slices"
	"strconv"
	"strings"
)

const (
	mostText  = 256     // limits the bytes of a text
	mostError = 4 << 10 // limits the bytes of an error, which may have several parts
)

// New returns a logger that writes to l, but cuts each text after 256 bytes and each error after 4 KiB. It
// adds the length of the original text.
func New(l *slog.Logger) *slog.Logger {
	if _, short := l.Handler().(handler); short {
		return l
	}
	return slog.New(handler{l.Handler()})
}

type handler struct{ slog.Handler }

// Handle cuts the attributes of r, and writes r.
func (h handler) Handle(ctx context.Context, r slog.Record) error {
	out := slog.NewRecord(r.Time, r.Level, r.Message, r.PC)
	r.Attrs(func(a slog.Attr) bool {
		out.AddAttrs(cut(a))
		return true
	})
	return h.Handler.Handle(ctx, out)
}

// WithAttrs returns a handler with these attributes, cut in the same way.
func (h handler) WithAttrs(as []slog.Attr) slog.Handler {
	short := make([]slog.Attr, len(as))
	for i, a := range as {
		short[i] = cut(a)
	}
	return handler{h.Handler.WithAttrs(short)}
}

// WithGroup returns a handler that also cuts attributes.
func (h handler) WithGroup(name string) slog.Handler { return handler{h.Handler.WithGroup(name)} }

func cut(a slog.Attr) slog.Attr {
	switch a.Value.Kind() {
	case slog.KindString:
		if s := a.Value.String(); len(s) > mostText {
			return slog.String(a.Key, Text(s, mostText))
		}
	case slog.KindGroup:
		group := slices.Clone(a.Value.Group())
		for i := range group {
			group[i] = cut(group[i])
		}
		return slog.Attr{Key: a.Key, Value: slog.GroupValue(group...)}
	case slog.KindAny:
		if list, is := a.Value.Any().([]string); is {
			list = slices.Clone(list)
			for i := range list {
				list[i] = Text(list[i], mostText)
			}
			return slog.Any(a.Key, list)
		}
		if err, is := a.Value.Any().(error); is && err != nil {
			if s := err.Error(); len(s) > mostError {
				return slog.String(a.Key, Text(s, mostError))
			}
		}
	}
	return a
}

// Text returns s, cut to about limit bytes. If it cuts s, it adds the original length.
func Text(s string, limit int) string {
	if len(s) <= limit {
		return s
	}
	return strings.ToValidUTF8(s[:limit], "\ufffd") + "… (" + strconv.Itoa(len(s)) + " bytes)"
}
