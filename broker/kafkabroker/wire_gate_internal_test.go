package kafkabroker

import (
	"net"
	"runtime"
	"sync/atomic"
	"testing"
)

// TestGateHoldsWrites: what is written while the gate is shut goes when it is opened.
func TestGateHoldsWrites(t *testing.T) {
	near, far := net.Pipe()
	defer near.Close()
	defer far.Close()
	g, open := &gate{}, atomic.Bool{}
	g.Lock()
	written := make(chan error, 1)
	go func() {
		_, err := (&gated{near, g}).Write([]byte{1})
		written <- err
	}()
	read := make(chan bool, 1)
	go func() {
		_, _ = far.Read(make([]byte, 1))
		read <- open.Load()
	}()
	for range 1000 {
		runtime.Gosched() // the writer has its chance to be wrong
	}
	open.Store(true)
	g.Unlock()
	if err := <-written; err != nil {
		t.Fatal(err)
	}
	if !<-read {
		t.Error("written through a shut gate")
	}
}
