package skald_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/big"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/skald-go/skald"
)

type order struct {
	ID     string `json:"id"`
	Amount int    `json:"amount"`
}

var placed = skald.Event[order]{Topic: "orders", Type: "order.placed"}

func TestEventNew(t *testing.T) {
	want := skald.Draft{Topic: "orders", Type: "order.placed", Key: []byte("7"), Value: order{"7", 5}}
	if got := placed.New("7", order{"7", 5}); !reflect.DeepEqual(got, want) {
		t.Errorf("New = %+v, want %+v", got, want)
	}
	if got := placed.New("", order{}); got.Key != nil {
		t.Errorf("an empty key became %q, want nil: no order promised", got.Key)
	}
	coded := skald.Event[int]{Topic: "t", Type: "a", Codec: reversed{}}
	if got := coded.New("k", 1); got.Codec != (reversed{}) {
		t.Errorf("the draft's codec is %v", got.Codec)
	}
}

// reversed is a codec that reverses strings.
type reversed struct{}

func (reversed) Encode(_ context.Context, m *skald.Message, v any) error {
	m.Data, m.ContentType = []byte(turned(v.(string))), "text/reversed"
	return nil
}

func (reversed) Decode(_ context.Context, m skald.Message, v any) error {
	*v.(*string) = turned(string(m.Data))
	return nil
}

func turned(s string) string {
	var b strings.Builder
	for i := len(s) - 1; i >= 0; i-- {
		b.WriteByte(s[i])
	}
	return b.String()
}

func TestEventDecode(t *testing.T) {
	m := skald.Message{ID: "1", Type: "order.placed", Data: []byte(`{"id":"7","amount":5}`)}
	got, err := placed.Decode(t.Context(), m)
	if err != nil || got.Value != (order{"7", 5}) || !reflect.DeepEqual(got.Message, m) {
		t.Errorf("Decode = %+v, %v", got, err)
	}
	text, err := skald.Event[string]{Codec: reversed{}}.Decode(t.Context(),
		skald.Message{Data: []byte("cba")})
	if err != nil || text.Value != "abc" {
		t.Errorf("Decode with a codec = %q, %v", text.Value, err)
	}
}

func TestEventDecodeNothing(t *testing.T) {
	got, err := placed.Decode(t.Context(), skald.Message{ID: "1"})
	if err != nil || got.Value != (order{}) || got.ID != "1" {
		t.Errorf("Decode of a tombstone = %+v, %v", got, err)
	}
	if _, err := placed.Decode(t.Context(),
		skald.Message{ID: "1", Type: "order.placed", Data: []byte{}}); err == nil {
		t.Error("empty data, which is no tombstone, was decoded as JSON")
	}
}

func TestJSON(t *testing.T) {
	var m skald.Message
	if err := (skald.JSON{}).Encode(t.Context(), &m, order{"7", 5}); err != nil {
		t.Fatal(err)
	}
	if string(m.Data) != `{"id":"7","amount":5}` || m.ContentType != "application/json" {
		t.Errorf("Encode = %s, %s", m.Data, m.ContentType)
	}
	m = skald.Message{Type: "order.placed"}
	if err := (skald.JSON{}).Encode(t.Context(), &m, make(chan int)); err == nil ||
		!strings.Contains(err.Error(), "encode order.placed as JSON") || m.Data != nil {
		t.Errorf("Encode of a channel = %v, data %q", err, m.Data)
	}
	m = skald.Message{ID: "id-1", Type: "order.placed", Data: []byte(`{"id":7}`)}
	if _, err := placed.Decode(t.Context(), m); err == nil ||
		!strings.Contains(err.Error(), "decode order.placed id-1 as JSON") {
		t.Errorf("Decode of another shape = %v", err)
	}
}

// TestJSONOfOtherNames checks payloads with members that the struct does not have. Decode returns an error
// if no member has a field. Strict returns an error if one member has no field. Errors do not quote values,
// because they are logged.
func TestJSONOfOtherNames(t *testing.T) {
	type embedded struct{ order }
	type pointers struct {
		At  *time.Time `json:"at"`
		Big *big.Int
	}
	for _, c := range []struct {
		data         string
		v            any
		loose, tight string // a part of the error, without and with Strict; "" means no error
	}{
		{`{"id":"7","amount":5}`, &order{}, "", ""},
		{`{"orderId":"7","sum":5}`, &order{},
			`none of the members "orderId", "sum" is a field of skald_test.order`,
			`no field for the member "orderId"`},
		// names are compared as encoding/json does
		{`{"ID":"","sum":5}`, &order{}, "", `no field for the member "sum"`},
		{`{"amount":0}`, &order{}, "", ""},
		{`{"id":"7"} x`, &order{}, "invalid character", "something follows"},
		{`{}`, &order{}, "", ""},
		{`null`, &order{}, "the payload is null", "the payload is null"},
		{" null\n", new(string), "the payload is null", "the payload is null"},
		{`null`, new(int), "the payload is null", "the payload is null"},
		{`null`, &[2]int{}, "the payload is null", "the payload is null"},
		{`null`, new(*order), "", ""},
		{`null`, &map[string]any{}, "", ""},
		{`null`, &[]int{}, "", ""},
		{`null`, new(any), "", ""},
		{`null`, &time.Time{}, "", ""},
		{`null`, &struct{}{}, "", ""},
		{`{"other":1}`, &struct{}{}, "", `no field for the member "other"`},
		{`{"other":1}`, &map[string]any{}, "", ""},
		{`{"other":1}`, new(*order), `none of the members "other"`, `no field`},
		{`{"amount":0}`, &embedded{}, "", ""},
		{`{"sum":0}`, &embedded{}, `none of the members "sum"`, `no field`},
		{`{"at":null}`, &pointers{}, "", ""},
		{`{"a":1,"b":2,"c":3,"d":4,"e":5,"f":6}`, &order{}, `"e", and 1 more`, `no field`},
	} {
		for codec, want := range map[skald.JSON]string{{}: c.loose, {Strict: true}: c.tight} {
			v := reflect.New(reflect.TypeOf(c.v).Elem()).Interface()
			err := codec.Decode(t.Context(), skald.Message{ID: "m", Type: "order.placed",
				Data: []byte(c.data)}, v)
			if want == "" && err != nil || want != "" &&
				(err == nil || !strings.Contains(err.Error(), want)) {
				t.Errorf("%+v, %s into %T: %v, want %q", codec, c.data, c.v, err, want)
			}
		}
	}
}

func TestDecodeQuotesNoPayload(t *testing.T) {
	type card struct {
		Number int32     `json:"number"`
		Until  time.Time `json:"until"`
		Mail   big.Int   `json:"mail"`
	}
	for data, says := range map[string]string{
		`{"number":4929123412341234}`:      `number for the field number, which is of type int32 (at byte 26)`,
		`{"number":"4929123412341234"}`:    `string for the field number, which is of type int32 (at byte 28)`,
		`{"until":"4929 1234 1234 1234"}`:  "a value that its own type refuses with a *time.ParseError",
		`{"mail":"4929-1234-1234-1234"}`:   "a value that its own type refuses with a *errors.errorString",
		`{"number":4929,"4929123412341234`: "unexpected end of JSON input (at byte 32)",
		`4929123412341234`:                 `number for the payload, which is of type skald_test.card (at byte 16)`,
	} {
		_, err := skald.Event[card]{Type: "card.seen"}.Decode(t.Context(),
			skald.Message{ID: "id-1", Type: "card.seen", Data: []byte(data)})
		if err == nil || err.Error() != "decode card.seen id-1 as JSON: "+says {
			t.Errorf("%s: %v, want %s", data, err, says)
		}
	}
	_, err := skald.Event[card]{}.Decode(t.Context(), skald.Message{Data: []byte(`{"until":"x"}`)})
	if cause := new(time.ParseError); !errors.As(err, &cause) {
		t.Errorf("the cause cannot be found in %v", err)
	}
}

func TestReject(t *testing.T) {
	why := errors.New("no such account")
	err := fmt.Errorf("take payment: %w",
		errors.Join(errors.New("beside"), skald.Reject(why, placed.New("7", order{}))))
	no := new(skald.RejectedError)
	if !errors.As(err, &no) || no.Err != why || len(no.Publish) != 1 || no.Publish[0].Type != "order.placed" {
		t.Errorf("errors.As found %+v", no)
	}
	if !errors.Is(err, why) {
		t.Error("the reason cannot be found through Reject")
	}
	if got := skald.Reject(why).Error(); got != "rejected: no such account" {
		t.Errorf("Error = %q", got)
	}
	if later := new(skald.LaterError); errors.As(err, &later) {
		t.Errorf("a rejection was taken for %v", later)
	}
}

func TestRetryAfter(t *testing.T) {
	why := errors.New("rate limit")
	err := fmt.Errorf("ship: %w", skald.RetryAfter(3*time.Second, why))
	later := new(skald.LaterError)
	if !errors.As(err, &later) || later.After != 3*time.Second || !errors.Is(err, why) {
		t.Errorf("errors.As found %+v", later)
	}
	if got := later.Error(); got != "not before 3s: rate limit" {
		t.Errorf("Error = %q", got)
	}
}

func TestCause(t *testing.T) {
	if m, ok := skald.Cause(t.Context()); ok {
		t.Errorf("a bare context has the cause %v", m)
	}
	ctx := skald.WithCause(skald.WithCause(t.Context(), skald.Message{ID: "outer"}),
		skald.Message{ID: "inner"})
	if m, ok := skald.Cause(ctx); !ok || m.ID != "inner" {
		t.Errorf("Cause = %v, %v, want the inner one", m.ID, ok)
	}
}

func ExampleEvent() {
	type Order struct {
		ID     string `json:"id"`
		Amount int    `json:"amount"`
	}
	orderPlaced := skald.Event[Order]{Topic: "orders", Type: "order.placed"} // declared once, for both sides

	draft := orderPlaced.New("7", Order{ID: "7", Amount: 120}) // the writer gives it to outbox.Write
	fmt.Printf("%s %s key %s\n", draft.Topic, draft.Type, draft.Key)

	arrived := skald.Message{Type: "order.placed", Data: []byte(`{"id":"7","amount":120}`)}
	// the inbox does this for typed handlers
	received, err := orderPlaced.Decode(context.Background(), arrived)
	fmt.Println(received.Value.Amount, err)
	// Output:
	// orders order.placed key 7
	// 120 <nil>
}

func ExampleReject() {
	declined := skald.Event[string]{Topic: "payments", Type: "payment.declined"}

	handle := func(balance, amount int) error {
		if balance < amount {
			return skald.Reject(fmt.Errorf("balance %d is below %d", balance, amount),
				declined.New("7", "no funds"))
		}
		return nil
	}

	err := fmt.Errorf("take payment: %w", handle(10, 120))
	if no := new(skald.RejectedError); errors.As(err, &no) {
		fmt.Println(err)
		fmt.Println("says", no.Publish[0].Type)
	}
	// Output:
	// take payment: rejected: balance 10 is below 120
	// says payment.declined
}

func ExampleRetryAfter() {
	err := skald.RetryAfter(time.Minute, errors.New("the warehouse opens at nine"))
	fmt.Println(err)
	// Output: not before 1m0s: the warehouse opens at nine
}

func ExampleRetryNow() {
	version := 7 // of the row that the handler read
	write := func(found int) error {
		if found != version {
			return skald.RetryNow(errors.New("the order has changed")) // read again, and decide again
		}
		return nil
	}
	fmt.Println(write(7), write(8))
	// Output: <nil> overtaken: the order has changed
}

type (
	texts struct {
		B   []byte
		Of  map[string]*texts
		Raw json.RawMessage
		Any any
		out string
	}
	label string
)

// TestJSONThatIsNotText checks that the codec refuses strings that are not UTF-8. encoding/json would change
// them.
func TestJSONThatIsNotText(t *testing.T) {
	for _, data := range []string{"\"a\x80\"", `"a\ud800"`} {
		var s string
		for _, codec := range []skald.JSON{{}, {Strict: true}} {
			if err := codec.Decode(t.Context(), skald.Message{Data: []byte(data)}, &s); err == nil ||
				!strings.Contains(err.Error(), "is not text") || s != "" {
				t.Errorf("%q becomes %q, %v", data, s, err)
			}
		}
	}
	for _, v := range []any{"\x80", label("\x80"), texts{Of: map[string]*texts{"k": {Any: "\x80"}}},
		map[string]int{"\x80": 1}, []any{[1]string{"\x80"}}} {
		var m skald.Message
		if err := (skald.JSON{}).Encode(t.Context(), &m, v); err == nil || m.Data != nil {
			t.Errorf("%#v becomes %s", v, m.Data)
		}
	}
	var m skald.Message
	if err := (skald.JSON{}).Encode(t.Context(), &m, texts{B: []byte{0x80}, out: "\x80", Any: "�",
		Raw: json.RawMessage(`"\ufffd"`)}); err != nil {
		t.Error(err)
	}
}

// TestVerdictsWithoutAReason checks that an error without a reason names that.
func TestVerdictsWithoutAReason(t *testing.T) {
	for name, err := range map[string]error{"Permanent": skald.Permanent(nil), "Outage": skald.Outage(nil),
		"RetryAfter": skald.RetryAfter(time.Second, nil), "RetryNow": skald.RetryNow(nil),
		"UnknownVersion": skald.UnknownVersion(nil)} {
		if !strings.Contains(err.Error(), "no reason was given") {
			t.Errorf("%s: %v", name, err)
		}
	}
}
