"""Uses a server as programs with asyncpg do. Where it is comes from the environment, as for psql."""

import asyncio
import io

import asyncpg


async def queries(connection):
    assert await connection.fetchval("SELECT $1::int + 1", 41) == 42
    statement = await connection.prepare("SELECT $1::text || 'ä'")
    for number in range(10):
        assert await statement.fetchval(str(number)) == f"{number}ä"
    await connection.executemany("SELECT $1::int", [(number,) for number in range(100)])


async def transactions(connection):
    await connection.execute("CREATE TEMP TABLE asyncpg_rows (number int, line text)")
    async with connection.transaction():
        await connection.execute("INSERT INTO asyncpg_rows VALUES (1, 'kept')")
        numbers = [row[0] async for row in connection.cursor("SELECT * FROM generate_series(1, 500)")]
        assert numbers == list(range(1, 501))
    try:
        async with connection.transaction():
            await connection.execute("INSERT INTO asyncpg_rows VALUES (2, 'lost')")
            await connection.execute("SELECT 1/0")
    except asyncpg.DivisionByZeroError:
        pass
    assert [row["line"] for row in await connection.fetch("SELECT line FROM asyncpg_rows")] == ["kept"]


async def copies(connection):
    rows = [(number, "x" * 100) for number in range(10_000)]
    await connection.copy_records_to_table("asyncpg_rows", records=rows)
    output = io.BytesIO()
    await connection.copy_from_table("asyncpg_rows", output=output)
    assert output.getvalue().count(b"\n") == 10_001


async def notices(connection):
    heard = []
    connection.add_log_listener(lambda _, message: heard.append(message.message))
    await connection.execute("DO $$ BEGIN RAISE NOTICE 'have a look'; END $$")
    await asyncio.sleep(0)
    assert heard == ["have a look"], heard


async def notifications(listener):
    heard = asyncio.get_running_loop().create_future()
    await listener.add_listener("news", lambda _connection, _process, _channel, text: heard.set_result(text))
    speaker = await asyncpg.connect()
    await speaker.execute("NOTIFY news, 'extra'")
    assert await asyncio.wait_for(heard, 10) == "extra"
    await speaker.close()


async def cancel(connection):
    try:
        await connection.execute("SELECT pg_sleep(20)", timeout=0.3)
        raise AssertionError("not cancelled")
    except TimeoutError:
        pass
    assert await connection.fetchval("SELECT 'goes on'") == "goes on"


async def options():
    connection = await asyncpg.connect(server_settings={"application_name": "with asyncpg", "work_mem": "6MB"})
    assert await connection.fetchval("SHOW application_name") == "with asyncpg"
    assert await connection.fetchval("SHOW work_mem") == "6MB"
    await connection.close()


async def pool():
    async with asyncpg.create_pool(min_size=2, max_size=4) as connections:
        numbers = await asyncio.gather(*(connections.fetchval("SELECT $1::int", number) for number in range(50)))
        assert numbers == list(range(50))


async def main():
    connection = await asyncpg.connect()
    await queries(connection)
    await transactions(connection)
    await copies(connection)
    await notices(connection)
    await notifications(connection)
    await cancel(connection)
    await connection.close()
    await options()
    await pool()
    print("ok")


asyncio.run(main())
