package skald

// Finding is the result of one check of a database, a broker or a setting. skald doctor prints findings.
type Finding struct {
	Name     string // the name of the check, such as "synchronous_commit"; stable across versions
	Grade    Grade
	Observed string // the observed values
	Remedy   string // the command to run or the setting to change; "" if nothing needs to change
}

// Grade is the result of a check.
type Grade string

// Values of Grade.
const (
	Fine     Grade = "ok"
	Doubtful Grade = "warning" // it works, but an operator should look at it
	Failed   Grade = "failed"  // a guarantee of Skald or the operation is at risk
)
