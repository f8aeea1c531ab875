package verbs

import (
	"testing"

	"github.com/jackc/pgx/v5"
)

// Unless the URL says otherwise no command names a statement, which a pooler in transaction mode may lose.
func TestExecModeOfTheCommands(t *testing.T) {
	t.Parallel()
	for at, want := range map[string]pgx.QueryExecMode{
		"postgres://h/d":                      pgx.QueryExecModeCacheDescribe,
		"postgresql://h/d?sslmode=disable":    pgx.QueryExecModeCacheDescribe,
		"postgres://a:1,b:2/d":                pgx.QueryExecModeCacheDescribe,
		"postgres://h/d?user=default_query_x": pgx.QueryExecModeCacheDescribe,
		"postgres://h/d?sslmode=disable&default_query_exec_mode=cache_statement": pgx.QueryExecModeCacheStatement,
		"postgres://a:1,b:2/d?default_query_exec_mode=exec":                      pgx.QueryExecModeExec,
	} {
		db, err := Open(at, "", "")
		if err != nil {
			t.Errorf("%s: %v", at, err)
			continue
		}
		if got := db.(Server).Config.ConnConfig.DefaultQueryExecMode; got != want {
			t.Errorf("%s is %v, want %v", at, got, want)
		}
	}
}
