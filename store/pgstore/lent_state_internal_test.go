package pgstore

import "testing"

// A statement that leaves state is found, and one that leaves none is not.
func TestStatementsThatLeaveState(t *testing.T) {
	t.Parallel()
	for sql, want := range map[string]lasting{
		"SET LOCAL search_path = a":                                        {true, false},
		"set x.y = 'b'":                                                    {true, true},
		"-- name: Tenant\nSET x.y = 'b'":                                   {true, true},
		"/* a */ -- b\n (SELECT 1)":                                        {},
		"SELECT set_config('app.tenant', $1, true)":                        {true, false},
		"SELECT set_config('app.tenant', $1, $2)":                          {true, true},
		"SELECT set_config('app.tenant', 'a', false)":                      {true, true},
		"SET TRANSACTION READ ONLY":                                        {true, false},
		"SET CONSTRAINTS ALL DEFERRED":                                     {true, false},
		"INSERT INTO t VALUES (1); RESET ALL":                              {true, true},
		"DO $$BEGIN PERFORM 1; END$$":                                      {true, true},
		"CALL p()":                                                         {true, true},
		"CREATE TEMP TABLE IF NOT EXISTS s (id int)":                       {true, true},
		"create temporary table s (id int) on commit drop":                 {true, false},
		"CREATE OR REPLACE TEMP VIEW v AS SELECT 1":                        {true, true},
		"SELECT id INTO TEMP s FROM t":                                     {true, true},
		"INSERT INTO readings (temp, temporary) VALUES ($1, $2)":           {},
		"CREATE TABLE pg_temp.s (id int)":                                  {true, true},
		"SELECT temp FROM readings":                                        {},
		"UPDATE t SET a = 1":                                               {},
		"INSERT INTO t VALUES ($1) ON CONFLICT (id) DO UPDATE SET a = 'x'": {},
		"DECLARE c CURSOR FOR SELECT 1":                                    {true, false},
		"DECLARE c CURSOR WITH HOLD FOR SELECT 1":                          {true, true},
		"SELECT pg_advisory_lock(1)":                                       {true, true},
		"SELECT pg_try_advisory_lock_shared(1)":                            {true, true},
		"SELECT pg_advisory_xact_lock(1)":                                  {},
		"LISTEN a":                                                         {true, true},
		"PREPARE p AS SELECT 1":                                            {true, true},
		"DEALLOCATE ALL":                                                   {true, true},
		"SAVEPOINT a":                                                      {true, false},
	} {
		if got := stateLeftBy(sql); got != want {
			t.Errorf("%s: %+v, want %+v", sql, got, want)
		}
	}
}
