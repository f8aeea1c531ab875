//go:build !race

package kafkabroker_test

import (
	"bufio"
	"bytes"
	"context"
	"crypto/rand"
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"log/slog"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kbin"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/skald-go/skald"
	"github.com/skald-go/skald/broker/kafkabroker"
	"github.com/skald-go/skald/inbox"
	"github.com/skald-go/skald/internal/need"
	"github.com/skald-go/skald/store"
	"github.com/skald-go/skald/store/memstore"
)

// bombed is the environment variable with the topic that a child process of TestMemoryOfHostileBatches
// consumes.
const bombed = "SKALD_TEST_BOMBED"

const bombPartitions = 4

// bomb is a batch that is small at Kafka and large when it is unpacked.
type bomb struct {
	codec   kgo.CompressionCodec
	count   int // how many of them
	records []byte
	n       int // how many records
}

// A process that consumes hostile batches stays below 300 MB, and handles the messages behind them.
func TestMemoryOfHostileBatches(t *testing.T) {
	if topic := os.Getenv(bombed); topic != "" {
		consumeBombed(t, topic)
		return
	}
	seeds := need.Kafka(t)
	zeros := func(mib int) []byte { return rawRecord(0, make([]byte, mib<<20), 0) }
	many := 24 // more than twice the bound
	if need.Full() {
		many = 60
	}
	for name, bombs := range map[string][]bomb{
		"zstd, 30 MiB of zeros":               {{kgo.ZstdCompression(), many, zeros(30), 1}},
		"zstd, 4 x 1.2 million empty records": {{kgo.ZstdCompression(), 4, empties(1_200_000), 1_200_000}},
		"headers and other codecs": {
			{kgo.ZstdCompression(), 4, rawRecord(0, nil, 8_000_000), 1},
			{kgo.GzipCompression(), 12, zeros(30), 1},
			{kgo.Lz4Compression(), 12, zeros(30), 1},
			{kgo.SnappyCompression(), 12, zeros(10), 1},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			topic := "bombs-" + rand.Text()
			drop(t, seeds, topic, bombs)
			child := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestMemoryOfHostileBatches$")
			child.Env = append(os.Environ(), bombed+"="+topic)
			out, err := child.CombinedOutput()
			if err != nil {
				t.Fatalf("%v: %s", err, out)
			}
			_, after, _ := strings.Cut(string(out), "peak ")
			kib, err := strconv.Atoi(strings.Fields(after + " ?")[0])
			if err != nil || kib > 300_000 {
				t.Errorf("the process took %d KiB: %s", kib, out)
			}
			t.Logf("%d KiB", kib)
		})
	}
}

// consumeBombed handles the good message of each partition. It prints the maximum memory of the process.
func consumeBombed(t *testing.T, topic string) {
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	b, err := kafkabroker.New(need.Kafka(t), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	in := inbox.New(memstore.New(nil), b, topic, &inbox.Options{Logger: slog.New(slog.DiscardHandler)})
	handled := make(chan struct{}, bombPartitions)
	inbox.On(in, skald.Event[string]{Topic: topic, Type: "good"},
		func(context.Context, *memstore.Tx, skald.Received[string]) error {
			handled <- struct{}{}
			return nil
		})
	done := make(chan error, 1)
	go func() { done <- in.Run(ctx) }()
	for range bombPartitions {
		select {
		case <-handled:
		case err := <-done:
			t.Fatalf("a good message was not handled: %v", err)
		}
	}
	status, err := os.Open("/proc/self/status")
	if err != nil {
		t.Fatal(err)
	}
	defer status.Close()
	for lines := bufio.NewScanner(status); lines.Scan(); {
		if f := strings.Fields(lines.Text()); f[0] == "VmHWM:" {
			fmt.Println("peak", f[1], f[2])
		}
	}
	cancel()
	<-done
}

// A consumer that is restarted goes on behind a hostile batch: the batch is one dead letter, and each later
// message is handled once.
func TestConsumerIsRestartedBehindAHostileBatch(t *testing.T) {
	seeds, topic := need.Kafka(t), fmt.Sprintf("bombs-%d", time.Now().UnixNano())
	zeros := rawRecord(0, make([]byte, 40<<20), 0)
	drop(t, seeds, topic, []bomb{{kgo.ZstdCompression(), bombPartitions, zeros, 1}})
	cl, err := kgo.NewClient(kgo.SeedBrokers(seeds), kgo.RecordPartitioner(kgo.ManualPartitioner()))
	if err != nil {
		t.Fatal(err)
	}
	defer cl.Close()
	db := memstore.New(nil)
	for _, id := range []string{"again", "last", ""} {
		handled := consumeUntil(t, db, seeds, topic, bombPartitions)
		if slices.Sort(handled); len(slices.Compact(slices.Clone(handled))) != bombPartitions ||
			len(handled) != bombPartitions {
			t.Errorf("before %q the consumer handled %v", id, handled)
		}
		kept, err := store.ListParked(t.Context(), db, store.ParkedQuery{Consumer: topic})
		if err != nil || len(kept) != bombPartitions {
			t.Fatalf("kept %d messages, %v", len(kept), err)
		}
		for _, k := range kept {
			if k.Dead == nil || k.Dead.Kind != "too_large" {
				t.Errorf("kept %+v", k)
			}
		}
		if id != "" {
			good(t, cl, topic, id)
		}
	}
}

// consumeUntil runs a consumer until it has handled n messages, and returns their ids.
func consumeUntil(t *testing.T, db *memstore.Store, seeds, topic string, n int) (ids []string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()
	b, err := kafkabroker.New(seeds, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	in := inbox.New(db, b, topic, &inbox.Options{Logger: slog.New(slog.DiscardHandler)})
	handled := make(chan string, 100)
	inbox.On(in, skald.Event[string]{Topic: topic, Type: "good"},
		func(_ context.Context, _ *memstore.Tx, m skald.Received[string]) error {
			handled <- m.ID
			return nil
		})
	done := make(chan error, 1)
	go func() { done <- in.Run(ctx) }()
	for len(ids) < n {
		select {
		case id := <-handled:
			ids = append(ids, id)
		case err := <-done:
			t.Fatalf("it handled %v: %v", ids, err)
		}
	}
	cancel()
	if err := <-done; err != nil {
		t.Error(err)
	}
	for len(handled) > 0 {
		ids = append(ids, <-handled)
	}
	return ids
}

// drop publishes bombs to all partitions of a new topic, and then a good message to each partition.
func drop(t *testing.T, seeds, topic string, bombs []bomb) {
	t.Helper()
	b, err := kafkabroker.New(seeds, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	if err := b.MakeTopics(t.Context(), bombPartitions, topic); err != nil {
		t.Fatal(err)
	}
	cl, err := kgo.NewClient(kgo.SeedBrokers(seeds), kgo.RecordPartitioner(kgo.ManualPartitioner()))
	if err != nil {
		t.Fatal(err)
	}
	defer cl.Close()
	there, err := kadm.NewClient(cl).ListTopics(t.Context(), topic)
	if err != nil {
		t.Fatal(err)
	}
	for _, one := range bombs {
		batch := one.batch(t)
		for i := range one.count {
			produce(t, cl, topic, there[topic].ID, int32(i%bombPartitions), batch)
		}
	}
	good(t, cl, topic, "good")
}

// good publishes a message that a handler can decode to each partition.
func good(t *testing.T, cl *kgo.Client, topic, id string) {
	t.Helper()
	for i := range int32(bombPartitions) {
		one := &kgo.Record{Topic: topic, Partition: i, Value: []byte(`"good"`)}
		for _, h := range []string{"ce_specversion=1.0", "content-type=application/json", "ce_type=good",
			"ce_source=/test", fmt.Sprintf("ce_id=%s-%d", id, i)} {
			name, value, _ := strings.Cut(h, "=")
			one.Headers = append(one.Headers, kgo.RecordHeader{Key: name, Value: []byte(value)})
		}
		if err := cl.ProduceSync(t.Context(), one).FirstErr(); err != nil {
			t.Fatal(err)
		}
	}
}

func produce(t *testing.T, cl *kgo.Client, topic string, id kadm.TopicID, partition int32, batch []byte) {
	t.Helper()
	req := kmsg.NewPtrProduceRequest()
	req.Acks, req.TimeoutMillis = -1, 10_000
	at := kmsg.NewProduceRequestTopic()
	at.Topic, at.TopicID = topic, id
	part := kmsg.NewProduceRequestTopicPartition()
	part.Partition, part.Records = partition, batch
	at.Partitions = append(at.Partitions, part)
	req.Topics = append(req.Topics, at)
	for { // the partition may be new to its leader
		resp, err := req.RequestWith(t.Context(), cl)
		if err == nil {
			err = kerr.ErrorForCode(resp.Topics[0].Partitions[0].ErrorCode)
		}
		if err == nil {
			return
		}
		if !kerr.IsRetriable(err) || t.Context().Err() != nil {
			t.Fatal(err)
		}
		time.Sleep(20 * time.Millisecond)
	}
}

// batch returns a batch in Kafka's format, version 2.
func (b *bomb) batch(t *testing.T) []byte {
	t.Helper()
	compressor, err := kgo.DefaultCompressor(b.codec)
	if err != nil {
		t.Fatal(err)
	}
	records, attributes := b.records, kgo.CompressionCodecType(0)
	if compressor != nil {
		records, attributes = compressor.Compress(&bytes.Buffer{}, b.records)
	}
	rb := kmsg.RecordBatch{Magic: 2, Attributes: int16(attributes), LastOffsetDelta: int32(b.n - 1),
		FirstTimestamp: time.Now().UnixMilli(), MaxTimestamp: time.Now().UnixMilli(), ProducerID: -1,
		ProducerEpoch: -1, FirstSequence: -1, NumRecords: int32(b.n), Records: records}
	raw := rb.AppendTo(nil)
	binary.BigEndian.PutUint32(raw[8:], uint32(len(raw)-12))
	binary.BigEndian.PutUint32(raw[17:], crc32.Checksum(raw[21:], crc32.MakeTable(crc32.Castagnoli)))
	return raw
}

func empties(n int) (raw []byte) {
	for i := range n {
		raw = append(raw, rawRecord(i, nil, 0)...)
	}
	return raw
}

// rawRecord returns an encoded record with that offset in its batch, and with a number of empty headers.
func rawRecord(offset int, value []byte, headers int) []byte {
	in := []byte{0, 0} // attributes and time
	in = kbin.AppendVarint(in, int32(offset))
	in = kbin.AppendVarint(in, -1) // no key
	in = kbin.AppendVarint(in, int32(len(value)))
	in = append(in, value...)
	in = kbin.AppendVarint(in, int32(headers))
	in = append(in, make([]byte, 2*headers)...)
	return append(kbin.AppendVarint(nil, int32(len(in))), in...)
}
