package page

import (
	"sync"
	"time"
)

const (
	Over  = time.Hour        // the age at which points are deleted
	Every = 30 * time.Second // the minimum time between two points
)

// Point has values of a source at one time.
type Point struct {
	At            time.Time `json:"at"`
	Pending       int64     `json:"pending"`
	OldestSeconds float64   `json:"oldest_seconds"`
	Kept          int64     `json:"kept"` // the number of parked messages and dead letters
}

// trace has the points of the last hour, in memory. It sends no queries: it gets the values that the overview
// has read.
type trace struct {
	mu     sync.Mutex
	points []Point
}

// Add records a point, unless the last point is newer than Every. It returns the points of the last hour.
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
