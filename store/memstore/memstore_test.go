package memstore_test

import (
	"testing"

	"github.com/skald-go/skald/store/storetest"
)

func TestConformance(t *testing.T) { storetest.Run(t, storetest.Memory()) }

func TestDifferential(t *testing.T) { storetest.Differential(t, storetest.Memory()) }
