package skald

// Finding is one thing that was looked at, and how it stands: skald doctor prints them.
type Finding struct {
	Name     string // of what was looked at: "synchronous_commit". It is stable
	Grade    Grade
	Observed string // what was seen, in figures
	Remedy   string // what to type or to change; "" where there is nothing to be done
}

// Grade is how well something stands.
type Grade string

// Grades.
const (
	Fine     Grade = "ok"
	Doubtful Grade = "warning" // it works, and somebody should look
	Failed   Grade = "failed"  // a promise or the operation is at stake
)
