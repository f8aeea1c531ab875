package page

import (
	"sync"
	"time"
)

const (
	Over  = time.Hour        // so far back are points kept
	Every = 30 * time.Second // so far are points apart, at least
)

// A Point is how a source stood at a time, when somebody looked.
type Point struct {
	At            time.Time `json:"at"`
	Pending       int64     `json:"pending"`
	OldestSeconds float64   `json:"oldest_seconds"`
	Kept          int64     `json:"kept"` // parked and dead
}

// A trace is the points of the last hour. It is of this process, and costs no query: what the overview reads
// anyhow is noted.
type trace struct {
	mu     sync.Mutex
	points []Point
}

// Add notes a point, unless the last one is too near, and returns those of the last hour.
func (t *trace) Add(now Point) []Point {
	t.mu.Lock()
	defer t.mu.Unlock()
	if n := len(t.points); n == 0 || now.At.Sub(t.points[n-1].At) >= Every {
		t.points = append(t.points, now)
	}
	for len(t.points) > 0 && now.At.Sub(t.points[0].At) > Over {
		t.points = t.points[1:]
	}
	return append([]Point{}, t.points...)
}
