package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/sr"

	"github.com/skald-go/skald"
	"github.com/skald-go/skald/examples/shop/event"
	"github.com/skald-go/skald/examples/shop/gateway"
	"github.com/skald-go/skald/examples/shop/mail"
	"github.com/skald-go/skald/examples/shop/place"
	"github.com/skald-go/skald/examples/shop/service"
	"github.com/skald-go/skald/examples/shop/wire"
	"github.com/skald-go/skald/health"
)

const (
	retryEvery = time.Second
	logEvery   = 5 * time.Second
)

type serving struct {
	store, broker, listen, prefix, instance, metrics, answer, gateway, mail string
	ask                                                                     place.Elsewhere
	older, orchestrated                                                     bool
	payments                                                                wire.Form
	names                                                                   []string
	out                                                                     io.Writer
	log                                                                     *slog.Logger
	seen                                                                    *sight
}

func serve(ctx context.Context, args []string, out, errs io.Writer) error {
	s := serving{ask: place.Elsewhere{}, out: out, log: slog.New(slog.NewTextHandler(errs, nil))}
	f := flags("serve")
	f.StringVar(&s.store, "store", os.Getenv("SKALD_STORE"), "")
	f.StringVar(&s.broker, "broker", os.Getenv("SKALD_BROKER"), "")
	f.StringVar(&s.listen, "listen", "127.0.0.1:8080", "where the Order service listens")
	f.StringVar(&s.prefix, "prefix", "", prefixUsage)
	f.StringVar(&s.instance, "instance", "1",
		"the stable name of this instance among those of the same service")
	f.StringVar(&s.metrics, "metrics", "", "serve /metrics for Prometheus at this address")
	f.StringVar(&s.answer, "answer", "",
		"report at this address what holds up orders here, for the process of Order")
	f.Func("ask", "NAME=URL of a service in another process, for the status of orders; repeat for each",
		s.ask.Add)
	f.StringVar(&s.gateway, "gateway", "", "the gateway of Payment; none: one in its own database")
	f.StringVar(&s.mail, "mail", "", "HOST:PORT of the mail server of Notification; none: mails are only recorded")
	f.BoolVar(&s.older, "older", false, "instances of a build without steps are running, or were")
	f.BoolVar(&s.orchestrated, "orchestrated", false,
		"a saga in Order runs the process; the same for all services of the shop")
	payments := f.String("payments", "json",
		"format of payment.taken: json, avro, protobuf; avro:1 and protobuf:1 are an old build")
	registry := f.String("registry", "", "the schema registry of avro and protobuf")
	names, err := parse(f, args, 1)
	if err == nil {
		s.payments, err = form(*payments, *registry)
	}
	if err != nil {
		return err
	}
	switch {
	case len(names) == 0:
		return &place.UsageError{What: "give a service: all, " + strings.Join(service.Names(), ", ")}
	case names[0] == "all":
		s.names = service.Names()
	case slices.Contains(service.Names(), names[0]):
		s.names = names
	default:
		return &place.UsageError{What: fmt.Sprintf("unknown service %q: the services are all, %s", names[0],
			strings.Join(service.Names(), ", "))}
	}
	if err := s.asks(); err != nil {
		return err
	}
	return s.run(ctx)
}

// form returns the format of payment.taken.
func form(payments, registry string) (wire.Form, error) {
	f, err := wire.Parse(payments)
	switch {
	case err != nil:
		return f, &place.UsageError{What: "--payments: " + err.Error()}
	case (f.Language == wire.JSON) != (registry == ""):
		return f, &place.UsageError{What: "--payments avro and protobuf need --registry URL, and json does not use it"}
	case registry == "":
		return f, nil
	}
	if f.Registry, err = sr.NewClient(sr.URLs(registry)); err != nil {
		return f, &place.UsageError{What: "--registry: " + err.Error()}
	}
	return f, nil
}

// asks checks that --ask is used by the process of Order, and only for services of other processes.
func (s serving) asks() error {
	if len(s.ask) > 0 && !slices.Contains(s.names, "order") {
		return &place.UsageError{
			What: "--ask is for the process that serves order: give --ask there, and --answer here"}
	}
	for _, name := range s.names {
		if s.ask[name] != "" {
			return &place.UsageError{What: fmt.Sprintf(
				"--ask %s: this process serves it and always asks it: leave it out", name)}
		}
	}
	return nil
}

func (s serving) run(ctx context.Context) (err error) {
	shop, err := place.Open(s.store, schemaPrefix(s.prefix))
	if err != nil {
		return err
	}
	bus, err := place.OpenBus(s.broker)
	if err != nil {
		return err
	}
	if bus.InProcess && len(s.names) < len(service.Names()) {
		return &place.UsageError{What: "mem: is a broker within one process: serve all, or use another broker"}
	}
	if s.seen, err = newSight(ctx, s.metrics, s.out); err != nil {
		return err
	}
	defer func() { s.seen.close(ctx, s.log); err = errors.Join(err, shop.Close(), bus.Close()) }()
	runners := s.seen.runners()
	if s.answer != "" {
		web, at, err := listen(s.answer, shop.Answer())
		if err != nil {
			return fmt.Errorf("--answer: %w", err)
		}
		fmt.Fprintf(s.out, "answers: http://%s\n", at)
		runners = append(runners, web)
	}
	for _, name := range s.names {
		more, err := s.ready(ctx, name, shop, bus)
		if err != nil {
			return err
		}
		runners = append(runners, more...)
	}
	if ctx.Err() != nil {
		return nil
	}
	return skald.Run(ctx, runners...)
}

// ready prepares a service. It waits for unavailable servers until ctx ends.
func (s serving) ready(ctx context.Context, name string, shop place.Shop,
	bus *place.Bus) (runners []skald.Runner, err error) {
	err = waiting(ctx, s.log, name, func() error {
		runners, err = s.try(ctx, name, shop, bus)
		return err
	})
	return runners, err
}

// waiting repeats try while a server is unavailable. It returns nil once ctx has ended.
func waiting(ctx context.Context, log *slog.Logger, name string, try func() error) error {
	var logged time.Time
	for {
		err := try()
		if ctx.Err() != nil || !place.Away(err) {
			return unlessStopped(ctx, err)
		}
		if time.Since(logged) >= logEvery {
			logged = time.Now()
			log.Warn("waiting for a server", "service", name, "error", err)
		}
		select {
		case <-ctx.Done():
		case <-time.After(retryEvery):
		}
	}
}

func unlessStopped(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return nil
	}
	return err
}

func (s serving) try(ctx context.Context, name string, shop place.Shop,
	bus *place.Bus) ([]skald.Runner, error) {
	client, err := bus.Connect(name)
	if err != nil {
		return nil, err
	}
	// A migration may take longer than patience: it gives way to open transactions, retries, and ends by
	// itself.
	if err := shop.Prepare(ctx, name); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	events := event.New(s.prefix)
	if s.orchestrated {
		events.Style = event.Orchestrated
	}
	if err := place.MakeTopics(ctx, client, events, 0); err != nil {
		return nil, err
	}
	o := &service.Options{Style: events.Style, Prefix: s.prefix, Instance: s.instance, Older: s.older,
		Payments: s.payments}
	o.Where = shop.Where(s.ask)
	o.Inbox.Logger, o.Relay.Logger, o.Saga.Logger = s.log, s.log, s.log
	if s.gateway != "" {
		o.Gateway = gateway.NewClient(s.gateway)
	}
	if s.mail != "" {
		o.Mail = mail.NewClient(s.mail)
	}
	tracers, err := s.seen.into(o, name)
	if err != nil {
		return nil, err
	}
	one, err := shop.Service(ctx, name, client, o)
	if err != nil {
		return nil, err
	}
	one.Watched(s.seen.health)
	runners := one.Runners()
	if h := one.HTTP(); h != nil {
		web, at, err := listen(s.listen, traced(h, tracers))
		if err != nil {
			return nil, err
		}
		fmt.Fprintf(s.out, "orders: http://%s/orders\n", at)
		runners = append(runners, web)
	}
	s.log.Info("serving", "service", name, "instance", s.instance)
	return runners, nil
}

// listen binds addr for a server of h.
func listen(addr string, h http.Handler) (*health.Server, net.Addr, error) {
	web := health.NewServer(&http.Server{Addr: addr, Handler: h, ReadTimeout: 30 * time.Second,
		WriteTimeout: time.Minute}, nil)
	at, err := web.Listen()
	if err != nil {
		return nil, nil, &place.UsageError{What: err.Error()}
	}
	return web, at, nil
}
