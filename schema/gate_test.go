package schema_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/twmb/franz-go/pkg/sr"

	"github.com/skald-go/skald"
	"github.com/skald-go/skald/failure"
	"github.com/skald-go/skald/schema"
	"github.com/skald-go/skald/schema/avro"
)

// air is a registry without a network, for tests with a fake clock. Each id has the schema avro1.
type air struct {
	asked atomic.Int64
	fault atomic.Pointer[func(r *http.Request) (*http.Response, error)]
}

func (a *air) fail(how func(r *http.Request) (*http.Response, error)) {
	if how == nil {
		a.fault.Store(nil)
		return
	}
	a.fault.Store(&how)
}

func (a *air) RoundTrip(r *http.Request) (*http.Response, error) {
	a.asked.Add(1)
	if how := a.fault.Load(); how != nil {
		return (*how)(r)
	}
	return answer(http.StatusOK, fmt.Sprintf(`{"schema":%q,"id":9,"version":1}`, avro1)), nil
}

func answer(status int, text string) *http.Response {
	return &http.Response{StatusCode: status, Header: http.Header{},
		Body: io.NopCloser(strings.NewReader(text))}
}

func status(code int) func(r *http.Request) (*http.Response, error) {
	return func(*http.Request) (*http.Response, error) { return answer(code, "{}"), nil }
}

func hangs(r *http.Request) (*http.Response, error) {
	<-r.Context().Done()
	return nil, r.Context().Err()
}

func (a *air) registry(t *testing.T, log io.Writer) *schema.Registry {
	t.Helper()
	client, err := sr.NewClient(sr.URLs("http://user:s3cr3t@registry"),
		sr.HTTPClient(&http.Client{Transport: a}))
	if err != nil {
		t.Fatal(err)
	}
	var r schema.Registry
	if err := r.Connect(schema.Config{Client: client, Logger: slog.New(slog.NewTextHandler(log,
		nil))}); err != nil {
		t.Fatal(err)
	}
	return &r
}

func paid(id int) skald.Message {
	return skald.Message{Type: "t", Data: []byte("\x00\x00\x00\x00" + string(rune(id)) + "\x04o1\x0e")}
}

// An unreachable registry gets one request per pause, however many messages wait. A message of a known
// schema is read; a message of an unknown schema fails immediately with an outage.
func TestUnreachableRegistryIsAskedOncePerPause(t *testing.T) {
	for name, c := range map[string]struct {
		how  func(r *http.Request) (*http.Response, error)
		most int64  // requests in 20 s by 16 workers, for 20 schemas
		log  string // part of the logged error
	}{
		"503":     {status(http.StatusServiceUnavailable), 27, "level=WARN"},
		"401":     {status(http.StatusUnauthorized), 27, "level=ERROR"},
		"403":     {status(http.StatusForbidden), 27, "level=ERROR"},
		"hanging": {hangs, 23, "level=WARN"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var a air
				var log bytes.Buffer
				r := a.registry(t, &log)
				codec := avro.CodecOf[payment1](r, avro1, nil)
				var v payment1
				if err := codec.Decode(t.Context(), paid(1), &v); err != nil {
					t.Fatal(err)
				}
				a.fail(c.how)
				a.asked.Store(0)
				var wg sync.WaitGroup
				var unknown, slow atomic.Int64
				for worker := range 16 {
					wg.Go(func() {
						var v payment1
						for i, begin := worker, time.Now(); time.Since(begin) < 20*time.Second; i++ {
							if err := codec.Decode(t.Context(), paid(1), &v); err != nil {
								t.Errorf("a known schema: %v", err)
							}
							one := time.Now()
							err := codec.Decode(t.Context(), paid(2+i%20), &v)
							if !failure.IsOutage(err) {
								t.Errorf("an unknown schema: %v", err)
							}
							if name[0] == '4' && !strings.Contains(err.Error(),
								"configuration error: http://registry/") {
								t.Errorf("it is not called an error of configuration: %v", err)
							}
							unknown.Add(1)
							if time.Since(one) > 0 {
								slow.Add(1)
							}
							time.Sleep(100 * time.Millisecond)
						}
					})
				}
				wg.Wait()
				if n := a.asked.Load(); n < 2 || n > c.most {
					t.Errorf("the registry got %d requests, want %d at most", n, c.most)
				}
				if n, m := slow.Load(), unknown.Load(); n > 30 || m < 2800 {
					t.Errorf("workers had to wait for %d of %d messages", n, m)
				}
				if !strings.Contains(log.String(), c.log) || strings.Contains(log.String(), "s3cr3t") ||
					strings.Count(log.String(), "\n") > 2 {
					t.Errorf("the log is\n%s", &log)
				}
				a.fail(nil)
				time.Sleep(30 * time.Second)
				for id := 2; id < 22; id++ {
					if err := codec.Decode(t.Context(), paid(id), &v); err != nil {
						t.Errorf("the registry is back: %v", err)
					}
				}
			})
		})
	}
}

// A registry that fails for one schema still answers for others.
func TestRegistryFailsForOneSchema(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var a air
		codec := avro.CodecOf[payment1](a.registry(t, io.Discard), avro1, nil)
		a.fail(func(r *http.Request) (*http.Response, error) {
			if strings.HasSuffix(r.URL.Path, "/ids/2") {
				return hangs(r)
			}
			return answer(http.StatusOK, fmt.Sprintf(`{"schema":%q}`, avro1)), nil
		})
		ctx, stop := context.WithCancel(t.Context())
		var wg sync.WaitGroup
		for range 4 {
			wg.Go(func() {
				for ctx.Err() == nil {
					var v payment1
					_ = codec.Decode(ctx, paid(2), &v)
					time.Sleep(10 * time.Millisecond)
				}
			})
		}
		time.Sleep(time.Minute)
		for id := 3; id < 10; id++ {
			var v payment1
			tries := 1
			for ; codec.Decode(t.Context(), paid(id), &v) != nil && tries < 100; tries++ {
				time.Sleep(time.Second)
			}
			if tries == 100 {
				t.Errorf("schema %d was not read", id)
			}
		}
		stop()
		wg.Wait()
	})
}

// Writers barely wait for an unavailable registry: the first for one second, the others not at all.
func TestWriteWhileRegistryHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var a air
		r := a.registry(t, io.Discard)
		a.fail(hangs)
		begin := time.Now()
		for i := range 20 {
			codec := avro.CodecOf[payment1](r, avro1, nil)
			err := codec.Encode(t.Context(), &skald.Message{Topic: fmt.Sprint("t", i)}, payment1{})
			if !failure.IsOutage(err) {
				t.Errorf("write: %v", err)
			}
		}
		if took := time.Since(begin); took > time.Second || a.asked.Load() != 1 {
			t.Errorf("20 writes took %v and %d requests", took, a.asked.Load())
		}
		time.Sleep(10 * time.Second)
		a.fail(nil)
		event := skald.Event[payment1]{Topic: "t", Type: "t", Codec: avro.CodecOf[payment1](r, avro1, nil)}
		if err := r.Warm(t.Context(), event); err != nil {
			t.Errorf("the registry is back: %v", err)
		}
	})
}

// One codec serves many events: after Warm no event needs the registry, not even with a second codec of the
// same schema.
func TestOneCodecForManyEvents(t *testing.T) {
	b := newBed(t)
	r := b.registry(t, nil)
	codec := avro.CodecOf[payment1](r, avro1, nil)
	taken := skald.Event[payment1]{Topic: "payments", Type: "payment.taken", Codec: codec}
	refunded := skald.Event[payment1]{Topic: "payments", Type: "payment.refunded", Codec: codec}
	if err := r.Warm(t.Context(), taken, refunded); err != nil {
		t.Fatal(err)
	}
	asked := b.asked.Load()
	b.away.Store(true)
	for i := range 10 {
		for _, e := range []skald.Event[payment1]{taken, refunded,
			{Topic: "payments", Type: "payment.taken", Codec: avro.CodecOf[payment1](r, avro1, nil)}} {
			m := skald.Message{Topic: e.Topic, Type: e.Type}
			if err := e.Codec.Encode(t.Context(), &m, payment1{"o1", int64(i)}); err != nil {
				t.Errorf("%s: %v", e.Type, err)
			}
		}
	}
	if now := b.asked.Load(); now != asked {
		t.Errorf("writers that are warm asked the registry %d times", now-asked)
	}
}

// A parser that panics fails its message, not the process.
func TestParserPanics(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var a air
		codec := schema.NewCodec(a.registry(t, io.Discard), panics{}, nil)
		for range 3 {
			var v payment1
			err := codec.Decode(t.Context(), paid(1), &v)
			if err == nil || failure.IsOutage(err) || !strings.Contains(err.Error(), "panic") {
				t.Errorf("%v", err)
			}
		}
	})
}

type panics struct{ avro.Format }

func (panics) ContentType() string                                { return "" }
func (panics) Own() (schema.Schema, []int, error)                 { return schema.Schema{}, nil, nil }
func (panics) Append(dst []byte, _ any) ([]byte, error)           { return dst, nil }
func (panics) Reader(schema.Schema, []int) (schema.Reader, error) { return nil, nil }
func (panics) Plain() (schema.Reader, error)                      { return nil, nil }
func (panics) Problems(schema.Schema, schema.Schema) ([]schema.Problem, error) {
	var none []int
	return nil, fmt.Errorf("%d", none[len(none)])
}
