package demo

import (
	"context"
	"errors"
)

// Remove removes the objects of a run: its groups and topics, then its databases. It removes Order's
// database last, because this database has the record of the run. So if the process is killed, another call
// can continue. Before that, Remove checks that all objects belong to the run, and calls confirm with their
// description. It returns one line about the removed objects.
func Remove(ctx context.Context, o Options, confirm func(what string) error) (said string, err error) {
	s, err := openSite(&o)
	if err != nil {
		return "", err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	book, e, err := find(ctx, s, &o)
	if err != nil {
		return "", err
	}
	if e == nil {
		return "there is no demo at " + s.URL() + ": nothing to remove", s.Sweep()
	}
	release, err := s.Lock(ctx)
	if err != nil {
		return "", err
	}
	defer release()
	if e, err = book.find(ctx); err != nil {
		return "", err
	}
	if e == nil {
		return "", removed(s.URL())
	}
	b, err := open(o.Broker)
	if err != nil {
		return "", err
	}
	defer func() { err = errors.Join(err, b.Close()) }()
	topics, err := b.Made(ctx, e.onBus())
	if err == nil {
		err = s.Own(ctx)
	}
	if err == nil {
		err = confirm(s.Remains() + b.Remains(e.prefix))
	}
	if err == nil {
		err = b.Remove(ctx, e.prefix, topics)
	}
	if err != nil {
		return "", err
	}
	return s.Remove(ctx)
}
