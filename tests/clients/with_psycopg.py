"""Uses a server as programs with psycopg do. Where it is comes from the environment, as for psql."""

import threading

import psycopg


SLEEPERS = "SELECT count(*) FROM pg_stat_activity WHERE wait_event = 'PgSleep'"


def connect(**options):
    return psycopg.connect(**options)


def queries(connection):
    assert connection.execute("SELECT %s::int + 1", (41,)).fetchone() == (42,)
    # Binary results, and a statement that the driver prepares after its fifth use.
    with connection.cursor(binary=True) as cursor:
        for number in range(10):
            assert cursor.execute("SELECT %s::bigint, %s::text", (number, "ä")).fetchone() == (number, "ä")


def transactions(connection):
    connection.execute("CREATE TEMP TABLE psycopg_rows (number int, line text)")
    connection.commit()
    with connection.transaction():
        connection.execute("INSERT INTO psycopg_rows VALUES (1, 'kept')")
    try:
        with connection.transaction():
            connection.execute("INSERT INTO psycopg_rows VALUES (2, 'lost')")
            connection.execute("SELECT 1/0")
    except psycopg.errors.DivisionByZero:
        pass
    assert connection.execute("SELECT line FROM psycopg_rows").fetchall() == [("kept",)]


def copies(connection):
    with connection.cursor() as cursor:
        with cursor.copy("COPY psycopg_rows FROM STDIN") as copy:
            for number in range(10_000):
                copy.write_row((number, "x" * 100))
        with cursor.copy("COPY psycopg_rows TO STDOUT") as copy:
            assert sum(1 for _ in copy.rows()) == 10_001
    connection.commit()


def pipeline(connection):
    with connection.pipeline():
        cursors = [connection.execute("SELECT %s::int", (number,)) for number in range(100)]
    assert [cursor.fetchone()[0] for cursor in cursors] == list(range(100))
    connection.commit()


def notices(connection):
    heard = []
    connection.add_notice_handler(lambda notice: heard.append(notice.message_primary))
    connection.execute("DO $$ BEGIN RAISE NOTICE 'have a look'; END $$")
    connection.commit()
    assert heard == ["have a look"], heard


def notifications():
    with connect(autocommit=True) as listener, connect(autocommit=True) as speaker:
        listener.execute("LISTEN news")
        speaker.execute("NOTIFY news, 'extra'")
        for notification in listener.notifies(timeout=10, stop_after=1):
            assert notification.payload == "extra"
            return
        raise AssertionError("no notification")


def cancel(connection):
    def cancel_when_it_sleeps():
        with connect(autocommit=True) as observer:
            while observer.execute(SLEEPERS).fetchone() != (1,):
                pass
        connection.cancel_safe()

    other = threading.Thread(target=cancel_when_it_sleeps)
    other.start()
    try:
        connection.execute("SELECT pg_sleep(20)")
        raise AssertionError("not cancelled")
    except psycopg.errors.QueryCanceled:
        connection.rollback()
    other.join()
    assert connection.execute("SELECT 'goes on'").fetchone() == ("goes on",)
    connection.commit()


def options():
    with connect(application_name="with psycopg", options="-c work_mem=6MB", client_encoding="latin1") as connection:
        assert connection.execute("SHOW application_name").fetchone() == ("with psycopg",)
        assert connection.execute("SHOW work_mem").fetchone() == ("6MB",)
        assert connection.execute("SELECT 'ä'").fetchone() == ("ä",)


with connect() as first:
    queries(first)
    transactions(first)
    copies(first)
    pipeline(first)
    notices(first)
    cancel(first)
notifications()
options()
print("ok")
