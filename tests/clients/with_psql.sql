-- Uses a server as people with psql do.
\set ON_ERROR_STOP on
SELECT 1 AS one \gset
\if :one
\else
  \quit 1
\endif
BEGIN;
CREATE TEMP TABLE psql_rows (number int, line text);
\copy psql_rows FROM PROGRAM 'seq 1 10000 | sed "s/$/\tline/"'
SAVEPOINT before;
INSERT INTO psql_rows VALUES (0, 'lost');
ROLLBACK TO before;
COMMIT;
\copy (SELECT number FROM psql_rows ORDER BY number DESC LIMIT 1) TO STDOUT
\d psql_rows
DO $$ BEGIN RAISE NOTICE 'have a look'; END $$;
LISTEN news;
NOTIFY news, 'extra';
SELECT 'the end' AS text;
