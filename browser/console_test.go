package browser

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"hash/crc32"
	"log/slog"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/chromedp"

	"github.com/skald-go/skald"
	"github.com/skald-go/skald/console"
	"github.com/skald-go/skald/flow"
	"github.com/skald-go/skald/saga"
	"github.com/skald-go/skald/store"
	"github.com/skald-go/skald/store/memstore"
)

var keepAt = flag.String("shots", "", "a folder for pictures of the pages")

// chromium is the program; without one the test is skipped, unless SKALD_TEST_REQUIRE is set.
func chromium(t *testing.T) string {
	t.Helper()
	if at := os.Getenv("SKALD_TEST_CHROMIUM"); at != "" {
		return at
	}
	for _, name := range []string{"chromium", "chromium-browser", "google-chrome"} {
		if at, err := exec.LookPath(name); err == nil {
			return at
		}
	}
	if os.Getenv("SKALD_TEST_REQUIRE") != "" {
		t.Fatal("there is no Chromium: scripts/services up chromium, or name one in SKALD_TEST_CHROMIUM")
	}
	t.Skip("there is no Chromium: scripts/services up chromium, or name one in SKALD_TEST_CHROMIUM")
	return ""
}

// browse opens a browser in a colour scheme.
func browse(t *testing.T, scheme string) context.Context {
	t.Helper()
	opts := append(chromedp.DefaultExecAllocatorOptions[:], chromedp.ExecPath(chromium(t)),
		chromedp.NoSandbox, chromedp.WindowSize(1300, 900),
		chromedp.UserDataDir(t.TempDir()), chromedp.WSURLReadTimeout(5*time.Minute))
	ctx, stop := chromedp.NewExecAllocator(t.Context(), opts...)
	t.Cleanup(stop)
	ctx, stop = chromedp.NewContext(ctx)
	t.Cleanup(stop)
	ctx, stop = context.WithTimeout(ctx, 5*time.Minute)
	t.Cleanup(stop)
	err := chromedp.Do(ctx, chromedp.Func(func(ctx context.Context, _ *chromedp.Target) error {
		_, err := chromedp.Call(ctx, emulation.SetEmulatedMedia,
			emulation.SetEmulatedMediaParams{Features: []*emulation.MediaFeature{
				{Name: "prefers-color-scheme", Value: scheme}}})
		return err
	}))
	if err != nil {
		t.Fatal(err)
	}
	return ctx
}

func do(t *testing.T, ctx context.Context, what ...chromedp.Action[chromedp.Void]) {
	t.Helper()
	if err := chromedp.Do(ctx, what...); err != nil {
		t.Fatal(err)
	}
}

// shot takes a picture of the page, if somebody wants it.
func shot(t *testing.T, ctx context.Context, name string) {
	t.Helper()
	if *keepAt == "" {
		return
	}
	png, err := chromedp.Run(ctx, chromedp.FullScreenshot(100))
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(*keepAt, name+".png"), png, 0o644); err != nil {
		t.Fatal(err)
	}
}

// text is what a page shows.
func text(t *testing.T, ctx context.Context) string {
	t.Helper()
	s, err := chromedp.Run(ctx, chromedp.Text(chromedp.CSS("main")))
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// until reloads nothing: the page itself has to follow what happens.
func until(t *testing.T, ctx context.Context, part string) {
	t.Helper()
	look := chromedp.Poll[bool](fmt.Sprintf("document.getElementById('main')?.innerText.includes(%q)", part),
		chromedp.WithPollingTimeout(5*time.Minute))
	for { // an error may be that the page was left while it was looked at
		_, err := chromedp.Run(ctx, look)
		if err == nil {
			return
		}
		if ctx.Err() != nil {
			t.Fatalf("%q: %v", part, err)
		}
	}
}

func click(name string) chromedp.Action[chromedp.Void] {
	return chromedp.Click(chromedp.Search(
		fmt.Sprintf("//main//a[contains(., %q)] | //main//button[contains(., %q)]", name, name)))
}

// A shop is three databases in which things went wrong.
type shop struct {
	orders, payments, stock *memstore.Store

	engine *saga.Engine[*memstore.Tx] // of payments
	van    *atomic.Bool
	ago    *atomic.Int64 // how far behind the clock of the stores is
}

func event(name string) skald.Event[string] { return skald.Event[string]{Topic: "orders", Type: name} }

func broken(t *testing.T) shop {
	t.Helper()
	s := shop{van: new(atomic.Bool), ago: new(atomic.Int64)}
	for _, db := range []**memstore.Store{&s.orders, &s.payments, &s.stock} {
		*db = memstore.New(&memstore.Options{
			Now: func() time.Time { return time.Now().Add(-time.Duration(s.ago.Load())) }})
	}
	shipping(t, &s)
	f, err := flow.New("order", flow.From(event("order.placed")),
		flow.Then(event("order.placed"), event("stock.reserved")),
		flow.Then(event("stock.reserved"), event("payment.taken"),
			event("payment.declined")).Within(time.Minute), flow.Fail(event("payment.declined")),
		flow.Then(event("payment.declined"), event("order.cancelled")),
		flow.Then(event("payment.taken"), event("order.confirmed")),
		flow.Undo(event("stock.reserved"), event("stock.released")),
		flow.End(event("order.confirmed"), event("order.cancelled")))
	if err != nil {
		t.Fatal(err)
	}
	tracker := flow.NewTracker(f, s.orders,
		&flow.Options{Key: func(m skald.Message) string { return m.Subject }})
	for i, typ := range []string{"order.placed", "stock.reserved"} {
		tx := s.orders.BeginTx()
		m := message("o-"+typ, typ, "order-1042")
		m.Time = m.Time.Add(time.Duration(i-1) * time.Minute)
		if err := tracker.Handle(t.Context(), tx, []skald.Message{m}); err != nil {
			t.Fatal(err)
		}
		if err := tx.Commit(); err != nil {
			t.Fatal(err)
		}
	}
	for i := range 6 {
		s.keep(t, s.payments, "payment", message(fmt.Sprintf("01920f5e-7a3c-7000-8000-00000000000%d", i),
			"stock.reserved", fmt.Sprint("order-", 1042+i)),
			"dial tcp 10.3.4.7:443: connect: no route to host", true)
	}
	s.keep(t, s.payments, "payment", message("01920f5e-7a3c-7000-8000-0000000000ff", "stock.reserved",
		"order-1077"), "decode the payload: unexpected end of JSON input", true)
	s.keep(t, s.stock, "stock", message("01920f5e-7a3c-7000-8000-0000000000aa", "order.placed", "order-1050"),
		"lock the shelf: deadlock detected", false)
	for consumer, db := range map[string]*memstore.Store{"payment": s.payments, "stock": s.stock} {
		if _, err := db.SyncConsumer(t.Context(),
			store.SyncRequest{Consumer: consumer,
				Heartbeat: &store.Heartbeat{Own: []store.Kind{{Topic: "orders", Type: "order.placed"}},
					Progress: true}}); err != nil {
			t.Fatal(err)
		}
	}
	return s
}

func message(id, typ, key string) skald.Message {
	return skald.Message{ID: id, Source: "/shop/order", Topic: "orders", Type: typ, Subject: key,
		Key: []byte(key), CorrelationID: key, ContentType: "application/json",
		Data: []byte(`{"order":"` + key + `","cents":4200}`),
		Time: time.Now().Add(-10 * time.Minute).UTC().Truncate(time.Second)}
}

func (s *shop) keep(t *testing.T, db store.Store, consumer string, m skald.Message, why string, dead bool) {
	t.Helper()
	p := store.Parked{Consumer: consumer, Identity: store.Identity{Source: m.Source, ID: m.ID}, Message: m,
		Attempts: 5,
		Failures: []store.Failure{
			{At: m.Time.Add(time.Second), Why: "begin the transaction: timeout", Host: consumer + "-6f7c9"},
			{At: m.Time.Add(3 * time.Second), Why: why, Host: consumer + "-6f7c9"},
			{At: m.Time.Add(9 * time.Second), Why: why, Host: consumer + "-6f7c9"},
			{At: m.Time.Add(25 * time.Second), Why: why, Host: consumer + "-x2lqv"},
			{At: m.Time.Add(time.Minute), Why: why, Host: consumer + "-x2lqv"}}}
	p.First, p.Last = p.Failures[0], p.Failures[4]
	if dead {
		p.Dead = &store.Death{At: m.Time.Add(time.Minute), Kind: "attempts", Fingerprint: fmt.Sprintf("%012x",
			crc32.ChecksumIEEE([]byte(why))), BlocksKey: true, Version: "v1.4.2"}
	}
	s.ago.Store(int64(time.Since(p.First.At))) // the consumer parked it after its first failure
	defer s.ago.Store(0)
	stood, err := db.Apply(t.Context(), store.Effect{Park: &store.Park{Parked: p}})
	if err != nil || !stood[0] {
		t.Fatal(stood, err)
	}
}

func serve(t *testing.T, s shop) string {
	t.Helper()
	h := console.New("/ops",
		map[string]console.Source{"orders": console.NewSource(s.orders).WithFlags("--store @orders.url"),
			"payments": console.NewSource(s.payments).WithFlags("--store @payments.url"),
			"stock":    console.NewSource(s.stock).WithFlags("--store @stock.url")},
		&console.Options{Local: "ann", Logger: slog.New(slog.DiscardHandler)})
	at := httptest.NewServer(h)
	t.Cleanup(at.Close)
	return at.URL + "/ops"
}

// again fails the canary once more, as its consumer would.
func again(t *testing.T, db *memstore.Store, id string) {
	t.Helper()
	for {
		list, err := store.ListParked(t.Context(), db, store.ParkedQuery{Consumer: "payment",
			Identity: &store.Identity{Source: "/shop/order", ID: id}, Limit: 1})
		if err != nil || len(list) != 1 {
			t.Fatal(list, err)
		}
		if p := list[0]; p.Dead == nil {
			zero := 0
			p.Attempts, p.Last, p.Dead = 1, store.Failure{At: time.Now(), Why: "still no route to host"},
				&store.Death{At: time.Now(), Kind: "attempts", Fingerprint: "00000000002d", BlocksKey: true}
			stood, err := db.Apply(t.Context(), store.Effect{Park: &store.Park{Parked: p, Was: &zero}})
			if err != nil || !stood[0] {
				t.Fatal(stood, err)
			}
			return
		}
	}
}

// Each way that an operator goes, in both colour schemes.
func TestConsole(t *testing.T) {
	for _, scheme := range []string{"light", "dark"} {
		t.Run(scheme, func(t *testing.T) {
			ctx, s := browse(t, scheme), broken(t)
			at := serve(t, s)
			do(t, ctx, chromedp.Navigate(at+"/"), chromedp.WaitVisible(chromedp.CSS("main")))
			shot(t, ctx, "overview-"+scheme)
			background, err := chromedp.Run(ctx,
				chromedp.Evaluate[string]("getComputedStyle(document.body).backgroundColor"))
			if err != nil {
				t.Fatal(err)
			}
			if dark := background == "rgb(18, 22, 28)"; dark != (scheme == "dark") {
				t.Errorf("%s: the background is %s", scheme, background)
			}
			story(t, ctx, at, scheme)
			canary(t, ctx, at, scheme, s)
			closed(t, ctx, at, scheme, s)
			one(t, ctx, at, scheme, s)
			stuckSaga(t, ctx, at, scheme, s)
		})
	}
}

// story reads the story of an order over three databases, by the search of the overview.
func story(t *testing.T, ctx context.Context, at, scheme string) {
	t.Helper()
	do(t, ctx, chromedp.Navigate(at+"/"), chromedp.SendKeys(chromedp.CSS("header input[type=search]"),
		"order-1042\r"), chromedp.WaitVisible(chromedp.CSS(".picture svg")))
	said := text(t, ctx)
	for _, part := range []string{"order: running", "overdue", "Held up at payments", "no route to host",
		"stock.reserved came",
		"failed on payment-6f7c9: begin the transaction: timeout", "failed on payment-x2lqv"} {
		if !strings.Contains(said, part) {
			t.Errorf("the story has no %q: %s", part, said)
		}
	}
	shot(t, ctx, "story-"+scheme)
	narrow(t, ctx, at)
}

// narrow reads the story on a phone: nothing is wider than the screen, and the tall picture is shown.
func narrow(t *testing.T, ctx context.Context, at string) {
	t.Helper()
	for _, c := range []struct {
		wide  int64
		shown string
	}{{360, "tall"}, {1300, "broad"}} {
		do(t, ctx, chromedp.EmulateViewport(c.wide, 900), chromedp.Navigate(at+"/story?q=order-1042"),
			chromedp.WaitVisible(chromedp.CSS(".picture svg."+c.shown)))
		for _, is := range []string{"document.documentElement.scrollWidth <= innerWidth",
			"[...document.querySelectorAll('.picture, .story .wide')].every((e) => e.scrollWidth <= e.clientWidth)"} {
			if fits, err := chromedp.Run(ctx, chromedp.Evaluate[bool](is)); err != nil || !fits {
				t.Errorf("at %d pixels: not %s, %v", c.wide, is, err)
			}
		}
	}
}

// canary redrives a group of dead letters, and sees it stop.
func canary(t *testing.T, ctx context.Context, at, scheme string, s shop) {
	t.Helper()
	do(t, ctx, chromedp.Navigate(at+"/"), chromedp.Click(chromedp.CSS(`a[href*="/dead/groups?in=payments"]`)),
		chromedp.WaitVisible(chromedp.CSS("td.verbs")))
	shot(t, ctx, "groups-"+scheme)
	do(t, ctx, click("Redrive"), chromedp.WaitVisible(chromedp.CSS("input[name=reason]")))
	if said := text(t, ctx); !strings.Contains(said, "it is about 6 messages") {
		t.Errorf("the plan: %s", said)
	}
	shot(t, ctx, "plan-"+scheme)
	do(t, ctx, chromedp.SendKeys(chromedp.CSS("input[name=reason]"), "the route is back"), click("Redrive 6"),
		chromedp.WaitVisible(chromedp.CSS("progress")))
	again(t, s.payments, "01920f5e-7a3c-7000-8000-000000000000")
	until(t, ctx, "failed again: still no route to host")
	shot(t, ctx, "stopped-"+scheme)
	list, err := store.ListParked(t.Context(), s.payments, store.ParkedQuery{Dead: new(bool)})
	if err != nil || len(list) > 0 {
		t.Errorf("others were redriven: %v, %v", list, err)
	}
}

// closed begins a bulk action in a tab of its own, and closes that in the middle: the action goes on. Another
// tab finds it, stops it and has it go on to its end.
func closed(t *testing.T, ctx context.Context, at, scheme string, s shop) {
	t.Helper()
	tab, leave := chromedp.NewContext(ctx)
	do(t, tab, chromedp.Navigate(at+"/dead/groups?in=payments"),
		chromedp.WaitVisible(chromedp.CSS("td.verbs")),
		chromedp.Click(chromedp.Search("//tr[contains(., 'dial tcp')]//a[contains(., 'Redrive')]")),
		chromedp.WaitVisible(chromedp.CSS("input[name=reason]")),
		chromedp.SendKeys(chromedp.CSS("input[name=reason]"), "another route"), click("Redrive 5"),
		chromedp.WaitVisible(chromedp.CSS("progress")))
	leave()
	do(t, ctx, chromedp.Navigate(at+"/runs"),
		chromedp.Click(chromedp.Search("//tr[contains(., 'another route')]//a")),
		chromedp.WaitVisible(chromedp.CSS("progress")))
	until(t, ctx, "In hand")
	shot(t, ctx, "run-"+scheme)
	do(t, ctx, click("Stop"))
	until(t, ctx, "Interrupted")
	do(t, ctx, click("Go on"))
	done := take(t, s.payments, 5)
	until(t, ctx, "Ended: 5 redriven, 5 succeeded")
	if list, err := store.ListParked(t.Context(), s.payments, store.ParkedQuery{Consumer: "payment"}); err != nil ||
		len(list) != 2 || len(done) != 5 {
		t.Errorf("%d were redriven; kept are %+v, %v", len(done), list, err)
	}
}

// take takes messages that were redriven, as their consumer would, until it has so many.
func take(t *testing.T, db store.Store, n int) map[string]bool {
	t.Helper()
	done := map[string]bool{}
	for len(done) < n {
		list, err := store.ListParked(t.Context(), db, store.ParkedQuery{Consumer: "payment", Dead: new(bool)})
		if err != nil || t.Context().Err() != nil {
			t.Fatal(err, t.Context().Err())
		}
		for i := range list {
			p, attempts := &list[i], 0
			stood, err := db.Apply(t.Context(),
				store.Effect{Mark: &store.Mark{Consumer: p.Consumer, Identity: p.Identity, Outcome: store.Done},
					Finish: &store.Finish{Consumer: p.Consumer, Identity: p.Identity, Attempts: &attempts}})
			if err != nil || !stood[0] {
				t.Fatal(stood, err)
			}
			done[p.ID] = true
		}
	}
	return done
}

// stuckSaga finds a saga that waits for an operator from the overview, and retries it: its engine ends it.
func stuckSaga(t *testing.T, ctx context.Context, at, scheme string, s shop) {
	t.Helper()
	do(t, ctx, chromedp.Navigate(at+"/"),
		chromedp.Click(chromedp.CSS(`a[href*="/sagas?in=payments&stuck=1"]`)),
		chromedp.WaitVisible(chromedp.CSS("main table")))
	if said := text(t, ctx); !strings.Contains(said, "order-1099") || !strings.Contains(said, "no van") {
		t.Errorf("the stuck sagas: %s", said)
	}
	shot(t, ctx, "sagas-"+scheme)
	do(t, ctx, chromedp.Click(chromedp.CSS(`a[href*="/saga?"]`)),
		chromedp.WaitVisible(chromedp.CSS(".picture svg")))
	shot(t, ctx, "saga-"+scheme)
	do(t, ctx, click("Retry"), chromedp.WaitVisible(chromedp.CSS("input[name=reason]")),
		chromedp.SendKeys(chromedp.CSS("input[name=reason]"), "there is a van"),
		click("Retry"), chromedp.WaitVisible(chromedp.CSS(".picture svg")))
	s.van.Store(true)
	step(t, s.engine)
	until(t, ctx, "done")
	list, err := store.ListSagas(t.Context(), s.payments, store.SagaQuery{Key: "order-1099"})
	if err != nil || len(list) != 1 || list[0].Status != "done" || list[0].Stuck {
		t.Errorf("%+v, %v", list, err)
	}
}

func step(t *testing.T, e *saga.Engine[*memstore.Tx]) {
	t.Helper()
	for busy := true; busy; {
		var err error
		if busy, err = e.Step(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
}

// shipping is an engine beside payments, whose saga is stuck until there is a van.
func shipping(t *testing.T, s *shop) {
	t.Helper()
	pay := saga.Do("pay",
		func(context.Context, *memstore.Tx, saga.Run[string]) (string, error) { return "paid", nil }, nil,
		saga.Pivot())
	ship := saga.Do("ship", func(context.Context, *memstore.Tx, saga.Run[string]) (string, error) {
		if !s.van.Load() {
			return "", skald.Permanent(errors.New("no van"))
		}
		return "by van", nil
	}, nil)
	d := saga.New("shipment", &saga.Options[string]{Key: func(s string) string { return s }}, pay, ship)
	var err error
	if s.engine, err = saga.NewEngine(s.payments, &saga.EngineOptions{Logger: slog.New(slog.DiscardHandler)},
		d); err != nil {
		t.Fatal(err)
	}
	tx := s.payments.BeginTx()
	if _, err := saga.Bind(s.engine, d).Start(t.Context(), tx, "order-1099"); err != nil {
		t.Fatal(err)
	}
	if err := tx.Commit(); err != nil {
		t.Fatal(err)
	}
	step(t, s.engine)
}

// one looks at a parked message, shows its payload, and releases it.
func one(t *testing.T, ctx context.Context, at, scheme string, s shop) {
	t.Helper()
	do(t, ctx, chromedp.Navigate(at+"/"), chromedp.Click(chromedp.CSS(`a[href*="/parked?in=stock"]`)),
		chromedp.WaitVisible(chromedp.CSS("main table")),
		chromedp.Click(chromedp.CSS(`a[href*="/message?"]`)),
		chromedp.WaitVisible(chromedp.CSS("form button")))
	if said := text(t, ctx); strings.Contains(said, "4200") {
		t.Error("the payload is shown")
	}
	do(t, ctx, click("Show it"))
	until(t, ctx, "4200")
	shot(t, ctx, "message-"+scheme)
	do(t, ctx, click("Release"), chromedp.WaitVisible(chromedp.CSS("input[name=reason]")),
		chromedp.SendKeys(chromedp.CSS("input[name=reason]"), "the shelf is free"),
		click("Release 1"), chromedp.WaitVisible(chromedp.CSS("progress")))
	until(t, ctx, "Ended: 1 of 1 messages")
	list, err := store.ListParked(t.Context(), s.stock, store.ParkedQuery{Consumer: "stock"})
	if err != nil || len(list) != 1 || list[0].Attempts != 0 {
		t.Errorf("%+v, %v", list, err)
	}
}
