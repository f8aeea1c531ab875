//go:build !race

package sagatest_test

const raceDetector = false
