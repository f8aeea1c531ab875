package demo

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"

	"github.com/skald-go/skald/broker"
	"github.com/skald-go/skald/broker/natsbroker"
	"github.com/skald-go/skald/examples/shop/place"
)

// insideURL is a NATS in this process.
const insideURL = "nats:"

// inside is a NATS in this process, which nobody else reaches. Its files are in the run's folder, and on disk before it
// answers: a run that was killed finds them again.
type inside struct {
	dir string
	*server.Server
}

// newInside names it. It starts nothing: before the run has its lock another one may be at these files.
func newInside(store string) (*inside, error) {
	folder, ok := strings.CutPrefix(store, "sqlite:")
	if !ok {
		return nil, errNoFolder()
	}
	return &inside{dir: filepath.Join(folder, "nats")}, nil
}

func errNoFolder() error {
	return &place.UsageError{What: "--broker nats: has its files in the demo's folder: give --dir, or nats://host:port"}
}

// fresh is a *ForeignError if there are files though no run is begun.
func (n *inside) fresh() error {
	if _, err := os.Stat(n.dir); !errors.Is(err, fs.ErrNotExist) {
		return errors.Join(&ForeignError{What: "there is something that this demo did not make: " + n.dir, Remedy: "choose another --dir, or remove it"}, err)
	}
	return nil
}

// start returns when it answers.
func (n *inside) start() error {
	s, err := server.NewServer(&server.Options{DontListen: true, NoSigs: true, JetStream: true, StoreDir: n.dir, SyncAlways: true})
	if err != nil {
		return fmt.Errorf("start NATS in %s: %w", n.dir, err)
	}
	n.Server = s
	var said fatal
	s.SetLogger(&said, false, false)
	s.Start()
	if said.err != nil || !s.ReadyForConnections(connectTimeout) {
		return fmt.Errorf("start NATS in %s: %w", n.dir, cmp.Or(said.err, errSilent))
	}
	return nil
}

var errSilent = errors.New("it does not answer")

// fatal is a log of what keeps a server from starting.
type fatal struct{ err error }

func (*fatal) Noticef(string, ...any) {}
func (*fatal) Warnf(string, ...any)   {}
func (*fatal) Errorf(string, ...any)  {}
func (*fatal) Debugf(string, ...any)  {}
func (*fatal) Tracef(string, ...any)  {}

func (f *fatal) Fatalf(format string, v ...any) { f.err = fmt.Errorf(format, v...) }

func (n *inside) connect() (broker.Broker, error) {
	return natsbroker.New("in-process:1", &natsbroker.Options{Client: []nats.Option{nats.InProcessServer(n.Server)}})
}

func (n *inside) stop() {
	if n.Server != nil {
		n.Shutdown()
		n.WaitForShutdown()
	}
}

// remove takes its files away, and nothing else that may be beside them.
func (n *inside) remove() error {
	if err := os.RemoveAll(filepath.Join(n.dir, server.JetStreamStoreDir)); err != nil {
		return fmt.Errorf("remove the files of NATS: %w", err)
	}
	if err := os.Remove(n.dir); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("remove the folder of NATS: %w", err)
	}
	return nil
}
