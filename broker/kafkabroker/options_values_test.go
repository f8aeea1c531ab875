package kafkabroker_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/skald-go/skald"
	"github.com/skald-go/skald/broker"
	"github.com/skald-go/skald/broker/kafkabroker"
)

// TestPlaces are golden: of Java's client, librdkafka and sarama 1.61.1, with 7, 12 and 1,000 partitions.
func TestPlaces(t *testing.T) {
	for partitioner, keys := range map[string]map[string][3]int{
		"murmur2": { // of the hashes in the tests of Java's client
			"21": place(-973932308), "foobar": place(-790332482),
			"a-little-bit-long-string":                         place(-985981536),
			"a-little-bit-longer-string":                       place(-1486304829),
			"lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8": place(-58897971), "abc": place(479470107),
		},
		"crc32": { // of the check value of the CRC, and as zlib has it
			"123456789": {0xcbf43926 % 7, 0xcbf43926 % 12, 0xcbf43926 % 1000},
			"a":         {0xe8b7be43 % 7, 0xe8b7be43 % 12, 0xe8b7be43 % 1000}, "": {},
		},
		"fnv1a": { // as sarama placed them
			"a": {6, 0, 76}, "21": {3, 0, 452}, "foobar": {4, 0, 576},
			"a-little-bit-long-string": {1, 4, 104}, "order-1": {1, 1, 949},
			"order-2": {0, 4, 92}, "order-3": {5, 3, 711}, "order-77": {4, 4, 932}, "kä": {1, 7, 363},
			"\x00\xff":                             {0, 0, 48},
			"0198c0de-0000-7000-8000-000000000001": {4, 3, 627},
		},
	} {
		for key, want := range keys {
			for i, n := range []int{7, 12, 1000} {
				if got, err := kafkabroker.Place(partitioner, []byte(key), n); err != nil || got != want[i] {
					t.Errorf("%s of %q in %d: %d, want %d (%v)", partitioner, key, n, got, want[i], err)
				}
			}
		}
	}
}

func place(hash int32) [3]int {
	h := int(hash & 0x7fffffff)
	return [3]int{h % 7, h % 12, h % 1000}
}

// TestPlaceOfOnesOwn: keys go where the function says; what has no partition is refused, and delays nobody.
func TestPlaceOfOnesOwn(t *testing.T) {
	fake := newFake(t)
	b := open(t, fake.seeds,
		&kafkabroker.Options{Partition: func(_ string, key []byte, _ int) int { return int(key[0]) - '0' }})
	must(t, b.MakeTopics(t.Context(), 3, "t"))
	msgs := []skald.Message{{ID: "a", Topic: "t", Key: []byte("2")}, {ID: "b", Topic: "t", Key: []byte("9")},
		{ID: "c", Topic: "t"}}
	var pe *broker.PublishError
	err := b.Publish(t.Context(), msgs).Wait(t.Context())
	if !errors.As(err, &pe) || len(pe.Refused) != 1 || pe.Refused[1] == nil || len(pe.Failed) != 0 {
		t.Fatalf("got %v", err)
	}
	names(t, err, "partition 9", "3")
	sub, err := b.Subscribe(t.Context(), broker.Group{Name: "g", Topics: []string{"t"}})
	must(t, err)
	for _, d := range take(t, sub, 2) {
		if d.ID == "a" && d.Partition != "t/2" {
			t.Errorf("it lies at %s", d.Partition)
		}
	}
}

// TestBadURLs: each is told with what is wrong and what to do, and without what may be secret.
func TestBadURLs(t *testing.T) {
	folder := t.TempDir()
	file := func(name, text string) string {
		must(t, os.WriteFile(filepath.Join(folder, name), []byte(text), 0o600))
		return filepath.Join(folder, name)
	}
	gone, empty, junk := filepath.Join(folder, "gone"), file("empty", "\n"), file("junk", "hush")
	for url, want := range map[string]string{
		"kafka://u:hush@a:1":                                   "password_file",
		"kafka://a:1?password=hush":                            "password_file",
		"kafka://a:1?sasl=plain&tls=on&user=u&x=hush%zz":       "option=value",
		"kafka://a:1?colour=hush":                              `"colour"`,
		"kafka://a:1?tls=maybe":                                "on or off",
		"kafka://a:1?tls=off&ca=x":                             "tls=off",
		"kafka://a:1?cert=x":                                   "cert and key",
		"kafka://a:1?ca=" + gone:                               gone,
		"kafka://a:1?ca=" + junk:                               "no certificate in",
		"kafka://a:1?cert=" + junk + "&key=" + junk:            "client's certificate",
		"kafka://a:1?user=u":                                   "without sasl",
		"kafka://a:1?sasl=gssapi&user=u":                       "SKALD_KAFKA_PASSWORD",
		"kafka://a:1?sasl=scram-sha-512":                       "SKALD_KAFKA_USER",
		"kafka://a:1?sasl=plain&user=u&password_file=" + junk:  "tls=on",
		"kafka://a:1?sasl=md5&user=u&password_file=" + junk:    "scram-sha-512",
		"kafka://a:1?sasl=plain&user=u&password_file=" + gone:  gone,
		"kafka://a:1?sasl=plain&user=u&password_file=" + empty: "empty",
		"kafka://a:1?partitioner=md5":                          "murmur2",
		"kafka://a:1?balancers=range,best":                     "roundrobin",
		"kafka://a:1?start=yesterday":                          "earliest",
		"kafka://a:1?envelope=id:cookie:x":                     "header:NAME",
		"kafka://a:1?envelope=name:header:x":                   "cloudevents, off",
		"kafka://a:1?start=latest&start=earliest":              "2 times",
	} {
		_, _, err := kafkabroker.ParseURL(url, func(string) string { return "" })
		if names(t, err, want); err != nil && strings.Contains(err.Error(), "hush") {
			t.Errorf("%s: %v", url, err)
		}
	}
	_, opts, err := kafkabroker.ParseURL("kafka://a:1,b:2/?partitioner=crc32&balancers=range,roundrobin&start=latest&envelope=id:header:message-id,type:json:kind,source:/old", nil)
	must(t, err)
	if opts.Partitioner != "crc32" || len(opts.Balancers) != 2 || opts.Start != "latest" ||
		*opts.Envelope != (broker.Envelope{ID: "header:message-id", Type: "json:kind", Source: "/old"}) {
		t.Errorf("got %+v, %+v", opts, opts.Envelope)
	}
}
